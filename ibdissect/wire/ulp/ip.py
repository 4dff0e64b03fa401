"""Packets inside IP over InfiniBand: IPv4, IPv6, TCP, UDP, ICMP, under Wireshark's usual names.

IPv4, IPv6 and UDP are separate from the structures of `wire.encapsulation`, so that a rule about the headers around RoCE does not see
them. TCP and ICMP are found in both.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import encapsulation
from ..column import column
from ..encapsulation import UDP, IPv4, IPv6
from ..places import Behind, Inside
from ..spec import Struct, bit, enum, rest, uint
from .ipoib import IPoIB

_FIRST = frozenset({0})
"""Fragment offsets of packets that contain the header of the next protocol."""
ICMP_TYPES: Mapping[int, str] = {
    0: "Echo reply", 3: "Destination unreachable", 4: "Source quench", 5: "Redirect", 8: "Echo request", 9: "Router advertisement",
    10: "Router solicitation", 11: "Time exceeded", 12: "Parameter problem", 13: "Timestamp", 14: "Timestamp reply",
}  # fmt: skip
"""Types of ICMP messages (IANA)."""
ICMPV6_TYPES: Mapping[int, str] = {
    1: "Destination unreachable", 2: "Packet too big", 3: "Time exceeded", 4: "Parameter problem", 128: "Echo request", 129: "Echo reply",
    130: "Multicast listener query", 131: "Multicast listener report", 132: "Multicast listener done", 133: "Router solicitation",
    134: "Router advertisement", 135: "Neighbor solicitation", 136: "Neighbor advertisement", 137: "Redirect",
    143: "Multicast listener report v2",
}  # fmt: skip
"""Types of ICMPv6 messages (IANA)."""


class InnerIPv4(IPv4):
    """IPv4 header inside IPoIB; options and payload follow."""

    key, section, size, title = "ipoib.ip", "RFC 791", 20, "IPv4"
    carried_by = (Inside(IPoIB.payload, ((IPoIB.type, frozenset({encapsulation.ETHERTYPE_IPV4})),)),)
    payload = rest("Payload", at="20")


inner_ip_header_bytes = column(InnerIPv4, "ip.hdr_len", InnerIPv4.header_length * 4, "Header length", unit="bytes")


class InnerIPv6(IPv6):
    """IPv6 header inside IPoIB; extension headers and payload follow."""

    key, section, size, title = "ipoib.ipv6", "RFC 8200", 40, "IPv6"
    carried_by = (Inside(IPoIB.payload, ((IPoIB.type, frozenset({encapsulation.ETHERTYPE_IPV6})),)),)
    payload = rest("Payload", at="40")


def _inside(protocol: int) -> tuple[Inside, Inside]:
    """Places after an inner IPv4 header (with options) or IPv6 header (without extensions)."""
    four = Inside(
        InnerIPv4.payload,
        ((InnerIPv4.protocol, frozenset({protocol})), (InnerIPv4.fragment_offset, _FIRST)),
        skip=(InnerIPv4.header_length, 4, -IPv4.size),
    )
    return four, Inside(InnerIPv6.payload, ((InnerIPv6.next_header, frozenset({protocol})),))


def _outside(protocol: int) -> tuple[Behind, Behind]:
    """Places after an IP header around InfiniBand."""
    four = Behind((IPv4.header_length, 4, 0), ((IPv4.protocol, frozenset({protocol})), (IPv4.fragment_offset, _FIRST)))
    return four, Behind((IPv6.version, 0, IPv6.size), ((IPv6.next_header, frozenset({protocol})),))


class TCP(Struct):
    """TCP header; options and data follow."""

    key, section, size = "tcp", "RFC 9293 3.1", 20
    carried_by = (*_inside(encapsulation.PROTOCOL_TCP), *_outside(encapsulation.PROTOCOL_TCP))
    source_port = uint(16, "Source port", at="0", ws="tcp.srcport")
    destination_port = uint(16, "Destination port", at="2", ws="tcp.dstport")
    sequence = uint(32, "Sequence number", at="4", ws="tcp.seq_raw")
    acknowledgment = uint(32, "Acknowledgment number", at="8", ws="tcp.ack_raw")
    header_length = uint(4, "Header length", at="12", unit="words", ws="tcp.hdr_words")
    flags = uint(12, "Flags", at="12[4]", base="hex", ws="tcp.flags")
    ack = bit(flags, 4, "ACK", ws="tcp.flags.ack")
    push = bit(flags, 3, "PSH", ws="tcp.flags.push")
    reset = bit(flags, 2, "RST", ws="tcp.flags.reset")
    syn = bit(flags, 1, "SYN", ws="tcp.flags.syn")
    fin = bit(flags, 0, "FIN", ws="tcp.flags.fin")
    window = uint(16, "Window", at="14", ws="tcp.window_size_value")
    checksum = uint(16, "Checksum", at="16", base="hex", ws="tcp.checksum", holds="checksum")
    urgent = uint(16, "Urgent pointer", at="18", ws="tcp.urgent_pointer")
    payload = rest("Options and data", at="20")


tcp_header_bytes = column(TCP, "tcp.hdr_len", TCP.header_length * 4, "Header length", unit="bytes")


class InnerUDP(UDP):
    """UDP header inside IPoIB; data follows."""

    key, section, size, title = "ipoib.udp", "RFC 768", 8, "UDP"
    carried_by = _inside(encapsulation.PROTOCOL_UDP)
    payload = rest("Data", at="8")


class ICMP(Struct):
    """ICMP message."""

    key, section, size = "icmp", "RFC 792", 8
    carried_by = (_inside(encapsulation.PROTOCOL_ICMP)[0], _outside(encapsulation.PROTOCOL_ICMP)[0])
    type = enum(8, ICMP_TYPES, "Type", at="0", ws="icmp.type")
    code = uint(8, "Code", at="1", ws="icmp.code")
    checksum = uint(16, "Checksum", at="2", base="hex", ws="icmp.checksum")
    about = uint(32, "Rest of header", at="4", base="hex")
    payload = rest("Data", at="8")


class ICMPv6(Struct):
    """ICMPv6 message."""

    key, section, size = "icmpv6", "RFC 4443", 8
    carried_by = (_inside(encapsulation.PROTOCOL_ICMPV6)[1], _outside(encapsulation.PROTOCOL_ICMPV6)[1])
    type = enum(8, ICMPV6_TYPES, "Type", at="0", ws="icmpv6.type")
    code = uint(8, "Code", at="1", ws="icmpv6.code")
    checksum = uint(16, "Checksum", at="2", base="hex", ws="icmpv6.checksum")
    about = uint(32, "Rest of header", at="4", base="hex")
    payload = rest("Data", at="8")
