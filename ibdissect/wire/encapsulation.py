"""Which headers surround InfiniBand? ERF pseudo-header, Ethernet, VLAN, Linux cooked, IPv4, IPv6, UDP."""

from __future__ import annotations

from datetime import UTC, datetime

from .spec import Struct, bit, enum, flag, gid, ip4, mac, pad, part, raw, uint

ETHERTYPES = {
    0x0800: "IPv4", 0x0806: "ARP", 0x8100: "802.1Q", 0x86DD: "IPv6", 0x88A8: "802.1ad", 0x8915: "RoCE v1", 0x88CC: "LLDP",
    0x9100: "802.1QinQ",
}  # fmt: skip
ETHERTYPES_VLAN = (0x8100, 0x88A8, 0x9100)
"""A VLAN tag follows; 0x9100 is what switches used for an outer tag before 802.1ad."""
ERF_ETHERNET, ERF_INFINIBAND, ERF_INFINIBAND_LINK = (2, 11, 16, 20), 21, 25
ERF_TYPES = {2: "ETH", 16: "COLOR_ETH", ERF_INFINIBAND: "INFINIBAND", ERF_INFINIBAND_LINK: "INFINIBAND_LINK"}
IP_PROTOCOLS = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 0x1B: "IBA transport"}
ECN = {0: "Not-ECT", 1: "ECT(1)", 2: "ECT(0)", 3: "CE"}
PACKET_TYPES = {0: "to us", 1: "broadcast", 2: "multicast", 3: "to another host", 4: "from us"}
ROCE_PORT = 4791
ETHERTYPE_ROCE = 0x8915


def erf_time_text(value: int) -> str:
    """An ERF timestamp as UTC; the field is little-endian 32.32 fixed point, `value` its bytes read big-endian."""
    stamp = int.from_bytes(value.to_bytes(8, "big"), "little")
    seconds, nanoseconds = stamp >> 32, ((stamp & 0xFFFFFFFF) * 1_000_000_000 + (1 << 31)) >> 32
    when = datetime.fromtimestamp(seconds + nanoseconds // 1_000_000_000, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 1_000_000_000:09d}Z"


class ERF(Struct):
    """Extensible Record Format pseudo-header of Endace cards and ibdump (timestamp little-endian, the rest big-endian)."""

    key, section, size, title = "erf", "Endace ERF; ibdump README", 16, "ERF"
    timestamp = uint(64, "Timestamp", at="0", base="hex", show=erf_time_text, ws="erf.ts")
    types = uint(8, "Record type", at="8", base="hex", ws="erf.types")
    type_ext_header = bit(types, 7, "Extension header present", ws="erf.types.ext_header")
    type = part(types, 6, 0, "Type", values=ERF_TYPES, ws="erf.types.type")
    flags = uint(8, "Flags", at="9", base="hex", ws="erf.flags")
    reserved = part(flags, 7, 6, "Reserved", ws="erf.flags.res")
    ds_error = bit(flags, 5, "DS error", ws="erf.flags.dse")
    rx_error = bit(flags, 4, "RX error", ws="erf.flags.rxe")
    truncated = bit(flags, 3, "Truncated", ws="erf.flags.trunc")
    varying_length = bit(flags, 2, "Varying record length", ws="erf.flags.vlen")
    capture_interface = part(flags, 1, 0, "Capture interface", ws="erf.flags.cap")
    record_length = uint(16, "Record length", at="10", ws="erf.rlen")
    loss_counter = uint(16, "Loss counter", at="12", ws="erf.lctr")
    wire_length = uint(16, "Wire length", at="14", ws="erf.wlen")


class Ethernet(Struct):
    """Ethernet II header."""

    key, section, size = "eth", "IEEE 802.3", 14
    destination = mac("Destination", at="0", ws="eth.dst")
    source = mac("Source", at="6", ws="eth.src")
    type = enum(16, ETHERTYPES, "Type", at="12", base="hex", ws="eth.type")


class VLAN(Struct):
    """802.1Q or 802.1ad tag."""

    key, section, size = "vlan", "IEEE 802.1Q", 4
    priority = uint(3, "Priority", at="0", ws="vlan.priority")
    dei = flag("DEI", at="0[3]", ws="vlan.dei")
    id = uint(12, "ID", at="0[4]", ws="vlan.id")
    type = enum(16, ETHERTYPES, "Type", at="2", base="hex", ws="vlan.etype")


class SLL(Struct):
    """Linux cooked capture header, version 1 (link type 113)."""

    key, section, size, title = "sll", "LINKTYPE_LINUX_SLL", 16, "Linux cooked"
    packet_type = enum(16, PACKET_TYPES, "Packet type", at="0", ws="sll.pkttype")
    address_type = uint(16, "Link-layer address type", at="2", ws="sll.hatype")
    address_length = uint(16, "Link-layer address length", at="4", ws="sll.halen")
    source = mac("Source", at="6", ws="sll.src.eth")
    unused = raw(2, "Unused", at="12", ws="sll.unused")
    type = enum(16, ETHERTYPES, "Protocol", at="14", base="hex", ws="sll.etype")


class SLL2(Struct):
    """Linux cooked capture header, version 2 (link type 276)."""

    key, section, size, title = "sll2", "LINKTYPE_LINUX_SLL2", 20, "Linux cooked v2"
    type = enum(16, ETHERTYPES, "Protocol", at="0", base="hex", ws="sll.etype")
    reserved = pad(16, at="2", ws="sll.reserved")
    interface = uint(32, "Interface index", at="4", ws="sll.ifindex")
    address_type = uint(16, "Link-layer address type", at="8", ws="sll.hatype")
    packet_type = enum(8, PACKET_TYPES, "Packet type", at="10", ws="sll.pkttype")
    address_length = uint(8, "Link-layer address length", at="11", ws="sll.halen")
    source = mac("Source", at="12", ws="sll.src.eth")
    unused = raw(2, "Unused", at="18", ws="sll.unused")


class IPv4(Struct):
    """IPv4 header without options."""

    key, section, size = "ip", "RFC 791", 20
    version = uint(4, "Version", at="0", ws="ip.version")
    header_length = uint(4, "Header length", at="0[4]", unit="words", ws="ip.hdr_len")
    dsfield = uint(8, "Differentiated Services Field", at="1", base="hex", ws="ip.dsfield")
    dscp = part(dsfield, 7, 2, "DSCP", ws="ip.dsfield.dscp")
    ecn = part(dsfield, 1, 0, "ECN", values=ECN, ws="ip.dsfield.ecn")
    total_length = uint(16, "Total length", at="2", ws="ip.len")
    identification = uint(16, "Identification", at="4", base="hex", ws="ip.id")
    reserved = flag("Reserved bit", at="6", ws="ip.flags.rb")
    dont_fragment = flag("Don't fragment", at="6[1]", ws="ip.flags.df")
    more_fragments = flag("More fragments", at="6[2]", ws="ip.flags.mf")
    fragment_offset = uint(13, "Fragment offset", at="6[3]", ws="ip.frag_offset")
    ttl = uint(8, "Time to live", at="8", ws="ip.ttl")
    protocol = enum(8, IP_PROTOCOLS, "Protocol", at="9", ws="ip.proto")
    checksum = uint(16, "Header checksum", at="10", base="hex", ws="ip.checksum")
    source = ip4("Source", at="12", ws="ip.src")
    destination = ip4("Destination", at="16", ws="ip.dst")


class IPv6(Struct):
    """IPv6 header."""

    key, section, size = "ipv6", "RFC 8200", 40
    version = uint(4, "Version", at="0", ws="ipv6.version")
    traffic_class = uint(8, "Traffic class", at="0[4]", base="hex", ws="ipv6.tclass")
    dscp = part(traffic_class, 7, 2, "DSCP", ws="ipv6.tclass.dscp")
    ecn = part(traffic_class, 1, 0, "ECN", values=ECN, ws="ipv6.tclass.ecn")
    flow_label = uint(20, "Flow label", at="1[4]", base="hex", ws="ipv6.flow")
    payload_length = uint(16, "Payload length", at="4", ws="ipv6.plen")
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="6", ws="ipv6.nxt")
    hop_limit = uint(8, "Hop limit", at="7", ws="ipv6.hlim")
    source = gid("Source", at="8", ws="ipv6.src")
    destination = gid("Destination", at="24", ws="ipv6.dst")


class UDP(Struct):
    """UDP header; destination port 4791 is RoCE v2."""

    key, section, size = "udp", "RFC 768", 8
    source_port = uint(16, "Source port", at="0", ws="udp.srcport")
    destination_port = uint(16, "Destination port", at="2", ws="udp.dstport")
    length = uint(16, "Length", at="4", ws="udp.length")
    checksum = uint(16, "Checksum", at="6", base="hex", ws="udp.checksum", holds="checksum")
