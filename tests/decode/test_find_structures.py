"""Structures are found at their places, and only there."""

from __future__ import annotations

from ibdissect.decode.find_structures import at_place
from ibdissect.wire.headers import DETH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo
from tests.decode.made import native_table
from tests.mad.test_rmpp_records import FRAMES


def test_structures_are_found_at_their_places() -> None:
    table = native_table(FRAMES)
    assert table.occurrences(LRH).at.tolist() == table.chunk.offset.tolist()
    assert table.occurrences(DETH).at.tolist() == (table.occurrences(MAD).at - DETH.size).tolist()
    # An ACK holds no record, of a straddling one no frame has all.
    assert table.occurrences(NodeRecord).rows.tolist() == [0, 1, 3] == at_place(table, NodeRecord, NodeRecord.carried_by[0]).rows.tolist()
    assert table.occurrences(NodeInfo).rows.tolist() == [0, 1, 3]
