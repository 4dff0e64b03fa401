"""A structure of a plugin is found at the places that its declaration names, and nowhere else."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest

from ibdissect.decode import ChunkTable
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.wire.places import Place
from ibdissect.words import CmService, Struct, TcpData, UdpPort
from tests.acme import SERVICE, connection
from tests.cases import every
from tests.craft import LINK_ETHERNET, build
from tests.decode.made import Row, chunk_of, native_table


@cache
def placed(place: Place) -> tuple[type[Struct], Catalog]:
    """A structure of a plugin that is carried there."""
    body = {"prefix": "acme", "key": "placed", "size": 0, "carried_by": place, "__module__": "acme", "__doc__": "What is there."}
    acme = ModuleType("acme")
    acme.Placed = type("Placed", (Struct,), body)  # type: ignore[attr-defined]
    return acme.Placed, Catalog([*builtin_modules(), acme])


def found(table: ChunkTable, place: Place) -> list[tuple[int, int, int]]:
    """Row, start and end in its frame of each structure that is carried there."""
    struct, catalog = placed(place)
    there = ChunkTable(table.chunk, catalog).occurrences(struct)
    base = table.chunk.offset[there.rows]
    return list(zip(there.rows.tolist(), (there.at - base).tolist(), (there.stop - base).tolist(), strict=True))


def ethernet(*frames: bytes) -> ChunkTable:
    return ChunkTable(chunk_of([Row(frame, LINK_ETHERNET) for frame in frames]))


def ip(protocol: int, body: bytes) -> bytes:
    """Ethernet and IPv4 in front of a body."""
    return bytes(12) + b"\x08\0" + build("IPv4", version=4, header_length=5, total_length=20 + len(body), ttl=9, protocol=protocol) + body


@every(("claimed", "size"), [(8, 0), (9, 1), (14, 6), (15, 7), (16, 7)])
def test_a_datagram_ends_where_its_length_says_and_no_later_than_its_frame(claimed: int, size: int) -> None:
    """To or from the port."""
    ports = [(5, 7), (7, 5), (5, 6), (7, 7)]
    frames = [ip(17, build("UDP", source_port=a, destination_port=b, length=claimed) + b"payload") for a, b in ports]
    assert found(ethernet(*frames), UdpPort(7)) == [(row, 42, 42 + size) for row in (0, 1, 3)]


@every(
    ("words", "data", "start", "at"),
    [
        (5, b"abc", b"ab", 20), (5, b"ab", b"ab", 20), (5, b"a", b"ab", None), (5, b"xb", b"ab", None), (5, b"ax", b"ab", None),
        (4, b"abab", b"ab", None), (6, b"....ab", b"ab", 24), (6, b"....a", b"ab", None),
        (15, bytes(40) + b"ab", b"ab", 60), (0, b"abc", b"ab", None),
    ],
)  # fmt: skip
def test_data_of_tcp_begins_behind_the_options(words: int, data: bytes, start: bytes, at: int | None) -> None:
    frame = ip(6, build("TCP", header_length=words, checksum=0x6162) + data)  # "ab" in the header, too
    assert found(ethernet(frame), TcpData(start)) == ([] if at is None else [(0, 34 + at, len(frame))])


@pytest.mark.slow
@every(
    ("mask", "value", "there"),
    [
        (b"\xff\xff", b"\x12\x34", True), (b"\xff\xf0", b"\x12\x30", True), (b"\xff\x0f", b"\x12\x04", True),
        (b"\xff\xff", b"\x12\x35", False),
        (b"\xff\xff", b"\x02\x34", False), (b"\0", b"\0", True), (b"\0" * 92, b"\0" * 92, True), (b"\0" * 93, b"\0" * 93, False),
    ],
)  # fmt: skip
def test_private_data_that_begins_with_some_bits(mask: bytes, value: bytes, there: bool) -> None:
    """A REQ has 92 bytes of it."""
    places = found(native_table(connection(SERVICE, b"\x12\x34")), CmService(SERVICE, messages=frozenset({0x10}), starts=(mask, value)))
    assert [(row, stop - at) for row, at, stop in places] == ([(0, 92)] if there else [])
