"""Every kind of place that a declaration may name is searched for."""

from __future__ import annotations

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.decode.occurrences import Occurrences
from ibdissect.decode.payloads import FINDERS, tcp_data
from ibdissect.wire import places
from ibdissect.words import CmService, Inside, Mad, MadFormat, Parsed, UdpPort
from tests.acme import SERVICE, connection
from tests.cases import every
from tests.craft import LINK_ETHERNET, build
from tests.decode.made import Row, chunk_of, native_table

BY_TABLE = {Inside, Mad, MadFormat, Parsed}
"""What `ChunkTable.placed` finds itself."""


def test_every_kind_of_place_has_a_finder() -> None:
    kinds = {kind for kind in vars(places).values() if isinstance(kind, type) and issubclass(kind, places.Place)} - {places.Place}
    assert kinds == BY_TABLE | set(FINDERS)


def spans(found: Occurrences, base: np.ndarray) -> list[tuple[int, int, int]]:
    """Row, start and end of each, counted from a place in its row."""
    return list(zip(found.rows.tolist(), (found.at - base[found.rows]).tolist(), (found.stop - base[found.rows]).tolist(), strict=True))


def ip(protocol: int, body: bytes) -> bytes:
    """Ethernet and IPv4 in front of a body."""
    return bytes(12) + b"\x08\0" + build("IPv4", version=4, header_length=5, total_length=20 + len(body), ttl=9, protocol=protocol) + body


@every(("claimed", "size"), [(8, 0), (9, 1), (14, 6), (15, 7), (16, 7)])
def test_a_datagram_ends_where_its_length_says_and_no_later_than_its_frame(claimed: int, size: int) -> None:
    """To or from the port."""
    ports = [(5, 7), (7, 5), (5, 6), (7, 7)]
    frames = [ip(17, build("UDP", source_port=a, destination_port=b, length=claimed) + b"payload") for a, b in ports]
    table = ChunkTable(chunk_of([Row(frame, LINK_ETHERNET) for frame in frames]))
    assert spans(FINDERS[UdpPort](table, UdpPort(7)), table.chunk.offset) == [(row, 42, 42 + size) for row in (0, 1, 3)]


@every(
    ("words", "data", "start", "found"),
    [
        (5, b"abc", b"ab", 20), (5, b"ab", b"ab", 20), (5, b"a", b"ab", None), (5, b"xb", b"ab", None), (5, b"ax", b"ab", None),
        (4, b"abab", b"ab", None), (6, b"....ab", b"ab", 24), (6, b"....a", b"ab", None),
        (15, bytes(40) + b"ab", b"ab", 60), (0, b"abc", b"ab", None),
    ],
)  # fmt: skip
def test_data_of_tcp_begins_behind_the_options(words: int, data: bytes, start: bytes, found: int | None) -> None:
    frame = ip(6, build("TCP", header_length=words) + data)
    table = ChunkTable(chunk_of([Row(frame, LINK_ETHERNET)]))
    head = Occurrences(np.array([0]), table.chunk.offset + 34, table.chunk.offset + len(frame))
    want = [] if found is None else [(0, 34 + found, len(frame))]
    assert spans(tcp_data(table, head, start), table.chunk.offset) == want


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
    table = native_table(connection(SERVICE, b"\x12\x34"))
    found = FINDERS[CmService](table, CmService(SERVICE, messages=frozenset({0x10}), starts=(mask, value)))
    assert found.rows.tolist() == ([0] if there else []) and (found.stop - found.at).tolist() == ([92] if there else [])
