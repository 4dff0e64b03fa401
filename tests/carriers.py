"""Headers in front of RoCE packets: every link type and encapsulation that we read, that Scapy reads, or that exists."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests import tunnels
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, LINK_IPOIB, LINK_LOOP, LINK_NULL, LINK_PPP, LINK_SLL, LINK_SLL2, LINKS_RAW_IP
from tests.tunnels import VNI, ethernet, ip4, ip6, udp, vni

Wrap = Callable[[bytes], tuple[int, bytes]]
"""From a frame with IP to a link type and a frame."""


def lengths(packet: bytes, more: int, protocol: int) -> bytes:
    """An IP header that says that so many bytes more follow it, and of which protocol."""
    if packet[0] >> 4 == 4:
        return packet[:2] + struct.pack(">H", int.from_bytes(packet[2:4], "big") + more) + packet[4:9] + bytes([protocol]) + packet[10:20]
    return packet[:4] + struct.pack(">H", int.from_bytes(packet[4:6], "big") + more) + bytes([protocol]) + packet[7:40]


def between(frame: bytes, header: Callable[[int], bytes], protocol: int) -> tuple[int, bytes]:
    """A header between IP and what it carries; it is given the protocol that follows."""
    packet = frame[14:]
    size = 20 if packet[0] >> 4 == 4 else 40
    what = packet[9] if size == 20 else packet[6]
    added = header(what)
    return LINK_ETHERNET, frame[:14] + lengths(packet, len(added), protocol) + added + packet[size:]


def on_ethernet(behind: Callable[[bytes, bytes], bytes]) -> Wrap:
    """What stands behind the MAC addresses, from the Ethertype and the packet."""
    return lambda frame: (LINK_ETHERNET, frame[:12] + behind(frame[12:14], frame[14:]))


def on_link(link: int, head: Callable[[bytes], bytes]) -> Wrap:
    """A header of another link in front of the packet, from its Ethertype."""
    return lambda frame: (link, head(frame[12:14]) + frame[14:])


def outside(head: Callable[[int], bytes], *, packet: bool = False) -> Wrap:
    """Headers in front of the frame, or of its packet, from the number of bytes that follow them."""
    return lambda frame: (LINK_ETHERNET, head(len(frame[14 * packet :])) + frame[14 * packet :])


def _numbered(kind: bytes, *, four: int, six: int) -> int:
    return four if kind == b"\x08\0" else six


def _extension(what: int) -> bytes:
    return bytes([what, 0]) + bytes.fromhex("010400000000")


def _authentication(what: int) -> bytes:
    return bytes([what, 4]) + bytes(2) + bytes.fromhex("00000abc00000001") + bytes(12)


def _tags(*kinds: int) -> Wrap:
    return on_ethernet(lambda kind, packet: b"".join(struct.pack(">HH", one, 5 + i) for i, one in enumerate(kinds)) + kind + packet)


def _snap(oui: bytes = bytes(3)) -> Wrap:
    return on_ethernet(lambda kind, packet: struct.pack(">H", len(packet) + 8 & 0x5FF) + b"\xaa\xaa\3" + oui + kind + packet)


def _before(ethertype: int, head: bytes, *, frame: bool = True) -> Wrap:
    """An Ethertype with a header in front of a frame, or of a packet with its Ethertype."""
    if frame:
        return lambda whole: (LINK_ETHERNET, ethernet(ethertype, head) + whole)
    return on_ethernet(lambda kind, packet: struct.pack(">H", ethertype) + head + kind + packet)


def _ppp(kind: bytes) -> bytes:
    return struct.pack(">H", _numbered(kind, four=0x21, six=0x57))


def _ip(link: int) -> Wrap:
    return on_link(link, lambda kind: b"")


def _next(protocol: int, header: Callable[[int], bytes] = _extension) -> Wrap:
    return lambda frame: between(frame, header, protocol)


def _udp(port: int, head: bytes, *, packet: bool = False) -> Wrap:
    return outside(lambda size: ip4(17, udp(port, head, size), size), packet=packet)


def _gre(flags: int, what: int, more: bytes = b"", *, packet: bool = False, tags: int = 0) -> Wrap:
    if tags:
        return lambda frame: outside(lambda size: ip4(47, struct.pack(">HH", flags, what) + more, size))(
            frame[:12] + b"\x81\0\0\5" * tags + frame[12:]
        )
    return outside(lambda size: ip4(47, struct.pack(">HH", flags, what) + more, size), packet=packet)


def _options(frame: bytes) -> tuple[int, bytes]:
    """Options of IPv4, or of the destination."""
    packet = frame[14:]
    if packet[0] >> 4 != 4:
        return between(frame, _extension, 60)
    head = bytearray(lengths(packet, 8, packet[9]))
    head[0] = 0x47
    return LINK_ETHERNET, frame[:14] + bytes(head) + b"\1" * 8 + packet[20:]


def _mpls(entries: int, *, control: bool = False) -> Wrap:
    stack = b"".join(bytes([0, 6, 0x40 | (i == entries - 1), 0x40]) for i in range(entries))
    return outside(lambda size: ethernet(0x8847, stack + bytes(4 * control)), packet=not control)


def _pseudowire(mac: str) -> Wrap:
    """A label, and behind it a frame without a control word, to an address that begins as IP does."""
    return lambda frame: (LINK_ETHERNET, ethernet(0x8847, b"\0\6\x41\x40") + bytes.fromhex(mac) + frame[6:])


def _versions(first: int) -> Wrap:
    """In VXLAN, a packet whose version or header length is another."""
    return lambda frame: _udp(4789, b"\x08\0\0\0" + vni(VNI))(frame[:14] + bytes([first]) + frame[15:])


def _over_tcp(head: bytes) -> Wrap:
    return outside(lambda size: ip4(6, struct.pack(">HHIIBBHHH", 6653, 6653, 1, 1, 0x50, 0x18, 1, 0, 0) + head, size))


def _native(lnh: int, head: bytes) -> Wrap:
    """A raw packet of InfiniBand."""
    return lambda frame: (
        LINK_INFINIBAND,
        bytes([0, lnh, 0, 2]) + struct.pack(">HH", (8 + len(head) + len(frame)) // 4 + 1, 1) + head + frame[14:] + bytes(8),
    )


def _tunnelled(kind: str) -> Wrap:
    return lambda frame: (LINK_ETHERNET, tunnels.wrapped(kind, frame)[0])


CARRIERS: dict[str, Wrap] = {
    "Ethernet": lambda frame: (LINK_ETHERNET, frame),
    **{f"{count} tags": _tags(*([0x8100] * count)) for count in (1, 2, 3, 4, 5, 9)},
    "QinQ": _tags(0x88A8, 0x8100), "QinQ of old": _tags(0x9100, 0x9100, 0x8100, 0x8100), "unknown tag": _tags(0x9200, 0x8100),
    "LLC/SNAP": _snap(), "LLC/SNAP of bridges": _snap(b"\0\0\xf8"),
    "LLC/SNAP behind a tag": on_ethernet(
        lambda kind, packet: b"\x81\0\0\5" + struct.pack(">H", len(packet) + 8 & 0x5FF) + b"\xaa\xaa\3\0\0\0" + kind + packet
    ),
    "802.1ah": _before(0x88E7, b"\0\0\0\5"), "802.1ah behind a tag": _before(0x88A8, b"\0\5\x88\xe7\0\0\0\5"),
    "frame in a frame": _before(0x6558, b""), "NSH": _before(0x894F, bytes.fromhex("0fc2020300000105")),
    "TRILL": _before(0x22F3, bytes(6)), "FabricPath": _before(0x8903, bytes(2)), "MACsec": _before(0x88E5, bytes(14), frame=False),
    "CMD": _before(0x8909, b"\1\1\0\1\0\7", frame=False), "E-tag": _before(0x893F, bytes(6), frame=False),
    "VN-tag": _before(0x8926, bytes(4), frame=False), "HSR": _before(0x892F, bytes(4), frame=False),
    "PPPoE": on_ethernet(lambda kind, packet: b"\x88\x64\x11\0\0\1" + struct.pack(">H", len(packet) + 2) + _ppp(kind) + packet),
    **{f"{count} labels": _mpls(count) for count in (1, 4, 5, 9)}, "pseudowire": _mpls(1, control=True),
    "MPLS behind SNAP": on_ethernet(lambda kind, packet: struct.pack(">H", 99) + b"\xaa\xaa\3\0\0\0\x88\x47\0\6\x41\x40" + packet),
    "SLL": on_link(LINK_SLL, lambda kind: bytes(14) + kind), "SLL2": on_link(LINK_SLL2, lambda kind: kind + bytes(18)),
    "SLL with 4 tags": on_link(LINK_SLL, lambda kind: bytes(14) + b"\x81\0\0\5" * 4 + kind),
    "SLL of LLC": on_link(LINK_SLL, lambda kind: bytes(14) + b"\0\4\xaa\xaa\3\0\0\0" + kind),
    "SLL2 of LLC": on_link(LINK_SLL2, lambda kind: b"\0\4" + bytes(18) + b"\xaa\xaa\3\0\0\0" + kind),
    "null": on_link(LINK_NULL, lambda kind: bytes([_numbered(kind, four=2, six=10), 0, 0, 0])),
    "loop": on_link(LINK_LOOP, lambda kind: bytes([0, 0, 0, _numbered(kind, four=2, six=24)])),
    **{f"raw IP {link}": _ip(link) for link in LINKS_RAW_IP},
    "PPP": on_link(LINK_PPP, lambda kind: b"\xff\3" + _ppp(kind)), "PPP without HDLC": on_link(LINK_PPP, _ppp),
    "PPP, short": on_link(LINK_PPP, lambda kind: b"\xff\3" + _ppp(kind)[1:]), 
    "PPP of PPP": on_link(LINK_PPP, lambda kind: b"\xff\3\0\x3d\xc0\0" + _ppp(kind)),
    "PPP of MPLS": on_link(LINK_PPP, lambda kind: b"\xff\3\2\x81\0\6\x41\x40"),
    "IPoIB": on_link(LINK_IPOIB, lambda kind: bytes(40) + kind + bytes(2)),
    "unread link": lambda frame: (105, frame),
    "options": _options,
    **{f"header {number}": _next(number) for number in (0, 43, 60, 135, 139, 140, 253, 254)}, "AH": _next(51, _authentication),
    "AH behind AH": _next(51, lambda what: _authentication(51) + _authentication(what)),
    "ESP": _next(50, lambda what: bytes(8)),
    "12 headers": _next(60, lambda what: _extension(60) * 11 + _extension(what)),
    "unread behind read": _next(60, lambda what: _extension(139) + _extension(what)),
    **{kind: _tunnelled(kind) for kind in (*tunnels.FRAMES, *tunnels.PACKETS)},
    "NVGRE": _gre(0x2000, 0x6558, vni(VNI)), "GRE with 4 tags": _gre(0, 0x6558, tags=4),
    "GRE of a tag": _gre(0, 0x8100, b"\0\5\x08\0", packet=True),
    "GRE with a route": _gre(0x4000, 0x6558, bytes(8)), "PPTP": _gre(0x3001, 0x880B, bytes(8) + b"\xff\3\0\x21", packet=True),
    "GRE of PPP": _gre(0, 0x880B, b"\xff\3\0\x21", packet=True), "WCCP": _gre(0, 0x883E, bytes(4), packet=True),
    "GRE of 802.1ah": _gre(0, 0x88E7, b"\0\0\0\5"), "GRE of NSH": _gre(0, 0x894F, bytes.fromhex("0fc2020300000105")),
    "GRE of RoCE": _gre(0, 0x8915), "GRE with 5 labels": _gre(0, 0x8847, b"\0\6\x40\x40" * 4 + b"\0\6\x41\x40", packet=True),
    **{f"VXLAN-GPE {port} {number}": _udp(port, b"\x0c\0\0" + bytes([number]) + vni(VNI) + more, packet=number in (1, 2))
       for port in (4789, 4790) for number, more in ((1, b""), (2, b""), (3, b""), (4, bytes.fromhex("0fc2020300000105")), (7, b""))},
    "VXLAN without a network": _udp(4789, b"\0\0\0\0" + vni(VNI)), "VXLAN-GPE of version 1": _udp(4790, b"\x1c\0\0\3" + vni(VNI)),
    "VXLAN with another port": _udp(8473, b"\x08\0\0\0" + vni(VNI)),
    "GENEVE of something": _udp(6081, b"\0\0\x89\x4f" + vni(VNI) + bytes.fromhex("0fc2020300000105")),
    "MPLS in UDP": _udp(6635, b"\0\6\x41\x40", packet=True), "GTP": _udp(2152, b"\x30\xff\0\x40\0\0\0\5", packet=True),
    "GUE": _udp(6080, b"\0\4\0\0", packet=True), "LISP": _udp(4341, bytes(8), packet=True),
    "EtherIP": outside(lambda size: ip4(97, b"\x30\0", size)), "IP in IP 94": outside(lambda size: ip4(94, b"", size), packet=True),
    "L2TP": outside(lambda size: ip4(115, bytes(8), size)),
    "MPLS in IP": outside(lambda size: ip4(137, b"\0\6\x41\x40", size), packet=True),
    "Ethernet in SRv6": outside(lambda size: ip6(143, b"", size)),
    **{f"pseudowire to {mac}": _pseudowire(mac) for mac in ("48b02d010203", "45aabbccddee", "60aabbccddee", "6c92bf010203")},
    **{f"VXLAN of IP {first:#x}": _versions(first) for first in (0x44, 0x55, 0x50)},
    "VXLAN of another Ethertype": lambda frame: _udp(4789, b"\x08\0\0\0" + vni(VNI))(frame[:12] + b"\x99\x99" + frame[14:]),
    "R-tag": _before(0xF1C1, bytes(4), frame=False), "BIER": _before(0xAB37, bytes(12)), "DSA": _before(0xDADA, bytes(6), frame=False),
    "long LLC/SNAP": _before(0x8870, b"\xaa\xaa\3\0\0\0", frame=False), "LLC of IP": _before(0x0063, b"\6\6\3"),
    "PPP on Ethernet": on_ethernet(lambda kind, packet: b"\x88\x0b\xff\3" + _ppp(kind) + packet),
    "PIM": outside(lambda size: ip4(103, b"\x21" + bytes(7), size), packet=True),
    "NSH in IP": outside(lambda size: ip4(145, bytes(8), size)), "UDP-Lite": lambda frame: between(frame, lambda _: b"", 136),
    "GRE of PIM": _gre(0, 0x0800, ip4(103, b"\x21" + bytes(7), 99)[18:], packet=True),
    "sFlow": _udp(6343, bytes(60)), "TZSP": _udp(37008, b"\1\0\0\1\1"), "IPFIX": _udp(4739, bytes(20)), "CAPWAP": _udp(5247, bytes(8)),
    "GRE in UDP": _udp(4754, b"\0\0\x65\x58"), "a port of nobody": _udp(250, b""), "OpenFlow": _over_tcp(bytes(24)),
    "SLL of type 0": lambda frame: (LINK_SLL, bytes(14) + b"\0\1" + frame[14:]),
    "SLL of Netlink": lambda frame: (LINK_SLL, bytes(2) + struct.pack(">H", 824) + bytes(12) + frame[14:]),
    "raw header": _native(0, b"\0\0\x08\0"), "raw packet": _native(1, b""),
    "LCP": on_link(LINK_PPP, lambda kind: b"\xff\3\xc0\x21\x08\1\0\x40" + _ppp(kind)),
    "error of ICMP": outside(lambda size: ip4(1, b"\3\4" + bytes(6), size), packet=True),
    "redirect": outside(lambda size: ip6(58, b"\x89\0" + bytes(38), size), packet=True),
    "3 tunnels": outside(lambda size: ip4(4, ip4(47, b"\0\0\x65\x58" + ip4(47, b"\0\0\x65\x58", size), size + 38)[14:], size + 62)),
}  # fmt: skip
"""By name: a frame from an Ethernet frame with an IP packet."""
