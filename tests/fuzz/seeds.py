"""Packets that fuzzing starts from: those of captures, and one of every declared structure, each with the places of its headers."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.decode.locate import locate
from ibdissect.errors import CaptureError
from ibdissect.wire.catalog import builtin
from ibdissect.wire.mad import CLASS_VERSION
from ibdissect.wire.opcodes import OPCODES
from ibdissect.words import CmService, DestQP, Mad, QKey, Struct, TcpData, UdpPort, VendorOui
from tests import craft, smc, tunnels
from tests.craft import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND

PER_FILE = 96
"""Packets taken of one capture, each of another kind."""
VENDOR_DATA = 40
MAD_BYTES, OPA_MAD_BYTES = 256, 2048


@dataclass(frozen=True, slots=True)
class Seed:
    """A packet to be broken."""

    link: int
    data: bytes
    """The record's bytes, with the ERF header where there is one."""
    heads: tuple[tuple[str, int], ...]
    """Where headers start in `data`, by their names in `Located.start`."""


def of_captures(paths: Iterable[Path], per_file: int = PER_FILE) -> Iterator[Seed]:
    """Packets of different kinds from captures; files that are no captures are left out."""
    for path in paths:
        taken: set[tuple[object, ...]] = set()
        try:
            with open_capture(str(path)) as reader:
                for chunk in reader.chunks():
                    yield from _different(chunk, taken, per_file)
                    if len(taken) >= per_file:
                        break
        except CaptureError:
            continue


def _different(chunk: Chunk, taken: set[tuple[object, ...]], most: int) -> Iterator[Seed]:
    located = locate(chunk)
    mad, data = located.at("mad"), chunk.data
    for row in range(min(len(chunk), 50_000)):
        at = int(mad[row])
        kind: tuple[object, ...] = (data[at + 1 : at + 4].tobytes(), data[at + 16 : at + 18].tobytes()) if at >= 0 else ()
        key = (int(chunk.link[row]), int(located.opcode[row]), int(chunk.caplen[row]) // 16, kind)
        if key not in taken:
            taken.add(key)
            yield _seed(chunk, located, row)
            if len(taken) >= most:
                return


def _seed(chunk: Chunk, located: Any, row: int) -> Seed:
    frame, stop = int(chunk.offset[row]), int(chunk.offset[row] + chunk.caplen[row])
    begin = int(chunk.pseudo[row]) if chunk.pseudo[row] >= 0 else frame
    heads = sorted((int(at[row]) - begin, name) for name, at in located.start.items() if at[row] >= 0)
    return Seed(int(chunk.link[row]), chunk.data[begin:stop].tobytes(), tuple((name, at) for at, name in heads))


def chunk_of(packets: Iterable[tuple[int, bytes]]) -> Chunk:
    """Packets (link type, bytes from the LRH or Ethernet header on) as the chunk of a capture."""
    taken = list(packets)
    sizes = np.array([len(data) for _, data in taken], np.int64)
    offset = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    n = len(taken)
    return Chunk(
        first=1, base=0, data=np.frombuffer(b"".join(data for _, data in taken), np.uint8), offset=offset, caplen=sizes,
        length=sizes.copy(),
        time_ns=np.arange(n, dtype=np.int64), link=np.array([link for link, _ in taken], np.uint16), interface=np.zeros(n, np.uint16),
        pseudo=np.full(n, -1, np.int64),
    )  # fmt: skip


def of_declarations(seed: int = 1) -> list[Seed]:
    """One packet of every OpCode, of every structure that says what carries it, and of every tunnel, filled with random bytes."""
    rnd = random.Random(seed)
    frames = [*_transport(rnd), *_carried(rnd)]
    ethernet = [data for link, data in frames if link == LINK_ETHERNET]
    frames += [(LINK_ETHERNET, tunnels.wrapped(kind, rnd.choice(ethernet))[0]) for kind in (*tunnels.FRAMES, *tunnels.PACKETS)]
    chunk = chunk_of(frames)
    located = locate(chunk)
    plain = [_seed(chunk, located, row) for row in range(len(chunk))]
    # InfiniBand frames come behind an ERF header, too, as ibdump writes them.
    return plain + [in_erf(packet) for packet in plain[::2] if packet.link == LINK_INFINIBAND]


def in_erf(seed: Seed) -> Seed:
    """A native packet behind an ERF header."""
    size = len(seed.data)
    header = struct.pack("<Q", 1_700_000_000 << 32) + struct.pack(">BBHHH", 21, 4, 16 + size, 0, size)
    return Seed(LINK_ERF, header + seed.data, (("erf", 0), *((name, at + 16) for name, at in seed.heads)))


def _transport(rnd: random.Random) -> Iterator[tuple[int, bytes]]:
    for opcode in [*OPCODES, 0x1F, 0xFF]:
        payload = rnd.randbytes(rnd.choice((0, 1, 3, 4, 64, 256))) if opcode not in OPCODES or OPCODES[opcode].payload else b""
        ext = craft.headers_of(opcode) if opcode in OPCODES else b""
        for grh in (None, {}):
            yield LINK_INFINIBAND, craft.native(opcode, payload, headers=rnd.randbytes(len(ext)), grh=grh)
        yield LINK_ETHERNET, craft.roce2(opcode, payload, headers=rnd.randbytes(len(ext)), vlan=rnd.choice((None, 7)))


def _carried(rnd: random.Random) -> Iterator[tuple[int, bytes]]:
    for what in builtin().structs:
        for place in what.carried_by:
            body = filled(what, rnd)
            if isinstance(place, Mad):
                yield LINK_INFINIBAND, management(rnd, place, body)
                if place.mgmt_class not in (0x01, 0x81):
                    yield LINK_ETHERNET, management(rnd, place, body, ethernet=True)
            elif isinstance(place, VendorOui):
                head = bytearray(rnd.randbytes(VENDOR_DATA) + body)
                head[37:40] = place.oui.to_bytes(3, "big")
                attr = place.attr_id if place.attr_id is not None else 0x10
                yield LINK_INFINIBAND, craft.gmp(place.mgmt_class, 1, attr, bytes(head[24:]), at=24)
            elif isinstance(place, DestQP):
                yield LINK_INFINIBAND, craft.ud(body, dest_qp=place.qp)
            elif isinstance(place, QKey):
                yield LINK_INFINIBAND, craft.ud(body, dest_qp=0x12, q_key=place.q_key)
            elif isinstance(place, UdpPort):
                yield LINK_ETHERNET, craft.roce2(0x64, body, headers=bytes(8), udp={"destination_port": place.port})
            elif isinstance(place, TcpData):
                yield LINK_ETHERNET, smc.segment(place.start + body[len(place.start) :])
            elif isinstance(place, CmService):
                private = place.service_id.to_bytes(8, "big") + rnd.randbytes(84) + body
                yield LINK_INFINIBAND, craft.gmp(0x07, 3, min(place.messages), private[:232], at=32)


@cache
def _attribute_at() -> dict[tuple[int, int], int]:
    return {key: builtin().data_at(*key) for key in builtin().formats}


def management(rnd: random.Random, place: Mad, body: bytes, *, ethernet: bool = False) -> bytes:
    """A packet with an attribute where a place says that it is carried."""
    at = place.data_at if place.data_at is not None else _attribute_at().get((place.mgmt_class, place.base_version), 24)
    method = rnd.choice(sorted(place.methods)) if place.methods else rnd.choice((1, 2, 3, 5, 0x12, 0x81, 0x92))
    size = OPA_MAD_BYTES if place.base_version == 0x80 else MAD_BYTES
    version = place.base_version if place.base_version == 0x80 else CLASS_VERSION.get(place.mgmt_class, 1)
    header = {"base_version": place.base_version, "class_version": version, "status": 0, "attribute_modifier": rnd.choice((0, 1, 1 << 24))}
    data = bytearray(craft.mad(place.mgmt_class, method, place.attr_id, body, at=at, size=size, **header))
    if place.mgmt_class == 0x81:
        data[6], data[7] = rnd.choice(((0, 0), (0, 1), (1, 1), (1, 2)))
    if place.mgmt_class == 0x03:
        data[44:46] = (-(-len(body) // 8)).to_bytes(2, "big")
        data[24:36] = struct.pack(
            ">BBBBII", 1, rnd.choice((0, 1)), rnd.choice((1, 3, 5, 7)), 0, rnd.choice((1, 2)), rnd.choice((0, 20, 220))
        )
    if ethernet:
        return craft.roce2(0x64, bytes(data), headers=bytes.fromhex("80010000") + bytes(4), bth={"destqp": 1, "m": 0})
    direct = place.mgmt_class in (0x01, 0x81)
    lids = {"slid": 0xFFFF, "dlid": 0xFFFF} if place.mgmt_class == 0x81 else {}
    qp = {"dest_qp": 0, "src_qp": 0, "q_key": 0, "lrh": {"vl": 15}} if direct else {}
    return craft.ud(bytes(data), **qp, **lids)


def filled(what: type[Struct], rnd: random.Random) -> bytes:
    """The bytes of a structure: random ones, or zero but for a few fields."""
    size = what.size + (rnd.randrange(64) if what.fields[-1].kind == "rest" else 0)
    if rnd.random() < 0.5:
        return rnd.randbytes(size)
    data = bytearray(size)
    for field in rnd.sample(what.fields, min(3, len(what.fields))):
        if field.kind in ("uint", "flag", "pad") and field.count == 1 and not field.little:
            craft.put(data, field, rnd.choice((1, (1 << field.bits) - 1, rnd.getrandbits(field.bits))))
    return bytes(data)
