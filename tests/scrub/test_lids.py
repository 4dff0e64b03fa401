"""Forwarding tables and LID ranges still say the same about the same ports when LIDs have substitutes."""

from __future__ import annotations

import struct

import pytest

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.wire.catalog import builtin
from ibdissect.wire.classport import InformInfo
from ibdissect.wire.sa_records import LinearForwardingTableRecord
from ibdissect.wire.sm import SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from tests.cases import few
from tests.craft import build, erf_pcap, gmp, native, smp
from tests.decode.made import table_of
from tests.scrub.made import scrubbed

SLID = builtin().fields("lrh.slid")[0]


def scrubbed_table(frames: list[bytes]) -> ChunkTable:
    return table_of(scrubbed(erf_pcap(frames)))


def packets(*lids: int) -> list[bytes]:
    return [native(0x04, b"", slid=lid, dlid=2000, bth={"psn": lid}) for lid in lids]


def lids(table: ChunkTable, number: int) -> list[int]:
    """SLIDs of the last packets."""
    found: list[int] = table.values(SLID).tolist()[-number:]
    return found


def linear(block: int, ports: list[int]) -> bytes:
    return smp(0x81, 0x19, build(LinearForwardingTable, port=ports), modifier=block, path=[1])


@pytest.mark.parametrize("lmc", [0, 1, 2, 6])
@pytest.mark.parametrize("block", [0, 3, 767])
def test_a_block_is_reordered_as_its_lids_are(lmc: int, block: int) -> None:
    """In units of the LIDs of a port; LID 0 is nobody's."""
    ports = list(range(1, 65))
    own = range(block * 64, block * 64 + 64)
    after = scrubbed_table([smp(0x81, 0x15, build(PortInfo, lmc=lmc, lid=2000)), linear(block, ports), *packets(*own)])
    table = after.values(LinearForwardingTable.port)[0].tolist()
    new = lids(after, 64)
    assert [table[lid % 64] for lid in new] == ports and {lid // 64 for lid in new} == {block}
    assert all(lid % (1 << lmc) == i % (1 << lmc) for i, lid in enumerate(new)) and (table == ports) is (lmc == 6)


def test_a_table_is_reordered_though_no_packet_has_its_lids() -> None:
    """Another window, or another table, may have them."""
    ports = list(range(1, 65))
    (first, second) = scrubbed_table([linear(5, ports), linear(5, ports[::-1])]).values(LinearForwardingTable.port).tolist()
    assert first != ports and second == [65 - port for port in first] and sorted(first) == ports


@pytest.mark.slow
def test_blocks_that_no_table_has_stay_in_order() -> None:
    """Multicast LIDs have no linear entries, and the modifier of another class is no block."""
    ports = list(range(1, 65))
    for block in (768, 0x10003, 0xFFFFFFFF):
        assert scrubbed_table([linear(block, ports)]).values(LinearForwardingTable.port)[0].tolist() == ports


def test_records_of_tables_are_reordered_as_the_tables_are() -> None:
    ports = list(range(1, 65))

    def record(block: int) -> bytes:
        table = build(LinearForwardingTable, port=ports)
        return build(LinearForwardingTableRecord, lid=2000, block_num=block, linear_forwarding_table=table)

    head = struct.pack(">BBBB8x8xHHQ", 1, 1, 7, 0, 9, 0, 0)  # one RMPP segment, records of 72 bytes
    body = bytearray(head + record(7) + record(2))
    body[4:12] = struct.pack(">II", 1, 20 + 144)
    answer = gmp(0x03, 0x92, 0x15, bytes(body), at=24, header={"attribute_modifier": 4})
    single = gmp(0x03, 0x81, 0x15, struct.pack(">20xH2xQ", 9, 0) + record(2), at=24)
    tables = scrubbed_table([*packets(150, 130, 190), linear(7, ports), answer, single, linear(2, ports), *packets(*range(128, 192))])
    found = tables.values(LinearForwardingTable.port).tolist()
    assert len(found) == 5 and found[0] == found[1] != found[2] == found[3] == found[4]
    assert [found[2][lid - 128] for lid in lids(tables, 64)] == ports


@few("top", [20, 40], fast=(1,))
def test_no_lid_crosses_the_top_of_a_table(top: int) -> None:
    known = smp(0x81, 0x12, build(SwitchInfo, linear_fdb_top=top), path=[1])
    new = lids(scrubbed_table([*packets(*range(1, 64)), known]), 64)[:63]
    without = lids(scrubbed_table(packets(*range(1, 64))), 63)
    assert all((lid <= top) == (i <= top) for i, lid in enumerate(new, 1)) and sorted(new) == list(range(1, 64))
    assert any((lid <= top) != (i <= top) for i, lid in enumerate(without, 1))


@pytest.mark.slow
def test_ranges_of_lids_keep_their_direction() -> None:
    pairs = [(begin, begin + step) for begin in (65, 70, 100, 120) for step in (0, 1, 2, 5)] + [(90, 66), (0xFFFF, 0), (64, 0xFFFF)]
    frames = [gmp(0x03, 0x02, 0x03, bytes(32) + build(InformInfo, lid_range_begin=a, lid_range_end=b), at=24) for a, b in pairs]
    after = scrubbed_table(frames)
    new = list(zip(after.values(InformInfo.lid_range_begin).tolist(), after.values(InformInfo.lid_range_end).tolist(), strict=True))
    assert [a <= b for a, b in new] == [a <= b for a, b in pairs]
    own = sorted({lid for pair in pairs for lid in pair})
    substitute = dict(zip(own, lids(scrubbed_table([*frames, *packets(*own)]), len(own)), strict=True))
    assert [set(pair) for pair in new] == [{substitute[a], substitute[b]} for a, b in pairs]
    swapped = [(substitute[a] <= substitute[b]) != (a <= b) for a, b in pairs]
    assert any(swapped) and not all(swapped)


def test_multicast_and_permissive_lids_stay() -> None:
    stays = (0xC000, 0xC001, 0xFFFE, 0xFFFF, 0)
    assert lids(scrubbed_table(packets(*stays)), len(stays)) == list(stays)
