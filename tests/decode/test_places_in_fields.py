"""Structures in the bytes of a field are where functions and lengths say."""

from __future__ import annotations

from types import ModuleType

import pytest

from ibdissect.decode import ChunkTable
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.wire.ulp import ip
from ibdissect.wire.ulp.ipoib import IPOIB_Q_KEY
from ibdissect.words import Parsed, Struct, UdpPort, rest, secret, uint
from tests.cases import every
from tests.craft import build, ud
from tests.decode.hidden.test_cut_keys import in_rows
from tests.decode.made import ethernet_table, native_table
from tests.decode.typed import Packets, packet
from tests.test_plugin_places import udp


@pytest.mark.filterwarnings("ignore::ibdissect.failures.PluginWarning")
@every(
    ("spans", "blocks"),
    [([(0, 4), (4, 4)], [0]), ([(36, 40), (0, 36)], [0, 36]), ([(36, 41)], []), ([(0, 3)], []), ([(-6, 4), (4, 8)], [4]), ([], []),
     ([(37, 40)], []), ([(5, 9), (20, 24)], [5, 20])],
)  # fmt: skip
def test_what_a_function_finds(spans: list[tuple[int, int]], blocks: list[int]) -> None:
    """Empty spans of a structure with bytes are nothing; what ends with the bytes fits, one byte more does not; in order of the bytes."""
    body = bytes(range(100, 140))
    packets = Packets(packet(pieces=tuple(spans), body=body))
    assert packets.column("typed.block.value") == [(0, [*body[at : at + 4]]) for at in blocks]
    assert packets.column("typed.piece.bytes") == [(0, body[a:b]) for a, b in sorted(spans) if a >= 0 and b <= len(body)]


class Outer(Struct):
    """Bytes in which a function looks for keys."""

    prefix, key, size, carried_by = "acme", "outer", 0, UdpPort(5557)
    body = rest("Body")


class Token(Struct):
    """A number, and a key that is zero here."""

    prefix, key, size = "acme", "token", 4
    carried_by = (Parsed(Outer.body, lambda data: [(0, 4), (4, 4 + 3 * (data[0] == 2))]),)
    number = uint(8, "Number", holds="number")
    token = secret(24, "Token")


def test_a_list_with_an_empty_span_was_read_to_its_end() -> None:
    """So what is beside its keys is shown; where a place did not fit, a key may be anywhere."""
    acme = ModuleType("acme")
    for one in (Outer, Token):
        one.__module__ = "acme"
        setattr(acme, one.__name__, one)
    chunk = ethernet_table([udp(1000, 5557, bytes([number, 0, 0, 0])) for number in (1, 2)]).chunk
    table = ChunkTable(chunk, Catalog([*builtin_modules(), acme]))
    assert [bool(hidden) for _, hidden in in_rows(table)] == [False, True]


@every(("words", "found"), [(5, [20]), (6, [24]), (15, [60]), (4, [])])
def test_a_structure_behind_a_header_of_some_words(words: int, found: list[int]) -> None:
    """TCP in IP over InfiniBand, behind the IP header's options; a length below that of the header is none."""
    tcp = build(ip.TCP, source_port=5000, destination_port=22, header_length=5)
    header = build(ip.InnerIPv4, version=4, header_length=words, total_length=60, ttl=9, protocol=6)
    table = native_table([ud(build("IPoIB", type=0x0800) + header + bytes(max(words - 5, 0) * 4) + tcp, dest_qp=0x99, q_key=IPOIB_Q_KEY)])
    payload = table.occurrences(ip.InnerIPv4)
    assert (table.occurrences(ip.TCP).at - payload.at).tolist() == found if len(payload) else found == []
