"""Structures are found at their places, and only there."""

from __future__ import annotations

from ibdissect.decode.find_structures import at_place, find
from ibdissect.wire.headers import DETH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.qos import VLArbiter, VLGroupsArbiter
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.words import Struct
from tests.cases import every
from tests.craft import smp
from tests.decode.made import native_table
from tests.mad.test_rmpp_records import FRAMES


def test_structures_are_found_at_their_places() -> None:
    table = native_table(FRAMES)
    assert find(table, LRH).at.tolist() == table.chunk.offset.tolist()
    assert find(table, DETH).at.tolist() == (find(table, MAD).at - DETH.size).tolist()
    # An ACK holds no record, of a straddling one no frame has all.
    assert find(table, NodeRecord).rows.tolist() == [0, 1, 3] == at_place(table, NodeRecord, NodeRecord.carried_by[0]).rows.tolist()
    assert find(table, NodeInfo).rows.tolist() == [0, 1, 3]


def test_nothing_is_found_at_a_place_that_is_not_searched() -> None:
    assert len(at_place(native_table(FRAMES), NodeRecord, "elsewhere")) == 0


@every(
    ("modifier", "found"),
    [(0, VLGroupsArbiter), (1 << 30, VLArbiter), (1 << 29, VLGroupsArbiter), (1 << 31, VLGroupsArbiter), (3 << 30, VLArbiter)],
)
def test_a_bit_of_the_modifier_decides(modifier: int, found: type[Struct]) -> None:
    table = native_table([smp(0x81, 0x51, bytes(64), modifier=modifier)])
    assert [len(find(table, struct)) for struct in (VLGroupsArbiter, VLArbiter)] == [found is VLGroupsArbiter, found is VLArbiter]
