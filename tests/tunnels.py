"""Tunnels of switches and hosts: frames and captures of RoCE as they look inside each kind."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

from ibdissect.wire.crc import icrc_roce2
from ibdissect.wire.encapsulation import UDP, IPv6
from tests.craft import build
from tests.robustness.manipulations import Pcap, Record

OUTER_MACS = bytes.fromhex("020000000a01020000000a02")
OUTER_IPS = bytes([172, 31, 255, 1]), bytes([172, 31, 255, 2])
OUTER_IP6 = bytes.fromhex("fd00beef00000000") + bytes(7) + b"\1", bytes.fromhex("fd00beef00000000") + bytes(7) + b"\2"
GRE_KEY = bytes.fromhex("5eC2e7c0")
VNI = 0xABCDE


def ethernet(kind: int, behind: bytes, vlan: int | None = None) -> bytes:
    """An Ethernet frame around bytes of an Ethertype."""
    return OUTER_MACS + (struct.pack(">HH", 0x8100, vlan) if vlan is not None else b"") + struct.pack(">H", kind) + behind


def ip4(protocol: int, behind: bytes, size: int, number: int = 0, flags: int = 0x4000) -> bytes:
    """An Ethernet frame with an IPv4 packet; `size` bytes follow `behind`."""
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(behind) + size, number & 0xFFFF, flags, 63, protocol, 0, *OUTER_IPS)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return ethernet(0x0800, head[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + head[12:] + behind)


def ip6(protocol: int, behind: bytes, size: int) -> bytes:
    """An Ethernet frame with a VLAN tag and an IPv6 packet; `size` bytes follow `behind`."""
    source, destination = OUTER_IP6
    length = len(behind) + size
    head = build(IPv6, version=6, payload_length=length, next_header=protocol, hop_limit=9, source=source, destination=destination)
    return ethernet(0x86DD, head + behind, vlan=77)


def udp(port: int, behind: bytes, size: int) -> bytes:
    """A UDP header with a checksum, which nobody can know to be wrong here, and what follows it."""
    return build(UDP, source_port=55555, destination_port=port, length=8 + len(behind) + size, checksum=0x1234) + behind


def vni(number: int) -> bytes:
    return struct.pack(">I", number << 8)


def _vxlan(size: int, number: int) -> bytes:
    return ip4(17, udp(4789, b"\x08\0\0\0" + vni(VNI), size), size, number)


def _erspan2(size: int, number: int) -> bytes:
    return ip4(47, struct.pack(">HHI", 0x1000, 0x88BE, number) + bytes.fromhex("1001000100000007"), size, number)


FRAMES: dict[str, Callable[[int, int], bytes]] = {
    "VXLAN": _vxlan,
    "VXLAN over IPv6": lambda size, _: ip6(17, udp(4789, b"\x08\0\0\0" + vni(VNI), size), size),
    "VXLAN of Linux": lambda size, number: ip4(17, udp(8472, b"\x08\0\0\0" + vni(VNI), size), size, number),
    "VXLAN-GPE": lambda size, number: ip4(17, udp(4790, b"\x0c\0\0\3" + vni(VNI), size), size, number),
    "GENEVE": lambda size, number: ip4(17, udp(6081, b"\0\0\x65\x58" + vni(VNI), size), size, number),
    "GENEVE with options": lambda size, number: ip4(
        17, udp(6081, b"\2\0\x65\x58" + vni(VNI) + b"\1\2\x80\1\0\0\0\x2a", size), size, number
    ),
    "GRE": lambda size, number: ip4(47, b"\0\0\x65\x58", size, number),
    "GRE with all": lambda size, number: ip6(
        47, struct.pack(">HHHH4sI", 0xB000, 0x6558, 0xBEEF, 0, GRE_KEY, number), size
    ),
    "ERSPAN I": lambda size, number: ip4(47, b"\0\0\x88\xbe", size, number),
    "ERSPAN II": _erspan2,
    "ERSPAN III": lambda size, number: ip4(47, struct.pack(">HHI", 0x1000, 0x22EB, number) + b"\x20\1\0\1" + bytes(8), size, number),
    "ERSPAN III with subheader": lambda size, number: ip4(
        47, struct.pack(">HHI", 0x1000, 0x22EB, number) + b"\x20\1\0\1" + bytes(7) + b"\1" + b"\x0c" + bytes(7), size, number
    ),
    "MPLS with control word": lambda size, _: ethernet(0x8847, bytes.fromhex("000640400000714000000000")),
    "VXLAN in ERSPAN": lambda size, number: _erspan2(size + 50, number) + _vxlan(size, number),
}  # fmt: skip
"""Tunnels of Ethernet frames: the bytes before a frame of some size, the n-th that is sent."""
PACKETS: dict[str, Callable[[int, int, int], bytes]] = {
    "GRE of IP": lambda size, number, version: ip4(47, b"\0\0" + (b"\x08\0" if version == 4 else b"\x86\xdd"), size, number),
    "GENEVE of IP": lambda size, number, version: ip4(
        17, udp(6081, b"\0\0" + (b"\x08\0" if version == 4 else b"\x86\xdd") + vni(VNI), size), size, number
    ),
    "MPLS": lambda size, number, version: ethernet(0x8847, bytes.fromhex("00064040000c813f"), vlan=5),
    "MPLS in GRE": lambda size, number, version: ip4(47, b"\0\0\x88\x47\0\6\x41\x40", size + 4, number),
    "IP in IP": lambda size, number, version: ip4(4 if version == 4 else 41, b"", size, number),
    "IP in IPv6": lambda size, number, version: ip6(4 if version == 4 else 41, b"", size),
}
"""Tunnels of IP packets: the same, and the version of IP."""


def wrapped(kind: str, frame: bytes, length: int = -1, number: int = 1) -> tuple[bytes, int]:
    """An Ethernet frame in a tunnel, and where its headers start; a tunnel of IP packets leaves other frames and cut ones as they are.

    `length`: bytes of the whole frame if `frame` is its beginning.
    """
    size = len(frame) if length < 0 else length
    if kind in FRAMES:
        head = FRAMES[kind](size, number)
        return head + frame, len(head)
    at = 18 if frame[12:14] == b"\x81\0" else 14
    if frame[at - 2 : at] not in (b"\x08\0", b"\x86\xdd") or len(frame) < at + 40:
        return frame, 0
    head = PACKETS[kind](size - at, number, frame[at] >> 4)
    return head + frame[at:], len(head) - at


def roce(native: bytes) -> bytes:
    """A native packet as RoCE v2, with a correct ICRC."""
    transport = native[8 + 40 * (native[1] & 3 == 3) : -6]
    behind = build(UDP, source_port=49152, destination_port=4791, length=8 + len(transport) + 4) + transport
    frame = ip4(17, behind, 4)
    return frame + icrc_roce2(frame[14:]).to_bytes(4, "little")


def capture(pcap: Pcap, kind: str, snap: int | None = None) -> Pcap:
    """A capture of Ethernet frames, all in a tunnel; `snap`: the bytes captured of each inner frame."""

    def records() -> Iterator[Record]:
        for number, record in enumerate(pcap.records, 1):
            data, more = wrapped(kind, record.data[:snap], record.length, number)
            yield replace(record, data=data, length=record.length + more)

    return pcap.with_records(records())
