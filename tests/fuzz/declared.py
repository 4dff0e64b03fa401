"""Packets that the declarations allow, and broken ones: hypothesis strategies over headers, fields and their widths.

`whole()` draws a choice of headers (link, network, transport, attribute) and values for fields of each by kind and width; lengths,
types and CRCs are made to fit. `broken()` draws such a packet and steps that unmake it: a field of a structure that it holds, a
header taken out, put twice or cut, bytes as `mutate` breaks them. Both shrink to few fields and few steps.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ibdissect.wire import headers
from ibdissect.wire.catalog import builtin
from ibdissect.wire.encapsulation import ERF, SLL, SLL2, UDP, VLAN, Ethernet, IPv4, IPv6
from ibdissect.wire.headers import BTH, GRH, LRH, RWH
from ibdissect.wire.mad import CLASS_VERSION, MAD
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.spec import Field
from ibdissect.words import Mad, MadFormat, Struct
from tests.craft import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, LINK_SLL, LINK_SLL2, vcrc

from .mutate import STEPS, Packet
from .seeds import Seed

GET_RESPONSE = 0x81
MAD_BYTES, OPA_MAD_BYTES = 256, 2048
LIDS_MISSING = 0xFFFF


@dataclass(slots=True)
class Whole:
    """A packet that is as its declarations say."""

    link: int
    data: bytearray = field(default_factory=bytearray)
    parts: list[tuple[type[Struct], int, bytes]] = field(default_factory=list)
    """Every structure in it: where it starts and its bytes."""
    front: int = 0
    """Bytes of the ERF header in front of the frame."""

    def add(self, what: type[Struct], body: bytes) -> int:
        """Put a structure behind what is there; where it starts."""
        at = len(self.data)
        self.parts.append((what, at, body))
        self.data += body
        return at

    def packet(self) -> Packet:
        """Link type, bytes, and as many on the wire."""
        return self.link, bytes(self.data), len(self.data)


# -- fields


def drawable(what: type[Struct]) -> list[Field[Any]]:
    """Fields that have bytes of their own."""
    return [one for one in what.fields if one.part_of is None and one.kind not in ("hole", "nested", "rest") and one.bits]


def values(one: Field[Any]) -> st.SearchStrategy[int]:
    """Values of an entry of a field as a number of its width: named ones, edges, any."""
    most = (1 << one.bits) - 1
    edges = sorted({0, 1, most, most >> 1, (most >> 1) + 1})
    if one.bits > 64:
        return st.one_of(st.sampled_from(edges), st.binary(min_size=one.bits // 8, max_size=one.bits // 8).map(_number))
    named = [st.sampled_from(sorted(one.values))] if one.values else []
    return st.one_of(*named, st.sampled_from(edges), st.integers(0, most))


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def write(data: bytearray, one: Field[Any], value: int, at: int = 0, entry: int = 0) -> None:
    """Put the number into an entry of a field of a structure that starts at `at`; what does not fit stays."""
    start = one.bit + entry * one.bits
    low, high = at + start // 8, at + (start + one.bits + 7) // 8
    if high > len(data):
        return
    if one.little:
        data[low:high] = value.to_bytes(one.bits // 8, "little")
        return
    shift = (high - at) * 8 - start - one.bits
    mask = ((1 << one.bits) - 1) << shift
    old = int.from_bytes(data[low:high], "big")
    data[low:high] = ((old & ~mask) | (value << shift & mask)).to_bytes(high - low, "big")


@st.composite
def bodies(draw: st.DrawFn, what: type[Struct], fixed: dict[Field[Any], int] | None = None) -> bytes:
    """A structure: zero, or any bytes, some fields drawn by themselves, those of `fixed` as told."""
    data = bytearray(what.size)
    if draw(st.booleans()):
        data[:] = random.Random(draw(st.integers(0, 1 << 16))).randbytes(what.size)
    fields = drawable(what)
    for one in draw(st.lists(st.sampled_from(fields), max_size=4)) if fields else ():
        write(data, one, draw(values(one)), entry=draw(st.integers(0, one.count - 1)) if one.count > 1 else 0)
    for one, value in (fixed or {}).items():
        write(data, one, value)
    return bytes(data)


# -- packets


@cache
def places() -> list[tuple[type[Struct], Mad]]:
    """Every attribute with each of its places."""
    return [(what, place) for what in builtin().structs for place in what.carried_by if isinstance(place, Mad)]


@cache
def _forms() -> dict[tuple[int, int], type[Struct]]:
    return {
        (mgmt_class, place.base_version): what
        for what in builtin().structs
        for place in what.carried_by
        if isinstance(place, MadFormat)
        for mgmt_class in place.classes
    }


@st.composite
def management(draw: st.DrawFn) -> tuple[list[tuple[type[Struct], int, bytes]], int]:
    """A MAD with an attribute: its structures from byte 0 of the MAD on, and how many bytes it has."""
    what, place = draw(st.sampled_from(places()))
    version = 0x80 if place.base_version == 0x80 else 1
    size = OPA_MAD_BYTES if version == 0x80 else MAD_BYTES
    method = draw(st.sampled_from(sorted(place.methods))) if place.methods else GET_RESPONSE
    form = _forms().get((place.mgmt_class, version))
    head = draw(bodies(MAD, {
        MAD.base_version: version, MAD.mgmt_class: place.mgmt_class, MAD.method: method, MAD.attribute_id: place.attr_id, MAD.status: 0,
        MAD.class_version: version if version == 0x80 else CLASS_VERSION.get(place.mgmt_class, 1),
    }))  # fmt: skip
    at = place.data_at if place.data_at is not None else builtin().data_at(place.mgmt_class, version)
    found: list[tuple[type[Struct], int, bytes]] = [(MAD, 0, head)]
    if form is not None and at > MAD.size:
        found.append((form, 0, head + bytes(at - MAD.size)))  # fields of the form stay zero: no RMPP, no path
    found.append((what, at, draw(bodies(what))))
    return found, size


@st.composite
def whole(draw: st.DrawFn) -> Whole:
    """A packet of any kind that the declarations know."""
    link = draw(st.sampled_from((LINK_INFINIBAND, LINK_ERF, LINK_ETHERNET, LINK_ETHERNET, LINK_SLL, LINK_SLL2)))
    made = Whole(link)
    is_native = link in (LINK_INFINIBAND, LINK_ERF)
    ways = (*[_native] * 15, _raw) if is_native else (_routed, _datagram)
    draw(st.sampled_from(ways))(draw, made)
    if link == LINK_ERF:
        size = len(made.data)
        front = draw(bodies(ERF, {ERF.types: 21, ERF.record_length: ERF.size + size, ERF.wire_length: size}))
        made.front, made.data = ERF.size, bytearray(front) + made.data
        made.parts = [(ERF, 0, front), *((what, at + ERF.size, body) for what, at, body in made.parts)]
    return made


def _transport(draw: st.DrawFn, made: Whole) -> None:
    """BTH, the headers of its OpCode, payload or a MAD, and room for the ICRC."""
    if draw(st.booleans()):
        inside, size = draw(management())
        direct = inside[0][2][1] in (0x01, 0x81)
        made.add(BTH, draw(bodies(BTH, {BTH.opcode: 0x64, BTH.destqp: 0 if direct else 1, BTH.padcnt: 0})))
        made.add(headers.DETH, draw(bodies(headers.DETH)))
        start = len(made.data)
        made.data += bytes(size)
        for _, at, body in inside:
            made.data[start + at : start + at + len(body)] = body
        made.parts += [(what, start + at, bytes(made.data[start + at : start + at + len(body)])) for what, at, body in inside]
        made.data += bytes(4)
        return
    known = OPCODES[draw(st.sampled_from(sorted(OPCODES)))]
    payload = draw(st.binary(max_size=40)) if known.payload else b""
    fixed = {BTH.opcode: known.code, BTH.padcnt: -len(payload) % 4}
    if known.code in (0x64, 0x65):
        fixed[BTH.destqp] = draw(st.integers(2, (1 << 24) - 1))
    made.add(BTH, draw(bodies(BTH, fixed)))
    for name in known.headers:
        what = getattr(headers, name)
        made.add(what, draw(bodies(what)))
    made.data += payload + bytes(-len(payload) % 4) + bytes(4)


def _native(draw: st.DrawFn, made: Whole) -> None:
    """LRH, perhaps a GRH, transport, VCRC."""
    is_global = draw(st.booleans())
    made.data += bytes(LRH.size + (GRH.size if is_global else 0))
    _transport(draw, made)
    size = len(made.data)
    lrh = draw(bodies(LRH, {LRH.lnh: 3 if is_global else 2, LRH.pktlen: size // 4, LRH.lver: 0}))
    front: list[tuple[type[Struct], int, bytes]] = [(LRH, 0, lrh)]
    if is_global:
        front.append((GRH, LRH.size, draw(bodies(GRH, {GRH.pay_len: size - 48, GRH.nxt_hdr: 0x1B, GRH.ipver: 6}))))
    _in_front(made, front)
    masked = bytearray(made.data[:-4])
    if is_global:
        masked[0:8] = b"\xff" * 8
        _without_changes(masked, 8)
    else:
        masked[0] |= 0xF0
    _seal(made, masked, LRH.size + (GRH.size if is_global else 0))
    made.data += vcrc(bytes(made.data))


def _raw(draw: st.DrawFn, made: Whole) -> None:
    """LRH and RWH with bytes of another protocol."""
    made.data += bytes(LRH.size)
    made.add(RWH, draw(bodies(RWH)))
    made.data += draw(st.binary(max_size=10).map(lambda data: data * 4))
    _in_front(made, [(LRH, 0, draw(bodies(LRH, {LRH.lnh: 0, LRH.pktlen: len(made.data) // 4, LRH.lver: 0})))])
    made.data += vcrc(bytes(made.data))


def _routed(draw: st.DrawFn, made: Whole) -> None:
    """RoCE v1: GRH and transport behind an Ethertype."""
    _ethernet(draw, made, 0x8915)
    start = len(made.data)
    made.data += bytes(GRH.size)
    _transport(draw, made)
    grh = draw(bodies(GRH, {GRH.pay_len: len(made.data) - start - GRH.size, GRH.nxt_hdr: 0x1B, GRH.ipver: 6}))
    _in_front(made, [(GRH, start, grh)])
    masked = bytearray(b"\xff" * 8 + made.data[start:-4])
    _without_changes(masked, 8)
    _seal(made, masked, 8 + GRH.size)


def _datagram(draw: st.DrawFn, made: Whole) -> None:
    """RoCE v2 over IPv4 or IPv6."""
    four = draw(st.booleans())
    ip: type[Struct] = IPv4 if four else IPv6
    _ethernet(draw, made, 0x0800 if four else 0x86DD)
    start = len(made.data)
    made.data += bytes(ip.size + UDP.size)
    _transport(draw, made)
    size = len(made.data) - start - ip.size
    if four:
        fixed: dict[Field[Any], int] = {
            IPv4.version: 4, IPv4.header_length: 5, IPv4.total_length: ip.size + size, IPv4.more_fragments: 0,
            IPv4.fragment_offset: 0, IPv4.protocol: 17,
        }  # fmt: skip
    else:
        fixed = {IPv6.version: 6, IPv6.payload_length: size, IPv6.next_header: 17}
    udp = draw(bodies(UDP, {UDP.destination_port: 4791, UDP.length: size}))
    _in_front(made, [(ip, start, draw(bodies(ip, fixed))), (UDP, start + ip.size, udp)])
    masked = bytearray(b"\xff" * 8 + made.data[start:-4])
    if four:
        masked[9] = masked[16] = 0xFF
        masked[18:20] = b"\xff\xff"
    else:
        _without_changes(masked, 8)
    masked[8 + ip.size + 6 : 8 + ip.size + 8] = b"\xff\xff"
    _seal(made, masked, 8 + ip.size + UDP.size)


def _ethernet(draw: st.DrawFn, made: Whole, ethertype: int) -> None:
    if made.link == LINK_SLL:
        made.add(SLL, draw(bodies(SLL, {SLL.type: ethertype, SLL.address_type: 1})))
        return
    if made.link == LINK_SLL2:
        made.add(SLL2, draw(bodies(SLL2, {SLL2.type: ethertype, SLL2.address_type: 1})))
        return
    tags = draw(st.integers(0, 2))
    made.add(Ethernet, draw(bodies(Ethernet, {Ethernet.type: 0x8100 if tags else ethertype})))
    for left in range(tags, 0, -1):
        made.add(VLAN, draw(bodies(VLAN, {VLAN.type: 0x8100 if left > 1 else ethertype})))


def _in_front(made: Whole, headers: list[tuple[type[Struct], int, bytes]]) -> None:
    """Fill in headers for which room was left, once it is known what they are in front of."""
    for what, at, body in headers:
        made.data[at : at + what.size] = body
        made.parts.append((what, at, body))


def _without_changes(masked: bytearray, at: int) -> None:
    """Ones for what routers change in a GRH or IPv6 header: class, flow label, hop limit."""
    masked[at] |= 0x0F
    masked[at + 1 : at + 4] = b"\xff" * 3
    masked[at + 7] = 0xFF


def _seal(made: Whole, masked: bytearray, bth: int) -> None:
    """The ICRC over everything that stays as it is on the way."""
    masked[bth + 4] = 0xFF
    made.data[-4:] = struct.pack("<I", zlib.crc32(masked))


# -- breaking them


@st.composite
def broken(draw: st.DrawFn, others: Callable[[], tuple[Seed, ...]]) -> Packet:
    """A packet of the declarations with one to three steps that unmake it."""
    made = draw(whole())
    data = made.data
    for _ in range(draw(st.integers(1, 3))):
        draw(st.sampled_from(BREAKS))(draw, made, data, others)
    cut = draw(st.sampled_from((0, 0, 0, 1, 60)))
    return made.link, bytes(data), len(data) + cut


def _break_field(draw: st.DrawFn, made: Whole, data: bytearray, _: Callable[[], tuple[Seed, ...]]) -> None:
    """Any field of a structure that the packet was made of: lengths, types and versions, too."""
    what, at, _body = draw(st.sampled_from(made.parts))
    one = draw(st.sampled_from(drawable(what) or drawable(BTH)))
    write(data, one, draw(values(one)), at, draw(st.integers(0, one.count - 1)) if one.count > 1 else 0)


def _cut_part(draw: st.DrawFn, made: Whole, data: bytearray, _: Callable[[], tuple[Seed, ...]]) -> None:
    """The packet ends where a structure starts or ends, give or take a byte."""
    what, at, _body = draw(st.sampled_from(made.parts))
    stop = draw(st.sampled_from((at, at + what.size))) + draw(st.integers(-1, 1))
    del data[max(stop, 0) :]


def _drop_part(draw: st.DrawFn, made: Whole, data: bytearray, _: Callable[[], tuple[Seed, ...]]) -> None:
    what, at, _body = draw(st.sampled_from(made.parts))
    del data[at : at + what.size]


def _repeat_part(draw: st.DrawFn, made: Whole, data: bytearray, _: Callable[[], tuple[Seed, ...]]) -> None:
    what, at, _body = draw(st.sampled_from(made.parts))
    data[at:at] = data[at : at + what.size]


def _change_part(draw: st.DrawFn, made: Whole, data: bytearray, _: Callable[[], tuple[Seed, ...]]) -> None:
    """Another structure where one stands."""
    _what, at, _body = draw(st.sampled_from(made.parts))
    body = draw(bodies(draw(st.sampled_from(places()))[0]))
    data[at : at + len(body)] = body


def _break_bytes(draw: st.DrawFn, made: Whole, data: bytearray, others: Callable[[], tuple[Seed, ...]]) -> None:
    heads = tuple((name, at) for what, at, _ in made.parts for name in (NAMES.get(what),) if name is not None)
    step = draw(st.sampled_from(STEPS))
    step(random.Random(draw(st.integers(0, 1 << 16))), data, Seed(made.link, bytes(data), heads), others())


NAMES: dict[type[Struct], str] = {
    ERF: "erf", Ethernet: "eth", VLAN: "vlan", SLL: "sll", SLL2: "sll2", IPv4: "ip4", IPv6: "ip6", UDP: "udp", LRH: "lrh", RWH: "rwh",
    GRH: "grh", BTH: "bth", MAD: "mad",
}  # fmt: skip
BREAKS = (_break_field, _break_field, _break_field, _cut_part, _drop_part, _repeat_part, _change_part, _break_bytes)
