"""What does a capture hold, counted from its bytes? A second opinion about the numbers that `ibdissect` prints; it imports nothing of it.

`python tests/independent_counter.py CAPTURE...` prints what it counts as JSON. Definitions: docs/numbers.md.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import struct
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

PSNS = 1 << 24
FAR = 1 << 16
ROCE, VXLAN, GENEVE = 4791, 4789, 6081
SERVICES = {0: "RC", 1: "UC", 3: "UD", 5: "XRC"}
EXTENDED = {
    0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4, 0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4, 0x0A: 16, 0x0B: 20, 0x0C: 16,
    0x0D: 4, 0x0E: 0, 0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4, 0x1C: 8, 0x1D: 16,
}  # fmt: skip
"""Bytes of the headers behind the BTH, by the lower bits of the OpCode of RC."""
FULL = {0, 1, 6, 7, 13, 14}
CONTINUES, OPEN = {1: "S", 2: "S", 3: "S", 0x16: "S", 7: "W", 8: "W", 9: "W"}, {0: "S", 1: "S", 6: "W", 7: "W"}
KINDS = {
    **dict.fromkeys((0, 1, 2, 3, 4, 5, 0x16, 0x17), "SEND"), **dict.fromkeys((6, 7, 8, 9, 10, 11), "WRITE"), 12: "READ", 0x13: "ATOMIC",
    0x14: "ATOMIC", 0x1C: "FLUSH", 0x1D: "ATOMIC WRITE",
}  # fmt: skip
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
    marks: list[str] = field(default_factory=list)
    core: bytes = b""
    """What copies have in common: from the innermost IP header on, else the whole."""


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
        one = Frame(number, time, length, data, core=data)
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
        lids = tuple(f"LID {int.from_bytes(data[at : at + 2], 'big')}" for at in (6, 2))
        one.ends = lids[0], lids[1]
        at, stop, ends = 8, (int.from_bytes(data[4:6], "big") & 0x7FF) * 4, one.ends
        if data[1] & 3 == 3 and len(data) >= 48:
            ends = one.ends = _six(data[16:32]), _six(data[32:48])
            at = 48
        if data[1] & 3 >= 2:
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
    one.core = data[at:]
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
    one.core = data[at:]
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


# -- counting


def copies(every: list[Frame]) -> dict[int, int]:
    """Frames, and of which one before each is a copy. They hold the bytes of one of the eight before, from the IP header on: within 1 us
    (but for ACKs), requests within 3 us, others, too, where so far one of 32 was repeated so; within 5 ms if its sender numbers packets
    and nobody asked for it; management datagrams with the bytes of one that was sent less than half a millisecond before, but for what hops
    of a directed route change; packets that a router forwarded within a millisecond: with the same ICRC, and fewer hops left; and what a
    mirror of a switch showed (`passing`)."""
    found, repeated = dict[int, int](), 0
    sealed: dict[Any, tuple[int, int, int]] = {}
    datagrams: dict[Any, tuple[int, int]] = {}
    for index, one in enumerate(every):
        for other in every[max(0, index - 8) : index][::-1]:
            apart = abs(one.time - other.time)
            mine, theirs = one.packet, other.packet
            number = mine.number if mine is not None else None
            if apart > 3000 and number is not None and theirs is not None:
                if number == theirs.number:
                    if apart <= 5_000_000 and one.core == other.core:
                        repeated += 1
                        found[one.number] = other.number
                    break
                if theirs.op == 17 and theirs.syndrome is not None and theirs.syndrome & 0x20:
                    break
            if apart <= 3000 and len(one.core) >= 16 and (one.core == other.core or one.data == other.data):
                if one.packet is None and len(one.data) < one.length:
                    break  # cut off before its PSN
                repeated += 1
                answer = one.packet is not None and one.packet.op == 17
                asks = one.packet is not None and one.packet.op not in ANSWERS
                if (apart <= 1000 and not answer) or asks or number is not None or repeated * 32 >= one.number:
                    found[one.number] = other.number
                break
        packet = one.packet
        if packet is not None and packet.seal is not None and one.number not in found:
            before = sealed.get(packet.seal)
            if before is not None and packet.hops < before[0] and abs(one.time - before[1]) <= 1_000_000:
                found[one.number] = before[2]
            sealed[packet.seal] = packet.hops, one.time, one.number
        if packet is not None and packet.mad is not None and len(packet.body) >= 36:
            body = packet.body[:256]
            if packet.mad[0] == 0x81:  # hop pointer and return path change at each hop
                body = body[:6] + body[7:192] + body[256:]
            content = packet.ends, packet.opcode, packet.p_key, packet.qp, packet.psn, len(packet.body), body
            before_ns, original = datagrams.get(content, (-(10**18), 0))
            if one.time - before_ns <= 500_000:
                found.setdefault(one.number, original)
            else:
                datagrams[content] = one.time, one.number
    return passing(every) | found


def passing(every: list[Frame]) -> dict[int, int]:
    """Packets that a mirror of a switch showed on their way in, and shows on their way out within 0.2 ms: those of a queue pair in order,
    once two of three packets came twice so. What a NAK asked for before that is known, and CNPs, prove nothing."""
    found = dict[int, int]()
    last: dict[Any, tuple[int, int, int, int]] = {}
    out: dict[Any, int] = {}
    asked: dict[Any, int] = {}
    seen = [0] * 4
    for one in every:
        packet = one.packet
        if packet is None or packet.mad is not None or (packet.opcode in (0x64, 0x65) and packet.qp <= 1):
            continue
        key, lane = (packet.ends, packet.flow), (packet.ends, packet.qp)
        number, time, origin, rank = last.get(key, (0, -(10**18), 0, -1))
        rank += 1
        if rank:
            usual = seen[rank % 4] >= 8 and seen[rank % 4] * 3 >= seen[0] * 2
            if abs(one.time - time) > 200_000 or rank > 3 or out.get((lane, rank), 0) >= origin:
                rank = 0
            elif usual:
                found[one.number] = number
            elif packet.opcode == 0x81 or asked.get(packet.ends, 0) > origin:
                rank = 0
            elif rank > 1 and seen[rank - 1] >= 8 and seen[rank - 1] * 3 >= seen[0] * 2:
                seen[rank] += 1
                seen[0] -= 1
                rank = 0
        if rank:
            out[lane, rank] = origin
        else:
            origin = one.number
        seen[rank] += 1
        if packet.op == 17 and packet.syndrome is not None and packet.syndrome & 0x20:
            asked[packet.ends[::-1]] = one.number
        last[key] = one.number, one.time, origin, rank
        if seen[0] >= 4096 and seen[1] * 3 < seen[0] * 2:
            break
    return found


def ahead(psn: int, of: int) -> int:
    return (psn - of + PSNS // 2) % PSNS - PSNS // 2


@dataclass
class Stream:
    packets: int = 0
    payload_bytes: int = 0
    unknown_sizes: int = 0
    naks: int = 0
    rnr_naks: int = 0
    repeated: int = 0
    missing: int = 0
    late: int = 0


def count(path: str) -> dict[str, Any]:
    every = list(frames(path))
    left_out = copies(every)
    found: dict[str, Any] = {
        "frames": len(every), "bytes": sum(one.length for one in every), "copies": len(left_out),
        "first_ns": min((one.time for one in every), default=0), "last_ns": max((one.time for one in every), default=0),
        "set_back": sum(b.time < a.time for a, b in pairwise(every)),
    }  # fmt: skip
    for name in ("opcodes", "p_keys", "queue_pairs", "conversations", "mads"):
        found[name] = defaultdict(lambda: [0, 0])

    def add(name: str, key: Any, one: Frame) -> None:
        found[name][key][0] += 1
        found[name][key][1] += one.length

    marks: dict[tuple[tuple[str, str], str], int] = Counter()
    for one in every:
        packet = one.packet
        if one.ends is not None:
            add("conversations", one.ends, one)
        if packet is not None:
            add("opcodes", packet.opcode, one)
            add("p_keys", packet.p_key, one)
            add("queue_pairs", packet.qp, one)
            if packet.mad is not None:
                add("mads", packet.mad, one)
    packets = [one.packet for one in every if one.packet is not None and one.number not in left_out]
    sighted: dict[int, set[str]] = {}
    for one in every:  # each packet once, whichever of its copies shows the mark
        before = sighted[one.number] = sighted[left_out[one.number]] if one.number in left_out else set()
        for mark in one.marks:
            marks[mark] += mark not in before
        before.update(one.marks)
    found["marks"] = dict(marks)
    found["records"] = _records(packets)
    streams: dict[tuple[Any, ...], list[Packet]] = defaultdict(list)
    for packet in packets:
        if packet.service in ("RC", "UC", "XRC") and packet.op in EXTENDED:
            streams[packet.service, *packet.ends, packet.qp, packet.op in ANSWERS].append(packet)
    mtus = _mtus(streams)
    partners = _partners(streams, _agreed(packets))
    found["streams"] = {key: vars(_stream(key, some, mtus.get(key) or mtus.get(partners.get(key, ()), 0))) for key, some in streams.items()}
    found["messages"] = _messages(streams, partners, mtus)
    found["connections"] = _each_once(streams, partners, mtus)
    for key, some in _datagrams(packets).items():
        found["messages"][key] = some
    return found


def _records(packets: list[Packet]) -> Counter[int]:
    """Records of subnet administration by attribute, in answers in several segments of which all were seen."""
    found: Counter[int] = Counter()
    seen: dict[Any, dict[int, bytes]] = defaultdict(dict)
    for packet in packets:
        body = packet.body
        if packet.mad is None or packet.mad[0] != 3 or not packet.mad[1] & 0x80 or len(body) < 256 or body[24:26] != b"\1\1":
            continue
        key = packet.ends, body[8:16], packet.mad
        segments = seen[key]
        segments[int.from_bytes(body[28:32], "big")] = body
        last = next((number for number, one in segments.items() if one[26] & 4), 0)
        if last and len(segments) == last:
            size = 200 * (last - 1) + int.from_bytes(segments[last][32:36], "big") - 20
            step = 8 * int.from_bytes(segments[1][44:46], "big")
            found[packet.mad[2]] += size // step if step else 0
            del seen[key]
    return found


def _mtus(streams: dict[tuple[Any, ...], list[Packet]]) -> dict[tuple[Any, ...], int]:
    """The size of packets that are not the last of their message."""
    found = {}
    for key, some in streams.items():
        sizes = Counter(packet.size for packet in some if packet.op in FULL and packet.size in (256, 512, 1024, 2048, 4096))
        if sizes:
            found[key] = sizes.most_common(1)[0][0]
    return found


def _agreed(packets: list[Packet]) -> set[frozenset[tuple[str, int]]]:
    """The two ends, each with its queue pair, of connections that were set up: a REQ, and the REP that names its communication id."""
    asked: dict[tuple[str, int], int] = {}
    found = set()
    for packet in packets:
        if packet.mad is not None and packet.mad[0] == 7 and len(packet.body) >= 70:
            body, number = packet.body[24:], int.from_bytes(packet.body[24:28], "big")
            if packet.mad[2] == 0x10:
                asked[packet.ends[0], number] = int.from_bytes(body[32:35], "big")
            elif packet.mad[2] == 0x13:
                other = packet.ends[1], int.from_bytes(body[4:8], "big")
                if other in asked:
                    found.add(frozenset(((packet.ends[0], int.from_bytes(body[12:15], "big")), (packet.ends[1], asked[other]))))
    return found


def _partners(
    streams: dict[tuple[Any, ...], list[Packet]], agreed: set[frozenset[tuple[str, int]]]
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The stream of answers of each stream of requests and the reverse: as the set-up says, or with most PSNs in common."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    pairs = []
    for key, some in streams.items():
        if key[4]:
            continue
        mine = {packet.psn for packet in some}
        reads = [(packet.psn, packet.psn + max(1, -(-(packet.dma or 0) // 256))) for packet in some if packet.op == 12]
        for other, answers in streams.items():
            if other[4] and other[:3] == (key[0], key[2], key[1]):
                common = sum(packet.psn in mine or any(a <= packet.psn < b for a, b in reads) for packet in answers)
                known = frozenset(((key[2], key[3]), (key[1], other[3]))) in agreed
                if common or known:
                    pairs.append((known, common / len(answers), common, key, other))
    for *_, key, other in sorted(pairs, key=lambda pair: pair[:3], reverse=True):
        if key not in found and other not in found:
            found[key], found[other] = other, key
    return found


def _in_sequence(some: list[Packet]) -> Iterator[Packet]:
    """Without damaged packets that are out of step; if the first one's ICRC is wrong, too, ICRCs say nothing."""
    sealed, last = some[0].sound, some[0].psn
    for i, packet in enumerate(some):
        if i and sealed and not packet.sound and ahead(packet.psn, last) not in (0, 1):
            continue
        last = packet.psn
        yield packet


def _uses(packet: Packet, mtu: int) -> int | None:
    """How many PSNs a request takes; None: unknown."""
    if packet.op != 12:
        return 1
    if packet.dma is None:
        return None
    return max(1, -(-packet.dma // mtu)) if mtu else 1 if packet.dma <= 256 else None


def _stream(key: tuple[Any, ...], some: list[Packet], mtu: int) -> Stream:
    found = Stream(len(some), sum(packet.size or 0 for packet in some), sum(packet.size is None for packet in some))
    for packet in some:
        if packet.op == 17 and packet.syndrome is not None:
            found.naks += packet.syndrome >> 5 == 3
            found.rnr_naks += packet.syndrome >> 5 == 1
    if key[4]:
        return found
    following, gaps, vague = None, set[int](), False
    sealed, cursor = some[0].sound, -1
    for packet in some:
        step = ahead(packet.psn, following) if following is not None else 0
        if cursor >= 0 and sealed and not packet.sound and packet.psn != cursor:
            continue  # damaged, and out of step
        cursor = (packet.psn + (_uses(packet, mtu) or 1)) % PSNS
        if following is None or abs(step) > FAR:
            following, gaps, vague, step = packet.psn, set(), False, 0
        if step > 0 and not vague:
            found.missing += step
            gaps |= {(following + i) % PSNS for i in range(step)}
        elif step < 0:
            if packet.psn in gaps:
                gaps.discard(packet.psn)
                found.late += 1
            else:
                found.repeated += 1
        uses = _uses(packet, mtu)
        if step >= 0:
            following, vague = (packet.psn + (uses or 1)) % PSNS, uses is None
        elif uses is not None and ahead((packet.psn + uses) % PSNS, following) > 0:
            following = (packet.psn + uses) % PSNS
    return found


def _each_once(
    streams: dict[tuple[Any, ...], list[Packet]], partners: dict[tuple[Any, ...], tuple[Any, ...]], mtus: dict[tuple[Any, ...], int]
) -> dict[str, int]:
    """Of all connections: messages whose last packet was captured, and the payload of requests and responses, each packet once. Where
    lengths of READs are cut off, nobody knows which of them is a part of one before."""
    found = {"messages": 0, "payload_bytes": 0}
    if any(packet.op == 12 and packet.dma is None for some in streams.values() for packet in some):
        return {}
    for key, some in streams.items():
        mtu = mtus.get(partners.get(key, ())) or mtus.get(key, 0)
        position, last, seen = PSNS, some[0].psn, set[int]()
        for packet in _in_sequence(some):
            position, last = position + ahead(packet.psn, last), packet.psn
            if position not in seen and packet.op != 17:
                seen.update(range(position, position + (_uses(packet, mtu) or 1)))
                found["payload_bytes"] += packet.size or 0 if packet.op != 18 else 0
                found["messages"] += not key[4] and packet.op not in OPEN
    return found


def _datagrams(packets: list[Packet]) -> dict[tuple[Any, ...], dict[str, int]]:
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for packet in packets:
        if packet.opcode in (0x64, 0x65) and packet.qp > 1:
            entry = found.setdefault(("UD", *packet.ends, packet.qp), Counter())
            entry["messages"] += 1
            entry["SEND"] += 1
            entry["complete"] += 1
            entry["bytes"] += packet.size or 0
            entry["unknown_sizes"] += packet.size is None
    return found


def _messages(
    streams: dict[tuple[Any, ...], list[Packet]], partners: dict[tuple[Any, ...], tuple[Any, ...]], mtus: dict[tuple[Any, ...], int]
) -> dict[tuple[Any, ...], dict[str, int]]:
    found = {}
    for key, some in streams.items():
        if not key[4]:
            other = partners.get(key, ())
            answers = list(_answers(streams.get(other, [])))
            found[key[:4]] = _of_stream(key[0], list(_in_sequence(some)), answers, mtus.get(other) or mtus.get(key, 0))
    return found


def _answers(some: list[Packet]) -> Iterator[Packet]:
    yield from _in_sequence(some) if some else ()


def _of_stream(service: str, requests: list[Packet], answers: list[Packet], mtu: int) -> dict[str, int]:
    """The messages of one stream of requests; PSNs are counted on from the first one, so that they ascend."""
    entry: dict[str, int] = Counter()
    if not requests:
        return entry
    position, last = PSNS, requests[0].psn
    placed: list[tuple[int, Packet]] = []
    for packet in sorted(requests + answers, key=lambda packet: packet.frame):
        position, last = position + ahead(packet.psn, last), packet.psn
        placed.append((position, packet))
    first: dict[int, Packet] = {}
    sent: dict[int, int] = Counter()
    data: dict[int, Packet] = {}
    atomics, refused, reached = set[int](), list[int](), -1
    for place, packet in placed:
        if packet.op not in ANSWERS:
            first.setdefault(place, packet)
            sent[place] += 1
        elif packet.op in (13, 14, 15, 16):
            data.setdefault(place, packet)
            reached = max(reached, place)
        elif packet.op == 18:
            atomics.add(place)
            reached = max(reached, place)
        elif packet.syndrome is not None:
            negative = packet.syndrome >> 5 in (1, 3)
            refused += [place] if negative else []
            reached = max(reached, place - negative)
    places = sorted(first)
    index = 0
    while index < len(places):
        start = places[index]
        packet = first[start]
        entry["messages"] += 1
        kind = KINDS[packet.op]
        entry[kind] += 1
        if kind == "READ":
            stop = start
            uses = _uses(packet, mtu)
            end = start + uses if uses is not None else next((p for p in places[index + 1 :]), PSNS << 8)
            while stop in data and stop < end and data[stop].op not in (15, 16):
                stop += 1
            whole = stop in data and data[stop].op in (15, 16)
            sizes = [data[p].size for p in range(start, min(end, start + 100000)) if p in data]
            entry["complete"] += whole
            entry["bytes" if None not in sizes else "unknown_sizes"] += sum(size or 0 for size in sizes) if None not in sizes else 1
            inside = [p for p in places[index:] if p < end]
            entry["retries"] += sum(sent[p] for p in inside) - 1
            entry["naks"] += sum(start <= p < end for p in refused)
            index += len(inside)
            continue
        stop = index
        while (
            OPEN.get(first[places[stop]].op) and stop + 1 < len(places) and places[stop + 1] == places[stop] + 1
            and CONTINUES.get(first[places[stop + 1]].op) == OPEN[first[places[stop]].op]
        ):  # fmt: skip
            stop += 1
        mine = places[index : stop + 1]
        whole = packet.op not in CONTINUES and first[mine[-1]].op not in OPEN
        acknowledged = service == "UC" or (start in atomics if kind == "ATOMIC" else reached >= mine[-1])
        sizes = [first[p].size for p in mine]
        entry["complete"] += whole and acknowledged
        if kind == "ATOMIC":
            entry["bytes"] += 8
        elif None not in sizes or packet.dma is not None:
            entry["bytes"] += sum(size or 0 for size in sizes) if None not in sizes else packet.dma or 0
        else:
            entry["unknown_sizes"] += 1
        entry["retries"] += sum(sent[p] - 1 for p in mine)
        entry["naks"] += sum(mine[0] <= p <= mine[-1] for p in refused)
        index = stop + 1
    return entry


def main(paths: list[str]) -> None:
    for path in paths:
        found = count(path)
        shown: dict[str, Any] = {}
        for name, of in found.items():
            shown[name] = {str(key): value for key, value in of.items()} if isinstance(of, dict) else of
        print(json.dumps({"capture": path, **shown}))


if __name__ == "__main__":
    main(sys.argv[1:])
