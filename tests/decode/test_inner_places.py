"""Structures in the bytes of a field are where functions and lengths say."""

from __future__ import annotations

import pytest

from ibdissect.decode import ChunkTable, inner_places
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.wire.ulp import ip
from ibdissect.wire.ulp.ipoib import IPOIB_Q_KEY
from ibdissect.words import Parsed
from tests.craft import build, ud
from tests.decode import vault
from tests.decode.made import native_table


@pytest.mark.filterwarnings("ignore::ibdissect.failures.PluginWarning")
def test_what_a_function_finds() -> None:
    """Empty spans of a structure with bytes are nothing; what ends with the bytes fits, one byte more does not; in order of the bytes."""
    table = ChunkTable(native_table([bytes(80)]).chunk, Catalog([*builtin_modules(), vault]))
    first, stop, kept = 20, 60, []
    for found, want, whole_ in (
        ([(0, 4), (4, 4)], [(20, 24)], True), ([(36, 40), (0, 36)], [(20, 56), (56, 60)], True), ([(36, 41)], [], False),
        ([(0, 3)], [], False), ([(-1, 4), (4, 8)], [(24, 28)], False), ([], [], True), ([(37, 40)], [], False),
    ):  # fmt: skip
        place = Parsed(vault.Vault.body, lambda data, found=found: found)  # type: ignore[misc]
        kept.append(place)  # places last as long as the program
        assert inner_places._parsed(table, vault.VaultTlv, place, first, stop) == (want, whole_), found
    nothing = Parsed(vault.Vault.body, lambda data: [(5, 5)])
    assert inner_places._parsed(table, vault.VaultName, nothing, first, stop) == ([(25, 25)], True)


@pytest.mark.parametrize(("words", "found"), [(5, [20]), (6, [24]), (15, [60]), (4, [])])
def test_a_structure_behind_a_header_of_some_words(words: int, found: list[int]) -> None:
    """TCP in IP over InfiniBand, behind the IP header's options; a length below that of the header is none."""
    tcp = build(ip.TCP, source_port=5000, destination_port=22, header_length=5)
    header = build(ip.InnerIPv4, version=4, header_length=words, total_length=60, ttl=9, protocol=6)
    table = native_table([ud(build("IPoIB", type=0x0800) + header + bytes(max(words - 5, 0) * 4) + tcp, dest_qp=0x99, q_key=IPOIB_Q_KEY)])
    payload = table.occurrences(ip.InnerIPv4)
    assert (table.occurrences(ip.TCP).at - payload.at).tolist() == found if len(payload) else found == []
