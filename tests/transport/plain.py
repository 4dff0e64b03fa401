"""An independent check of streams: a simple RoCE v2 reader that counts with sets of PSNs, packet by packet."""

from __future__ import annotations

import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MIDDLE_OR_LAST = {0x01, 0x02, 0x03, 0x07, 0x08, 0x09, 0x16}
LEAVES_OPEN = {0x00, 0x01, 0x06, 0x07, 0x0D, 0x0E}
READ, ACK = 0x0C, 0x11
RESPONSES = range(0x0D, 0x13)
HEADERS = {0x06: 16, 0x0A: 16, 0x0C: 16, 0x0B: 20, 0x03: 4, 0x05: 4, 0x09: 4, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4, 0x0D: 4, 0x0F: 4,
           0x10: 4, 0x11: 4, 0x12: 12, 0x1D: 16}  # fmt: skip


class Seen(NamedTuple):
    """A RoCE v2 packet."""

    way: tuple[bytes, bytes, int]
    opcode: int
    psn: int
    extended: bytes
    payload: int
    damaged: bool
    """Its ICRC is wrong."""


def roce(path: Path) -> Iterator[Seen]:
    """RC and UC packets of a pcap with Ethernet frames."""
    data = path.read_bytes()
    assert data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
    at = 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + size]
        at += 16 + size
        start = 18 if frame[12:14] == b"\x81\x00" else 14
        kind = frame[start - 2 : start]
        if kind == b"\x08\x00" and frame[start + 9] == 17:
            udp, ends = start + 20, (frame[start + 12 : start + 16], frame[start + 16 : start + 20])
            masked = bytearray(b"\xff" * 8 + frame[start:])
            masked[9] = masked[16] = masked[18] = masked[19] = 0xFF
        elif kind == b"\x86\xdd" and frame[start + 6] == 17:
            udp, ends = start + 40, (frame[start + 8 : start + 24], frame[start + 24 : start + 40])
            masked = bytearray(b"\xff" * 8 + frame[start:])
            masked[8] |= 0x0F
            masked[9:12] = b"\xff" * 3
            masked[15] = 0xFF
        else:
            continue
        if frame[udp + 2 : udp + 4] != b"\x12\xb7":
            continue
        stop = udp + int.from_bytes(frame[udp + 4 : udp + 6], "big")
        shift = 8 - start
        masked[udp + 6 + shift : udp + 8 + shift] = b"\xff\xff"
        masked[udp + 12 + shift] = 0xFF
        damaged = zlib.crc32(masked[: stop - 4 + shift]).to_bytes(4, "little") != frame[stop - 4 : stop]
        bth = frame[udp + 8 :]
        opcode = bth[0]
        if opcode >= 0x40:
            continue
        extra = HEADERS.get(opcode & 0x1F, 0)
        pad = bth[1] >> 4 & 3
        payload = stop - 4 - (udp + 20 + extra) - pad
        way, psn = (*ends, int.from_bytes(bth[5:8], "big")), int.from_bytes(bth[9:12], "big")
        yield Seen(way, opcode, psn, bth[12 : 12 + extra], payload, damaged)


def counted(path: Path) -> Counter[str]:
    """NAKs, RNR NAKs, repeated requests, restarts within messages, repeated READs, gaps and missing packets.

    Damaged packets count only where they are exactly what should come next.
    """
    packets = list(roce(path))
    mtu: dict[frozenset[bytes], int] = {}
    for p in packets:
        if p.opcode & 0x1F in LEAVES_OPEN and not p.damaged:
            mtu[frozenset(p.way[:2])] = p.payload
    count: Counter[str] = Counter()
    used: dict[tuple[bytes, bytes, int], set[int]] = defaultdict(set)
    late: dict[tuple[bytes, bytes, int], set[int]] = defaultdict(set)
    latest: dict[tuple[bytes, bytes, int], int] = {}
    previous: dict[tuple[bytes, bytes, int], tuple[int, int]] = {}
    open_: dict[tuple[bytes, bytes, int], bool] = {}
    for p in packets:
        operation = p.opcode & 0x1F
        if p.damaged and p.way in previous:
            psn, step = previous[p.way]
            if p.psn != (psn + step) % (1 << 24) or open_[p.way] != (operation in MIDDLE_OR_LAST):
                continue
        if operation in RESPONSES:
            if p.damaged:
                continue
            if operation == ACK and p.extended[0] >= 0x60:
                count[f"nak{p.extended[0] & 31}"] += 1
            elif operation == ACK and p.extended[0] >= 0x20:
                count["rnr"] += 1
            continue
        length = 1
        if operation == READ:
            bytes_ = int.from_bytes(p.extended[12:16], "big")
            length = max(1, -(-bytes_ // mtu.get(frozenset(p.way[:2]), 4096)))
        span = [(p.psn + i) % (1 << 24) for i in range(length)]
        if p.way in latest:
            ahead = (p.psn - latest[p.way] - 1) % (1 << 24)
            if p.psn in used[p.way] or p.psn in late[p.way]:
                before, step = previous[p.way]
                if operation in MIDDLE_OR_LAST and p.psn not in (before, (before + step) % (1 << 24)):
                    count["middle_restarts"] += 1
                if p.psn in late[p.way]:
                    late[p.way].discard(p.psn)
                else:
                    count["repeated"] += 1
                    count["repeated_reads"] += operation == READ
            elif 0 < ahead < 1 << 16:
                count["gaps"] += 1
                count["missing"] += ahead
                late[p.way] |= {(latest[p.way] + 1 + i) % (1 << 24) for i in range(ahead)}
        if p.way not in latest or (span[-1] - latest[p.way]) % (1 << 24) < 1 << 23:
            latest[p.way] = span[-1]
        used[p.way] |= set(span)
        previous[p.way], open_[p.way] = (p.psn, length), operation in LEAVES_OPEN
    return +count
