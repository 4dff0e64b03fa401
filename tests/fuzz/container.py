"""Captures that fuzzing writes, and the ways in which their containers are broken: pcap, pcapng, ERF files, compressed streams."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
from collections.abc import Callable, Sequence

from ibdissect.capture.compressed import zstd_library
from tests.craft import LINK_ERF

from .mutate import EDGES, Packet

PCAPNG_LINKS = (1, 113, 197, 242, 247, 276, 105)
"""Interfaces of the pcapng files, in order; the last is one that ibdissect does not read."""
START = 1_700_000_000


STAMPS = (0, 1, 999_999_999, 10**9, 1 << 31, (1 << 32) - 1, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
OFFSETS = (0, 1, -1, 10**9, -(10**9), 9_200_000_000, -9_200_000_000, (1 << 63) - 1, -(1 << 63))
"""Stamps and offsets in seconds (`if_tsoffset`) at which arithmetic on times may go wrong."""


def odd_stamps(rnd: random.Random, count: int) -> list[int]:
    """A stamp for each packet: constant, backwards, with jumps of years, or at an edge."""
    years = 365 * 86_400 * 10**9
    ways: tuple[Callable[[int], int], ...] = (
        lambda n: START * 10**9, lambda n: START * 10**9 - n * 1_000_003, lambda n: START * 10**9 + rnd.randint(-50, 50) * years + n,
        lambda n: rnd.choice(STAMPS), lambda n: rnd.getrandbits(64), lambda n: START * 10**9 + n * rnd.choice((0, 0, years)),
    )  # fmt: skip
    way = rnd.choice(ways)
    return [way(n) & (1 << 64) - 1 for n in range(count)]


def pcapng(
    packets: Sequence[Packet], *, order: str = "<", options: bytes = b"", links: Sequence[int] = PCAPNG_LINKS, stamps: Sequence[int] = (),
    clocks: Sequence[tuple[int, int]] = (),
) -> bytes:  # fmt: skip
    """A pcapng with one interface for each of the link types; `options` go into every packet block.

    `stamps`: those of the packets; `clocks`: resolution and offset of each interface.
    """
    out = [_block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for index, link in enumerate(links):
        body = struct.pack(order + "HHI", link, 0, 0)
        if clocks:
            body += struct.pack(order + "HHB3xHHqHH", 9, 1, clocks[index][0], 14, 8, clocks[index][1], 0, 0)
        else:
            body += struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0)
        out.append(_block(order, 1, body))
    for number, (link, data, wire) in enumerate(packets):
        high, low = divmod(stamps[number] if stamps else START * 10**9 + number * 1_000_003, 1 << 32)
        head = struct.pack(order + "IIIII", links.index(link), high, low, len(data), wire)
        out.append(_block(order, 6, head + data + bytes(-len(data) % 4) + options))
    return b"".join(out)


def _block(order: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def pcap(packets: Sequence[Packet], *, order: str = "<", nanoseconds: bool = True, stamps: Sequence[int] = ()) -> bytes:
    """A pcap of the first packet's link type, with those packets that have it; `stamps`: their times, seconds and rest, 32 bits each."""
    link = packets[0][0] if packets else LINK_ERF
    out = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)]
    for number, (of, data, wire) in enumerate(packets):
        if of == link:
            seconds, rest = divmod(stamps[number], 1 << 32) if stamps else (START + number, number)
            out.append(struct.pack(order + "IIII", seconds, rest, len(data), wire) + data)
    return b"".join(out)


def erf(packets: Sequence[Packet]) -> bytes:
    """A file of ERF records."""
    return b"".join(data for link, data, _ in packets if link == LINK_ERF)


PACKERS: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: gzip.compress(data, 1, mtime=0),
    lambda data: lzma.compress(data, preset=0),
    lambda data: zstd_library().compress(data, 1),
    lambda data: gzip.compress(data[: len(data) // 2], 1, mtime=0) + gzip.compress(data[len(data) // 2 :], 1, mtime=0),
    lambda data: bz2.compress(data, 1),
    lambda data: gzip.compress(gzip.compress(data, 1, mtime=0), 1, mtime=0),
)


def broken(rnd: random.Random, packets: Sequence[Packet]) -> bytes:
    """A capture of the packets whose container is damaged, now and then compressed, before or behind the damage."""
    order = rnd.choice("<<<>")
    kind = rnd.randrange(5)
    stamps = odd_stamps(rnd, len(packets)) if rnd.random() < 0.3 else []
    if kind < 2:
        clocks = [(rnd.choice((0, 6, 9, 12, 0x80, 0xA0, rnd.randrange(256))), rnd.choice(OFFSETS)) for _ in PCAPNG_LINKS] if stamps else []
        data = bytearray(pcapng(packets, order=order, options=_options(rnd, order), stamps=stamps, clocks=clocks))
    elif kind < 4:
        data = bytearray(pcap(packets, order=order, nanoseconds=rnd.random() < 0.5, stamps=stamps))
    else:
        data = bytearray(erf(packets) or pcap(packets))
    for _ in range(rnd.choice((0, 1, 1, 1, 2, 3, 8))):
        rnd.choice(STEPS)(rnd, data, order)
    if rnd.random() < 0.15:
        packed = bytearray(rnd.choice(PACKERS)(bytes(data)))
        for _ in range(rnd.choice((0, 1, 1, 2))):
            rnd.choice((_byte, _cut, _run))(rnd, packed, order)
        return bytes(packed)
    return bytes(data)


def _options(rnd: random.Random, order: str) -> bytes:
    if rnd.random() < 0.6:
        return b""
    text = rnd.choice((b"", b"a comment", b"\x1b[31m\0\xff", bytes(40)))
    length = rnd.choice((len(text), len(text) + 1, 0xFFFF, 0))
    return struct.pack(order + "HH", rnd.choice((1, 2, 5, 2988)), length) + text + bytes(-len(text) % 4) + struct.pack(order + "HH", 0, 0)


def _byte(rnd: random.Random, data: bytearray, order: str) -> None:
    if data:
        data[rnd.randrange(len(data))] = rnd.choice((*EDGES, rnd.randrange(256)))


def _head(rnd: random.Random, data: bytearray, order: str) -> None:
    if data:
        data[rnd.randrange(min(len(data), 64))] = rnd.choice((*EDGES, rnd.randrange(256)))


def _word(rnd: random.Random, data: bytearray, order: str) -> None:
    """A 32-bit word where lengths stand: huge, zero, one off."""
    if len(data) >= 8:
        at = rnd.randrange(len(data) // 4) * 4
        now = int.from_bytes(data[at : at + 4], "little" if order == "<" else "big")
        value = rnd.choice((0, 1, 3, now + 1, now - 1, now + 4, now * 2, len(data), 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC))
        data[at : at + 4] = struct.pack(order + "I", value & 0xFFFFFFFF)


def _record_word(rnd: random.Random, data: bytearray, order: str) -> None:
    """A word of one of the first record or block headers."""
    if len(data) >= 64:
        at = rnd.choice((4, 8, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56))
        value = rnd.choice((0, 1, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF, len(data), 12, 13, 28, 32))
        data[at : at + 4] = struct.pack(order + "I", value)


def _run(rnd: random.Random, data: bytearray, order: str) -> None:
    if data:
        at, size = rnd.randrange(len(data)), rnd.choice((4, 16, 64, 700))
        size = min(size, len(data) - at)
        data[at : at + size] = rnd.choice((bytes(size), b"\xff" * size, rnd.randbytes(size)))


def _cut(rnd: random.Random, data: bytearray, order: str) -> None:
    del data[rnd.randrange(len(data) + 1) :]


def _out(rnd: random.Random, data: bytearray, order: str) -> None:
    if data:
        at = rnd.randrange(len(data))
        del data[at : at + rnd.choice((1, 4, 16, 64))]


def _twice(rnd: random.Random, data: bytearray, order: str) -> None:
    if data:
        at = rnd.randrange(len(data))
        data[at:at] = data[at : at + rnd.choice((1, 4, 28, 64))]


STEPS = (_byte, _head, _head, _word, _word, _record_word, _record_word, _run, _cut, _out, _twice)
