"""Headers around InfiniBand: ERF pseudo-header, Ethernet, VLAN, Linux cooked, IPv4, IPv6, UDP, and those of tunnels."""

from __future__ import annotations

from datetime import UTC, datetime

from .column import column
from .spec import Struct, bit, enum, flag, gid, ip4, mac, pad, part, raw, uint

ETHERTYPES = {
    0x0800: "IPv4", 0x0806: "ARP", 0x8808: "MAC control", 0x6558: "Transparent Ethernet bridging", 0x8100: "802.1Q", 0x86DD: "IPv6",
    0x8847: "MPLS", 0x8848: "MPLS with upstream-assigned label", 0x88A8: "802.1ad", 0x8915: "RoCE v1", 0x88CC: "LLDP", 0x9100: "802.1QinQ",
}  # fmt: skip
ETHERTYPE_IPV4, ETHERTYPE_ARP, ETHERTYPE_IPV6, ETHERTYPE_ROCE = 0x0800, 0x0806, 0x86DD, 0x8915
ETHERTYPE_MAC_CONTROL = 0x8808
ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM = 0x8847, 0x8848
ETHERTYPES_VLAN = ETHERTYPE_8021Q, ETHERTYPE_8021AD, ETHERTYPE_QINQ = 0x8100, 0x88A8, 0x9100
"""A VLAN tag follows; 0x9100 is what switches used for an outer tag before 802.1ad."""
ERF_ETHERNET, ERF_INFINIBAND, ERF_INFINIBAND_LINK, ERF_IPV4, ERF_IPV6 = (2, 11, 16, 20), 21, 25, 22, 23
ERF_TYPES = {
    0: "LEGACY", 1: "HDLC_POS", 2: "ETH", 3: "ATM", 4: "AAL5", 5: "MC_HDLC", 6: "MC_RAW", 7: "MC_ATM", 8: "MC_RAW_CHANNEL", 9: "MC_AAL5",
    10: "COLOR_HDLC_POS", 11: "COLOR_ETH", 12: "MC_AAL2", 13: "IP_COUNTER", 14: "TCP_FLOW_COUNTER", 15: "DSM_COLOR_HDLC_POS",
    16: "DSM_COLOR_ETH", 17: "COLOR_MC_HDLC_POS", 18: "AAL2", 19: "COLOR_HASH_POS", 20: "COLOR_HASH_ETH", ERF_INFINIBAND: "INFINIBAND",
    ERF_IPV4: "IPV4", ERF_IPV6: "IPV6", 24: "RAW_LINK", ERF_INFINIBAND_LINK: "INFINIBAND_LINK", 27: "META", 28: "OPA_SNC", 29: "OPA_9B",
    **{32 + i: f"INTERNAL{i}" for i in range(16)}, 48: "PAD",
}  # fmt: skip
"""Types of records of Endace, as its own header and that of Wireshark list them."""
IP_PROTOCOLS = {
    0: "Hop-by-Hop options", 1: "ICMP", 2: "IGMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 43: "Routing header", 44: "Fragment header",
    47: "GRE", 51: "Authentication header", 58: "ICMPv6", 60: "Destination options", 0x1B: "IBA transport",
}  # fmt: skip
PROTOCOL_ICMP, PROTOCOL_IPV4, PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_IPV6, PROTOCOL_GRE, PROTOCOL_ICMPV6 = 1, 4, 6, 17, 41, 47, 58
IP6_HOP_BY_HOP, IP6_ROUTING, IP6_FRAGMENT, IP6_AUTHENTICATION, IP6_DESTINATION = 0, 43, 44, 51, 60
GRE_PROTOCOLS = {**ETHERTYPES, 0x22EB: "ERSPAN III", 0x88BE: "ERSPAN"}
GPE_PROTOCOLS = {1: "IPv4", 2: "IPv6", 3: "Ethernet", 4: "NSH", 5: "MPLS"}
ECN = {0: "Not-ECT", 1: "ECT(1)", 2: "ECT(0)", 3: "CE"}
PACKET_TYPES = {0: "to us", 1: "broadcast", 2: "multicast", 3: "to another host", 4: "from us"}
ROCE_PORT = 4791
ARP_SIZE, ARP_REQUEST, ARP_REPLY = 28, 1, 2
ARP_OPERATION, ARP_SENDER_MAC, ARP_SENDER, ARP_TARGET = slice(6, 8), slice(8, 14), slice(14, 18), slice(24, 28)
"""Of ARP between hosts of Ethernet (RFC 826): its size, operations, and where its fields are; the tree shows its bytes."""
VXLAN_PORT, VXLAN_GPE_PORT, GENEVE_PORT = 4789, 4790, 6081
VXLAN_LINUX_PORT = 8472
"""What Linux takes where none is given (drivers/net/vxlan), as do flannel and Cilium. Registered for OTV, whose header looks alike."""


ADDRESS_FAMILIES = {2: "IPv4", 10: "IPv6", 24: "IPv6", 28: "IPv6", 30: "IPv6"}
"""Of a loopback header; each system has a number of its own for IPv6."""
PPP_FRAME, PPP_IPV4, PPP_IPV6 = 0xFF03, 0x0021, 0x0057
"""Address and control of a frame, and protocols."""
PPP_CONTROL = 0x8000
"""Set in protocols that set up a link, and carry no packets."""
PPP_PROTOCOLS = {PPP_IPV4: "IPv4", PPP_IPV6: "IPv6", 0x8021: "IPCP", 0x8057: "IPv6CP", 0xC021: "LCP"}
PAUSE, PRIORITY_PAUSE = 0x0001, 0x0101
PAUSE_OPCODES = {PAUSE: "Pause", PRIORITY_PAUSE: "Priority-based flow control"}


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
    id = uint(12, "ID", at="0[4]", ws="vlan.id", holds="network")
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


def family_text(value: int) -> str:
    """The address family of a loopback header, written in the byte order of the host that captured: the smaller number is meant."""
    number = min(value, int.from_bytes(value.to_bytes(4, "big"), "little"))
    return f"{ADDRESS_FAMILIES.get(number, 'family')} ({number})"


class Loopback(Struct):
    """Header of a BSD loopback interface (link types 0 and 108); an IP packet follows."""

    key, section, size, title = "null", "LINKTYPE_NULL, LINKTYPE_LOOP", 4, "BSD loopback"
    family = uint(32, "Family", at="0", show=family_text)


class PPP(Struct):
    """PPP in HDLC framing (link type 9), without compressed fields."""

    key, section, size = "ppp", "RFC 1662 3.1", 4
    address = uint(8, "Address", at="0", base="hex", ws="ppp.address")
    control = uint(8, "Control", at="1", base="hex", ws="ppp.control")
    protocol = enum(16, PPP_PROTOCOLS, "Protocol", at="2", base="hex", ws="ppp.protocol")


class Pause(Struct):
    """MAC control frame that stops all priorities of a link."""

    key, section, size, title = "pause", "IEEE 802.3 31B", 4, "Pause"
    opcode = enum(16, PAUSE_OPCODES, "Opcode", at="0", base="hex", ws="macc.opcode")
    time = uint(16, "Pause time", at="2", unit="quanta", ws="macc.pause_time")


class PriorityPause(Struct):
    """Priority-based flow control: a MAC control frame that stops some priorities of a link; a time of 0 ends the pause.

    A quantum is the time of 512 bits at the link's speed.
    """

    key, section, size, title = "pfc", "IEEE 802.1Q 36", 20, "PFC"
    opcode = enum(16, PAUSE_OPCODES, "Opcode", at="0", base="hex", ws="macc.opcode")
    enabled = uint(16, "Class enable vector", at="2", base="hex", ws="macc.cbfc.enbv")
    c0 = bit(enabled, 0, "Priority 0", ws="macc.cbfc.enbv.c0")
    c1 = bit(enabled, 1, "Priority 1", ws="macc.cbfc.enbv.c1")
    c2 = bit(enabled, 2, "Priority 2", ws="macc.cbfc.enbv.c2")
    c3 = bit(enabled, 3, "Priority 3", ws="macc.cbfc.enbv.c3")
    c4 = bit(enabled, 4, "Priority 4", ws="macc.cbfc.enbv.c4")
    c5 = bit(enabled, 5, "Priority 5", ws="macc.cbfc.enbv.c5")
    c6 = bit(enabled, 6, "Priority 6", ws="macc.cbfc.enbv.c6")
    c7 = bit(enabled, 7, "Priority 7", ws="macc.cbfc.enbv.c7")
    time0 = uint(16, "Time of priority 0", at="4", unit="quanta", ws="macc.cbfc.pause_time.c0")
    time1 = uint(16, "Time of priority 1", at="6", unit="quanta", ws="macc.cbfc.pause_time.c1")
    time2 = uint(16, "Time of priority 2", at="8", unit="quanta", ws="macc.cbfc.pause_time.c2")
    time3 = uint(16, "Time of priority 3", at="10", unit="quanta", ws="macc.cbfc.pause_time.c3")
    time4 = uint(16, "Time of priority 4", at="12", unit="quanta", ws="macc.cbfc.pause_time.c4")
    time5 = uint(16, "Time of priority 5", at="14", unit="quanta", ws="macc.cbfc.pause_time.c5")
    time6 = uint(16, "Time of priority 6", at="16", unit="quanta", ws="macc.cbfc.pause_time.c6")
    time7 = uint(16, "Time of priority 7", at="18", unit="quanta", ws="macc.cbfc.pause_time.c7")


PAUSED = (PriorityPause.c0, PriorityPause.c1, PriorityPause.c2, PriorityPause.c3,
          PriorityPause.c4, PriorityPause.c5, PriorityPause.c6, PriorityPause.c7)  # fmt: skip
"""Whether a pause frame speaks of a priority, by priority."""
PAUSE_TIMES = (PriorityPause.time0, PriorityPause.time1, PriorityPause.time2, PriorityPause.time3,
               PriorityPause.time4, PriorityPause.time5, PriorityPause.time6, PriorityPause.time7)  # fmt: skip


class IPv4(Struct):
    """IPv4 header without options."""

    key, section, size = "ip", "RFC 791", 20
    version = uint(4, "Version", at="0", ws="ip.version")
    header_length = uint(4, "Header length", at="0[4]", unit="words", ws="ip.hdr_words")
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


ip_header_bytes = column(IPv4, "ip.hdr_len", IPv4.header_length * 4, "Header length", unit="bytes")


class IPv6(Struct):
    """IPv6 header."""

    key, section, size = "ipv6", "RFC 8200", 40
    version = uint(4, "Version", at="0", ws="ipv6.version")
    traffic_class = uint(8, "Traffic class", at="0[4]", base="hex", ws="ipv6.tclass")
    dscp = part(traffic_class, 7, 2, "DSCP", ws="ipv6.tclass.dscp")
    ecn = part(traffic_class, 1, 0, "ECN", values=ECN, ws="ipv6.tclass.ecn")
    flow_label = uint(20, "Flow label", at="1[4]", base="hex", ws="ipv6.flow", holds="network")
    payload_length = uint(16, "Payload length", at="4", ws="ipv6.plen")
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="6", ws="ipv6.nxt")
    hop_limit = uint(8, "Hop limit", at="7", ws="ipv6.hlim")
    source = gid("Source", at="8", ws="ipv6.src")
    destination = gid("Destination", at="24", ws="ipv6.dst")


class HopByHop(Struct):
    """Hop-by-hop options of an IPv6 packet, without the options."""

    key, section, size, title = "ip6_hop_by_hop", "RFC 8200 4.3", 2, "IPv6 hop-by-hop options"
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="0", ws="ipv6.hopopts.nxt")
    length = uint(8, "Length", at="1", ws="ipv6.hopopts.len")


class RoutingHeader(Struct):
    """Routing header of an IPv6 packet, as of Segment Routing (type 4), without what its type defines."""

    key, section, size, title = "ip6_routing", "RFC 8200 4.4; RFC 8754 2", 4, "IPv6 routing header"
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="0", ws="ipv6.routing.nxt")
    length = uint(8, "Length", at="1", ws="ipv6.routing.len")
    type = enum(8, {4: "Segment Routing"}, "Type", at="2", ws="ipv6.routing.type")
    segments_left = uint(8, "Segments left", at="3", ws="ipv6.routing.segleft")


class DestinationOptions(Struct):
    """Destination options of an IPv6 packet, without the options."""

    key, section, size, title = "ip6_destination", "RFC 8200 4.6", 2, "IPv6 destination options"
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="0", ws="ipv6.dstopts.nxt")
    length = uint(8, "Length", at="1", ws="ipv6.dstopts.len")


class IP6Fragment(Struct):
    """Fragment header of an IPv6 packet."""

    key, section, size, title = "ip6_fragment", "RFC 8200 4.5", 8, "IPv6 fragment header"
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="0", ws="ipv6.fraghdr.nxt")
    reserved = pad(8, at="1", ws="ipv6.fraghdr.reserved_octet")
    offset_ = uint(13, "Offset", at="2", ws="ipv6.fraghdr.offset")
    reserved2 = pad(2, at="3[5]", ws="ipv6.fraghdr.reserved_bits")
    more = flag("More fragments", at="3[7]", ws="ipv6.fraghdr.more")
    identification = uint(32, "Identification", at="4", base="hex", ws="ipv6.fraghdr.ident")


class IP6Authentication(Struct):
    """Authentication header of an IPv6 packet, without its integrity check value."""

    key, section, size, title = "ip6_authentication", "RFC 4302 2", 12, "Authentication header"
    next_header = enum(8, IP_PROTOCOLS, "Next header", at="0", ws="ah.next_header")
    length = uint(8, "Length", at="1", ws="ah.length")
    reserved = pad(16, at="2", ws="ah.reserved")
    spi = uint(32, "SPI", at="4", base="hex", ws="ah.spi", holds="network")
    sequence = uint(32, "Sequence", at="8", ws="ah.sequence")


IP6_EXTENSIONS: dict[int, type[Struct]] = {
    IP6_HOP_BY_HOP: HopByHop, IP6_ROUTING: RoutingHeader, IP6_DESTINATION: DestinationOptions, IP6_FRAGMENT: IP6Fragment,
    IP6_AUTHENTICATION: IP6Authentication,
}  # fmt: skip
"""Headers that may stand between IPv6 and what it carries, by their number; `engine.link_headers` says how long they are."""


class UDP(Struct):
    """UDP header; destination port 4791 is RoCE v2."""

    key, section, size = "udp", "RFC 768", 8
    source_port = uint(16, "Source port", at="0", ws="udp.srcport", holds="port")
    destination_port = uint(16, "Destination port", at="2", ws="udp.dstport", holds="port")
    length = uint(16, "Length", at="4", ws="udp.length")
    checksum = uint(16, "Checksum", at="6", base="hex", ws="udp.checksum", holds="checksum")


class VXLAN(Struct):
    """Virtual eXtensible LAN, with the fields of the group policy extension; an Ethernet frame follows."""

    key, section, size = "vxlan", "RFC 7348 5; draft-smith-vxlan-group-policy", 8
    flags = uint(16, "Flags", at="0", base="hex", ws="vxlan.flags")
    group_policy = bit(flags, 15, "GBP Extension", ws="vxlan.flag_g")
    with_vni = bit(flags, 11, "VXLAN Network ID", ws="vxlan.flag_i")
    dont_learn = bit(flags, 6, "Don't Learn", ws="vxlan.flag_d")
    policy_applied = bit(flags, 3, "Policy Applied", ws="vxlan.flag_a")
    group = uint(16, "Group Policy ID", at="2", ws="vxlan.gbp", holds="network")
    vni = uint(24, "VNI", at="4", ws="vxlan.vni", holds="network")
    reserved = pad(8, at="7", ws="vxlan.reserved8")


class VXLANGPE(Struct):
    """VXLAN header whose packet need not be an Ethernet frame (Generic Protocol Extension)."""

    key, section, size, title = "vxlan_gpe", "draft-ietf-nvo3-vxlan-gpe 3", 8, "VXLAN-GPE"
    flags = uint(8, "Flags", at="0", base="hex", ws="vxlan.flags")
    version = part(flags, 5, 4, "Version", ws="vxlan.ver")
    with_vni = bit(flags, 3, "Instance", ws="vxlan.i_bit")
    with_protocol = bit(flags, 2, "Next Protocol Bit", ws="vxlan.p_bit")
    oam = bit(flags, 0, "OAM bit", ws="vxlan.o_bit")
    reserved16 = pad(16, at="1", ws="vxlan.reserved_16")
    protocol = enum(8, GPE_PROTOCOLS, "Next Protocol", at="3", ws="vxlan.next_proto")
    vni = uint(24, "VNI", at="4", ws="vxlan.vni", holds="network")
    reserved = pad(8, at="7", ws="vxlan.reserved8")


class GENEVE(Struct):
    """Generic Network Virtualization Encapsulation; options and the packet follow."""

    key, section, size = "geneve", "RFC 8926 3.4", 8
    version = uint(2, "Version", at="0", ws="geneve.version")
    options = uint(6, "Length of options", at="0[2]", unit="words", ws="geneve.option.length")
    flags = uint(8, "Flags", at="1", base="hex", ws="geneve.flags")
    oam = bit(flags, 7, "Control packet", ws="geneve.flags.oam")
    critical = bit(flags, 6, "Critical options", ws="geneve.flags.critical")
    protocol = enum(16, GRE_PROTOCOLS, "Protocol Type", at="2", base="hex", ws="geneve.proto_type")
    vni = uint(24, "VNI", at="4", base="hex", ws="geneve.vni", holds="network")
    reserved = pad(8, at="7", ws="geneve.reserved")


class GRE(Struct):
    """Generic Routing Encapsulation; checksum, key and sequence number follow if their bits are set."""

    key, section, size = "gre", "RFC 2784 2.1; RFC 2890 2", 4
    flags = uint(16, "Flags and Version", at="0", base="hex", ws="gre.flags_and_version")
    with_checksum = bit(flags, 15, "Checksum Bit", ws="gre.flags.checksum")
    with_routing = bit(flags, 14, "Routing Bit", ws="gre.flags.routing")
    with_key = bit(flags, 13, "Key Bit", ws="gre.flags.key")
    with_sequence = bit(flags, 12, "Sequence Number Bit", ws="gre.flags.sequence_number")
    version = part(flags, 2, 0, "Version", ws="gre.flags.version")
    protocol = enum(16, GRE_PROTOCOLS, "Protocol Type", at="2", base="hex", ws="gre.proto")


class GREChecksum(Struct):
    """Checksum of the GRE header and the packet in it."""

    key, section, size, title = "gre_checksum", "RFC 2784 2.5", 4, "GRE checksum"
    checksum = uint(16, "Checksum", at="0", base="hex", ws="gre.checksum", holds="checksum")
    route = uint(16, "Offset", at="2", ws="gre.offset")


class GREKey(Struct):
    """Which flow of the GRE tunnel a packet belongs to."""

    key, section, size, title = "gre_key", "RFC 2890 2.1", 4, "GRE key"
    number = uint(32, "Key", at="0", base="hex", ws="gre.key", holds="data")


class GRESequence(Struct):
    """Number of a packet in its GRE tunnel."""

    key, section, size, title = "gre_sequence", "RFC 2890 2.2", 4, "GRE sequence"
    number = uint(32, "Sequence Number", at="0", ws="gre.sequence_number")


class ERSPAN2(Struct):
    """ERSPAN type II: what a switch says of a mirrored frame. Type I has no header."""

    key, section, size, title = "erspan2", "draft-foschiano-erspan 4.1", 8, "ERSPAN II"
    version = uint(4, "Version", at="0", ws="erspan.version")
    vlan = uint(12, "VLAN", at="0[4]", ws="erspan.vlan", holds="network")
    cos = uint(3, "COS", at="2", ws="erspan.cos")
    encapsulation = uint(2, "Encap", at="2[3]", ws="erspan.encap")
    truncated = flag("Truncated", at="2[5]", ws="erspan.truncated")
    session = uint(10, "SpanID", at="2[6]", ws="erspan.spanid", holds="network")
    reserved = pad(12, at="4", ws="erspan.reserved")
    index = uint(20, "Index", at="5[4]", ws="erspan.index")


class ERSPAN3(Struct):
    """ERSPAN type III: with a time stamp, and 8 bytes of the platform if O is set."""

    key, section, size, title = "erspan3", "draft-foschiano-erspan 4.2", 12, "ERSPAN III"
    version = uint(4, "Version", at="0", ws="erspan.version")
    vlan = uint(12, "VLAN", at="0[4]", ws="erspan.vlan", holds="network")
    cos = uint(3, "COS", at="2", ws="erspan.cos")
    integrity = uint(2, "Bad/Short/Oversized", at="2[3]", ws="erspan.bso")
    truncated = flag("Truncated", at="2[5]", ws="erspan.truncated")
    session = uint(10, "SpanID", at="2[6]", ws="erspan.spanid", holds="network")
    timestamp = uint(32, "Timestamp", at="4", ws="erspan.timestamp")
    group = uint(16, "Security Group Tag", at="8", ws="erspan.sgt", holds="network")
    has_frame = uint(1, "Has Ethernet PDU", at="10", ws="erspan.p")
    frame_type = enum(5, {0: "Ethernet", 2: "IP"}, "Frame Type", at="10[1]", ws="erspan.ft")
    hardware = uint(6, "Hardware ID", at="10[6]", ws="erspan.hw")
    direction = enum(1, {0: "Ingress", 1: "Egress"}, "Direction", at="11[4]", ws="erspan.direction")
    granularity = uint(2, "Timestamp granularity", at="11[5]", ws="erspan.gra")
    with_subheader = uint(1, "Optional Sub headers", at="11[7]", ws="erspan.o")


class MPLS(Struct):
    """An entry of an MPLS label stack."""

    key, section, size = "mpls", "RFC 3032 2.1", 4
    label = uint(20, "Label", at="0", ws="mpls.label", holds="data")
    traffic_class = uint(3, "Traffic Class", at="2[4]", ws="mpls.exp")
    bottom = uint(1, "Bottom of stack", at="2[7]", ws="mpls.bottom")
    ttl = uint(8, "TTL", at="3", ws="mpls.ttl")


OF_TUNNELS: tuple[type[Struct], ...] = (VXLAN, VXLANGPE, GENEVE, GRE, GREChecksum, GREKey, GRESequence, ERSPAN2, ERSPAN3)


# The headers around a tunnel are separate structures, so that rules and columns about RoCE's own headers do not see them.
class OuterEthernet(Ethernet):
    """Ethernet header around a tunnel whose packet is an Ethernet frame."""

    key, section, size, title = "outer_eth", "IEEE 802.3", 14, "Outer Ethernet"


class OuterVLAN(VLAN):
    """VLAN tag around a tunnel whose packet is an Ethernet frame."""

    key, section, size, title = "outer_vlan", "IEEE 802.1Q", 4, "Outer VLAN"


class OuterIPv4(IPv4):
    """IPv4 header of a tunnel."""

    key, section, size, title = "outer_ip", "RFC 791", 20, "Outer IPv4"


class OuterIPv6(IPv6):
    """IPv6 header of a tunnel."""

    key, section, size, title = "outer_ipv6", "RFC 8200", 40, "Outer IPv6"


class OuterUDP(UDP):
    """UDP header of a tunnel."""

    key, section, size, title = "outer_udp", "RFC 768", 8, "Outer UDP"


AROUND_TUNNELS = {OuterEthernet: "eth", OuterVLAN: "vlan", OuterIPv4: "ip", OuterIPv6: "ipv6", OuterUDP: "udp"}
"""The headers around a tunnel, and the protocol that filters count them to."""
