"""The packets of a capture, read from its bytes. For `tests/independent_counter.py`; it imports nothing of ibdissect."""

from __future__ import annotations

import gzip
import ipaddress
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ROCE, VXLAN, GENEVE = 4791, 4789, 6081
SERVICES = {0: "RC", 1: "UC", 3: "UD", 5: "XRC"}
EXTENDED = {
    0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4, 0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4, 0x0A: 16, 0x0B: 20, 0x0C: 16,
    0x0D: 4, 0x0E: 0, 0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4, 0x1C: 8, 0x1D: 16,
}  # fmt: skip
"""Bytes of the headers behind the BTH, by the lower bits of the OpCode of RC."""
FULL = {0, 1, 6, 7, 13, 14}
ANSWERS = range(13, 19)


@dataclass
class Packet:
    frame: int
    time: int
    bytes: int
    ends: tuple[str, str]
    opcode: int
    p_key: int
    qp: int
    psn: int
    size: int | None
    """Payload on the wire; None: no header says."""
    dma: int | None = None
    syndrome: int | None = None
    mad: tuple[int, int, int] | None = None
    body: bytes = b""
    hops: int = 0
    number: tuple[str, int] | None = None
    """The sender's IPv4 address and its identification of the packet."""
    flow: bytes = b""
    """What does not change on the way through a switch: the bytes from its BTH on without the bits of congestion."""
    seal: tuple[Any, ...] | None = None
    """What a router leaves as it is: the ends, the BTH and the ICRC; None if that was not captured."""
    sound: bool = True
    """Its ICRC is right, or cannot be checked."""

    @property
    def service(self) -> str:
        return SERVICES.get(self.opcode >> 5, "")

    @property
    def op(self) -> int:
        return self.opcode & 31


@dataclass
class Frame:
    number: int
    time: int
    length: int
    data: bytes
    packet: Packet | None = None
    ends: tuple[str, str] | None = None
    """As the last header with addresses says."""
    lids: tuple[int, int] | None = None
    """Of the LRH."""
    marks: list[str] = field(default_factory=list)
    core: bytes = b""
    """What copies have in common: from the innermost IP header on, else the whole."""
    core_length: int = 0
    """Bytes of it on the wire."""


def records(path: str) -> Iterator[tuple[int, int, bytes, int]]:
    """Time in nanoseconds, length on the wire, bytes and link type of each record of a pcap file."""
    with gzip.open(path) if str(path).endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    link = struct.unpack(order + "I", data[20:24])[0] & 0xFFFF
    at = 24
    while at + 16 <= len(data):
        seconds, part, captured, length = struct.unpack(order + "4I", data[at : at + 16])
        yield seconds * 10**9 + part * unit, length, data[at + 16 : at + 16 + captured], link
        at += 16 + captured


def frames(path: str) -> Iterator[Frame]:
    for number, (time, length, data, link) in enumerate(records(path), 1):
        if link == 197:  # ERF: a header of its own, perhaps with extensions, and its own time
            stamp = int.from_bytes(data[:8], "little")
            time = (stamp >> 32) * 10**9 + ((stamp & 0xFFFFFFFF) * 10**9 + (1 << 31) >> 32)
            kind, at = data[8], 16
            wire = int.from_bytes(data[14:16], "big")
            more = kind & 0x80
            while more:
                more, at = data[at] & 0x80, at + 8
            data, length, link = data[at:], wire, 247 if kind & 0x7F == 21 else -1
        one = Frame(number, time, length, data, core=data, core_length=length)
        _read(one, data, link)
        yield one


def _read(one: Frame, data: bytes, link: int) -> None:
    if link == 1 and len(data) >= 14:
        _network(one, 14, int.from_bytes(data[12:14], "big"))
    elif link == 113 and len(data) >= 16:
        _network(one, 16, int.from_bytes(data[14:16], "big"))
    elif link == 276 and len(data) >= 20:
        _network(one, 20, int.from_bytes(data[:2], "big"))
    elif link in (12, 101):
        _network(one, 0, 0x0800 if data[:1] and data[0] >> 4 == 4 else 0x86DD)
    elif link == 247 and len(data) >= 8:
        one.lids = int.from_bytes(data[6:8], "big"), int.from_bytes(data[2:4], "big")
        one.ends = f"LID {one.lids[0]}", f"LID {one.lids[1]}"
        at, stop, ends = 8, (int.from_bytes(data[4:6], "big") & 0x7FF) * 4, one.ends
        if data[1] & 3 == 3 and len(data) >= 48:
            ends = one.ends = _six(data[16:32]), _six(data[32:48])
            at = 48
        if data[1] & 3 == 2 or at == 48:
            _transport(one, at, stop, ends, None)


def _network(one: Frame, at: int, kind: int) -> None:
    data = one.data
    while kind in (0x8100, 0x88A8, 0x9100) and len(data) >= at + 4:
        kind, at = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
    if kind == 0x0800 and len(data) >= at + 20 and data[at] >> 4 == 4:
        _ip4(one, at)
    elif kind == 0x86DD and len(data) >= at + 40:
        _ip6(one, at)
    elif kind == 0x8915 and len(data) >= at + 40:
        ends = _six(data[at + 8 : at + 24]), _six(data[at + 24 : at + 40])
        one.ends = ends
        _transport(one, at + 40, at + 40 + int.from_bytes(data[at + 4 : at + 6], "big"), ends, None)


def _ip4(one: Frame, at: int) -> None:
    data = one.data
    one.core, one.core_length = data[at:], one.length - at
    ends = str(ipaddress.IPv4Address(data[at + 12 : at + 16])), str(ipaddress.IPv4Address(data[at + 16 : at + 20]))
    one.ends = ends
    flags = int.from_bytes(data[at + 6 : at + 8], "big")
    behind, protocol = at + (data[at] & 15) * 4, data[at + 9]
    stop = at + int.from_bytes(data[at + 2 : at + 4], "big")
    if flags & 0x3FFF and protocol == 17:
        one.marks.append("fragment")
    if flags & 0x1FFF:
        return
    if protocol == 17:
        _udp(one, behind, stop, ends, data[at + 1] & 3, at, bool(flags & 0x2000))
    elif protocol in (4, 41, 47):
        _inside(one, behind, protocol)


def _ip6(one: Frame, at: int) -> None:
    data = one.data
    one.core, one.core_length = data[at:], one.length - at
    ends = _six(data[at + 8 : at + 24]), _six(data[at + 24 : at + 40])
    one.ends = ends
    protocol, behind, stop = data[at + 6], at + 40, at + 40 + int.from_bytes(data[at + 4 : at + 6], "big")
    while protocol in (0, 43, 60) and len(data) >= behind + 8:
        protocol, behind = data[behind], behind + 8 + data[behind + 1] * 8
    if protocol == 17:
        _udp(one, behind, stop, ends, data[at + 1] >> 4 & 3, at, False)
    elif protocol in (4, 41, 47):
        _inside(one, behind, protocol)


def _inside(one: Frame, at: int, protocol: int) -> None:
    data, one.ends = one.data, None
    if protocol == 47:
        flags, kind = struct.unpack(">2H", data[at : at + 4])
        at += 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
        if kind == 0x6558:
            _network(one, at + 14, int.from_bytes(data[at + 12 : at + 14], "big"))
        else:
            _network(one, at, kind)
    else:
        _network(one, at, 0x0800 if protocol == 4 else 0x86DD)


def _six(address: bytes) -> str:
    found = ipaddress.IPv6Address(address)
    return f"::ffff:{found.ipv4_mapped}" if found.ipv4_mapped is not None else str(found)


def _udp(one: Frame, at: int, stop: int, ends: tuple[str, str], ecn: int, ip: int, first: bool) -> None:
    data = one.data
    if len(data) < at + 8:
        return
    port, length = struct.unpack(">2H", data[at + 2 : at + 6])
    if port == ROCE:
        stop = at + length if first else min(stop, at + length)
        _transport(one, at + 8, stop, ends, (ip, at), ecn == 3, first)
    elif port == VXLAN:
        one.ends = None
        _network(one, at + 30, int.from_bytes(data[at + 28 : at + 30], "big"))
    elif port == GENEVE:
        one.ends = None
        at += 16 + (data[at + 8] & 63) * 4
        _network(one, at + 14, int.from_bytes(data[at + 12 : at + 14], "big"))


def _transport(
    one: Frame, at: int, stop: int, ends: tuple[str, str], ip: tuple[int, int] | None, marked: bool = False, parted: bool = False
) -> None:
    """A packet from its BTH at `at` to the end of its ICRC at `stop`."""
    data = one.data
    if len(data) < at + 12:
        return
    opcode, flags = data[at], data[at + 1]
    p_key, word, psn = int.from_bytes(data[at + 2 : at + 4], "big"), data[at + 4], int.from_bytes(data[at + 9 : at + 12], "big")
    qp = int.from_bytes(data[at + 5 : at + 8], "big")
    service, op = opcode >> 5, opcode & 31
    before = {3: 8, 5: 4 if op not in ANSWERS else 0}.get(service, 0)
    behind = at + 12 + before + EXTENDED.get(op, 0)
    known = service in SERVICES and op in EXTENDED
    pad = 0 if op in FULL else flags >> 4 & 3
    size: int | None = stop - 4 - pad - behind
    fits = parted or stop <= one.length
    if opcode == 0x81:
        one.marks.append("cnp")
    if size is None or size < 0 or not fits:
        size = 0 if fits and len(data) >= stop else None
    one.marks += ["ce"] * marked + ["fecn"] * (word >> 7) + ["becn"] * (word >> 6 & 1 and opcode != 0x81)
    packet = Packet(one.number, one.time, one.length, ends, opcode, p_key, qp, psn, size if known else None)
    captured = min(len(data), stop - 4 if len(data) >= stop and not parted else len(data))
    reth = at + 12 + before
    if known and op in (6, 10, 11, 12) and captured >= reth + 16:
        packet.dma = int.from_bytes(data[reth + 12 : reth + 16], "big")
    if known and op in (13, 15, 16, 17, 18) and captured >= reth + 4:
        packet.syndrome = data[reth]
    if opcode in (0x64, 0x65) and qp <= 1 and captured >= behind + 24:
        packet.mad = data[behind + 1], data[behind + 3], int.from_bytes(data[behind + 16 : behind + 18], "big")
        packet.body = data[behind : stop - 4 - pad]
    if len(data) >= stop and not parted and stop - at >= 16 and data[stop - 4 : stop] != bytes(4):
        packet.seal = ends, data[at + 5 : at + 12], data[stop - 4 : stop], stop - at
        packet.hops = data[ip[0] + (8 if data[ip[0]] >> 4 == 4 else 7)] if ip is not None else 0
    packet.flow = data[at : at + 4] + data[at + 5 : min(len(data), stop)]
    if ip is not None and data[ip[0]] >> 4 == 4 and any(data[ip[0] + 4 : ip[0] + 6]):
        packet.number = ends[0], int.from_bytes(data[ip[0] + 4 : ip[0] + 6], "big")
    if ip is not None and len(data) >= stop and not parted and data[ip[0]] >> 4 in (4, 6):
        packet.sound = _icrc(data, ip, at, stop)
    one.packet = packet


def _icrc(data: bytes, ip: tuple[int, int], at: int, stop: int) -> bool:
    network, datagram = ip
    head = bytearray(data[network:datagram])
    if head[0] >> 4 == 4:
        head[1], head[8], head[10:12] = 0xFF, 0xFF, b"\xff\xff"
    else:
        head[0], head[1:4], head[7] = head[0] | 0x0F, b"\xff\xff\xff", 0xFF
    rest = bytearray(data[datagram : stop - 4])
    rest[6:8], rest[at - datagram + 4] = b"\xff\xff", 0xFF
    stored = data[stop - 4 : stop]
    return stored == bytes(4) or zlib.crc32(bytes(8 * [0xFF]) + head + rest).to_bytes(4, "little") == stored
