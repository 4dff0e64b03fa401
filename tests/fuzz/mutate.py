"""Breaking of packets: bytes, header fields, lengths, OpCodes, attributes, RMPP counts, cuts and additions; all from one generator."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from ibdissect.decode.find_structures import HEADERS
from ibdissect.wire.catalog import builtin
from ibdissect.wire.mad import RMPP
from ibdissect.wire.opcodes import OPCODES
from ibdissect.words import Struct
from tests.craft import put

from .seeds import Seed

Packet = tuple[int, bytes, int]
"""Link type, captured bytes of the record, bytes it had on the wire."""
LENGTHS = {"erf": ((10, 2), (14, 2), (8, 1)), "lrh": ((4, 2), (1, 1)), "grh": ((4, 2), (6, 1)), "ip4": ((2, 2), (0, 1), (6, 2), (9, 1)),
           "ip6": ((4, 2), (6, 1)), "udp": ((4, 2), (2, 2)), "bth": ((1, 1), (5, 3)), "eth": ((12, 2),), "vlan": ((2, 2),)}  # fmt: skip
"""Lengths and types in headers: byte and size."""
EDGES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)


@cache
def _structs() -> dict[str, type[Struct]]:
    return {name: what for what, names in HEADERS.items() for name in names if any(field.bits for field in what.fields)}


@cache
def _attributes() -> list[tuple[int, int]]:
    return sorted(builtin().attributes)


def mutated(rnd: random.Random, seed: Seed, others: Sequence[Seed]) -> Packet:
    """A broken copy of a packet; one in twenty stays whole."""
    data = bytearray(seed.data)
    wire = len(data)
    for _ in range(rnd.choice((0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 8)) if rnd.random() > 0.02 else 0):
        rnd.choice(STEPS)(rnd, data, seed, others)
    if rnd.random() < 0.9:
        wire = len(data)
    elif rnd.random() < 0.5:
        wire = len(data) + rnd.choice((1, 2, 4, 60, 4096))
    return seed.link, bytes(data), max(wire, 0)


def _bit(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    if data:
        data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)


def _byte(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    if data:
        data[rnd.randrange(len(data))] = rnd.choice((*EDGES, rnd.randrange(256)))


def _early_byte(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    if data:
        data[rnd.randrange(min(len(data), 120))] = rnd.choice((*EDGES, rnd.randrange(256)))


def _run(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    if data:
        at, size = rnd.randrange(len(data)), rnd.choice((2, 4, 8, 16, 64))
        size = min(size, len(data) - at)
        data[at : at + size] = rnd.choice((bytes(size), b"\xff" * size, rnd.randbytes(size)))


def _field(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    """Any field of any header: none, all, one more or less, anything."""
    named = [(name, at) for name, at in seed.heads if name in _structs()]
    if not named:
        return
    name, at = rnd.choice(named)
    what = _structs()[name]
    field = rnd.choice([field for field in what.fields if field.bits])
    if at + what.size > len(data):
        return
    if field.kind not in ("uint", "flag", "pad") or field.count > 1 or field.little:
        low, high = field.span
        data[at + low : at + high] = rnd.randbytes(high - low)
        return
    value = rnd.choice((0, 1, (1 << field.bits) - 1, rnd.getrandbits(field.bits), 1 << rnd.randrange(field.bits)))
    put(data, field, value, offset=at)


def _length(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    known = [(name, at) for name, at in seed.heads if name in LENGTHS]
    if not known:
        return
    name, at = rnd.choice(known)
    low, size = rnd.choice(LENGTHS[name])
    if at + low + size > len(data):
        return
    now = int.from_bytes(data[at + low : at + low + size], "big")
    value = rnd.choice((0, 1, now + 1, now - 1, now + 4, now // 2, now * 2, len(data) - at, (1 << size * 8) - 1, rnd.getrandbits(size * 8)))
    data[at + low : at + low + size] = (value & (1 << size * 8) - 1).to_bytes(size, "big")


def _opcode(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    at = dict(seed.heads).get("bth")
    if at is not None and at < len(data):
        data[at] = rnd.choice((rnd.choice(tuple(OPCODES)), rnd.randrange(256)))


def _attribute(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    """Another class, attribute, method, version or modifier of a MAD."""
    at = dict(seed.heads).get("mad")
    if at is None or at + 24 > len(data):
        return
    mgmt_class, attr_id = rnd.choice(_attributes())
    what = rnd.randrange(6)
    if what in (0, 1):
        data[at + 16 : at + 18] = attr_id.to_bytes(2, "big")
        if what:
            data[at + 1] = mgmt_class
    elif what == 2:
        data[at + 3] = rnd.choice((1, 2, 3, 5, 6, 7, 0x11, 0x12, 0x14, 0x15, 0x81, 0x85, 0x86, 0x92, 0x94, 0x95, rnd.randrange(256)))
    elif what == 3:
        data[at] = rnd.choice((0, 1, 2, 0x80, 0x81))
    elif what == 4:
        data[at + 1] = rnd.choice((0x01, 0x81, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x21, 0x22, 0x30, 0x4F, rnd.randrange(256)))
    else:
        data[at + 20 : at + 24] = rnd.choice((bytes(4), b"\xff" * 4, rnd.randbytes(4), b"\1\0\0\1"))


def _rmpp(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    """RMPP type, flags, segment number, length; AttributeOffset."""
    at = dict(seed.heads).get("mad")
    if at is None or at + 46 > len(data):
        return
    if rnd.random() < 0.3:
        data[at + 44 : at + 46] = rnd.choice((0, 1, 2, 8, 0x1FFF, 0x2000, 0xFFFF, rnd.getrandbits(16))).to_bytes(2, "big")
        return
    if rnd.random() < 0.3:
        data[at + 1] = 3
    field = rnd.choice([field for field in RMPP.fields if field.bits and field.kind in ("uint", "flag", "pad")])
    put(data, field, rnd.choice((0, 1, 2, 3, 4, 7, (1 << field.bits) - 1, rnd.getrandbits(field.bits))), offset=at + 24)


def _cut(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    """Anywhere, or where a header starts, give or take a byte."""
    places = [at + rnd.choice((-1, 0, 1, 4)) for _, at in seed.heads]
    at = rnd.choice((rnd.randrange(len(data) + 1), len(data) - rnd.choice((1, 2, 4, 6)), rnd.choice(places) if places else 0))
    del data[max(at, 0) :]


def _more(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    data += rnd.choice((bytes(rnd.choice((1, 2, 3, 4, 16, 300))), rnd.randbytes(rnd.choice((1, 4, 16, 300)))))


def _move(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    """Bytes taken out, or put in."""
    if not data:
        return
    at, size = rnd.randrange(len(data)), rnd.choice((1, 2, 4, 8, 40))
    if rnd.random() < 0.5:
        del data[at : at + size]
    else:
        data[at:at] = data[at : at + size]


def _splice(rnd: random.Random, data: bytearray, seed: Seed, others: Sequence[Seed]) -> None:
    """The end of another packet behind the start of this one, at a header of each."""
    other = rnd.choice(others)
    mine, theirs = dict(seed.heads), dict(other.heads)
    both = [name for name in mine if name in theirs]
    if both:
        name = rnd.choice(both)
        data[mine[name] :] = other.data[theirs[name] :]


STEPS = (
    _bit, _byte, _early_byte, _early_byte, _run, _field, _field, _field, _length, _length, _opcode, _attribute, _attribute, _rmpp, _cut,
    _more, _move, _splice,
)  # fmt: skip
