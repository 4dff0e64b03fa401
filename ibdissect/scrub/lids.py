"""LIDs replaced together with forwarding tables, which are reordered, and LID ranges, which keep their order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ibdissect.capture.gather import Bytes, gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.equal_rows import places_in
from ibdissect.wire.catalog import StructType
from ibdissect.wire.classport import InformInfo
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import SMP_CLASSES
from ibdissect.wire.opa import STLSwitchInfo
from ibdissect.wire.opa_notice import STLInformInfo
from ibdissect.wire.opa_port import STLPortInfo
from ibdissect.wire.sa_records import LinearForwardingTableRecord
from ibdissect.wire.sm import SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from ibdissect.wire.spec import Field

from .replacing import Spot, integers, learn, replace
from .substitutes import BLOCK, LIDS_16, Lids, unicast_lids

Places = Callable[[StructType], Int]
"""Returns the offsets of a structure in the chunk's data."""

UNICAST_BLOCKS = LIDS_16 // BLOCK
RANGES = ((InformInfo.lid_range_begin, InformInfo.lid_range_end), (STLInformInfo.lid_range_begin, STLInformInfo.lid_range_end))
RECORD_TABLE = LinearForwardingTableRecord.linear_forwarding_table.span[0]


class ByLid:
    """The LIDs of one capture: first `survey` all its chunks, then `replace` in them, both in order."""

    def __init__(self) -> None:
        self.numbers = Lids()
        self._lmc, self._tops = 0, set[int]()

    def survey(self, table: ChunkTable) -> None:
        """Learn the largest LMC and the values of LinearFDBTop from a chunk."""
        for lmc in (PortInfo.lmc, STLPortInfo.lmc):
            self._lmc = max(self._lmc, int(table.values(lmc).max(initial=0)))
        for top in (SwitchInfo.linear_fdb_top, STLSwitchInfo.linear_fdb_top):
            self._tops.update(np.unique(table.values(top)).tolist())
        self.numbers = Lids(self._lmc, self._tops)

    def replace(self, table: ChunkTable, data: Bytes, found: list[Spot], places: Places) -> None:
        """Replace LIDs, reorder forwarding tables accordingly, keep ranges in order; `places` gives a structure's offsets."""
        where = [unicast_lids(spot.values) for spot in found]
        named = [(spot.at[keep], spot.values[keep]) for spot, keep in zip(found, where, strict=True)]
        tables, blocks = _forwarding(table, places(LinearForwardingTable))
        units = np.arange(0, BLOCK, self.numbers.unit)
        named.append((np.repeat(tables, len(units)), (blocks[:, None] * BLOCK + units).ravel().astype(np.uint64)))
        learn(self.numbers, named)
        for spot, keep in zip(found, where, strict=True):
            replace(data, spot, keep, self.numbers)
        if len(tables):
            ports = gather(table.chunk.data, tables, BLOCK).reshape(len(tables), len(units), self.numbers.unit)
            moved = np.array([[self.numbers[block * BLOCK + first] for first in units.tolist()] for block in blocks.tolist()])
            targets = moved % BLOCK // self.numbers.unit
            permuted = np.empty_like(ports)
            permuted[np.arange(len(ports))[:, None], targets] = ports
            data[tables[:, None] + np.arange(BLOCK)] = permuted.reshape(len(tables), BLOCK)
        for begin, end in RANGES:
            _ranges(table, data, places(begin.owner), begin, end)


def _forwarding(table: ChunkTable, at: Int) -> tuple[Int, Int]:
    """Blocks of linear forwarding tables with a known block number: offset and number of each."""
    rows = np.searchsorted(table.chunk.offset, at, side="right") - 1
    mgmt_class, there = table.of_rows(MAD.mgmt_class)
    modifier = table.of_rows(MAD.attribute_modifier)[0].astype(np.int64)
    blocks = np.where((there & np.isin(mgmt_class, list(SMP_CLASSES)))[rows], modifier[rows], -1)
    records = table.occurrences(LinearForwardingTableRecord)
    if len(records):
        order = np.argsort(records.at)
        place = places_in(records.at[order], at - RECORD_TABLE)
        inside = place >= 0
        blocks[inside] = table.values(LinearForwardingTableRecord.block_num)[order[place[inside]]]
    good = (blocks >= 0) & (blocks < UNICAST_BLOCKS)
    return at[good], blocks[good]


def _ranges(table: ChunkTable, data: Bytes, at: Int, begin: Field[int], end: Field[int]) -> None:
    """Swap the ends of LID ranges whose order has changed."""
    size = begin.bits // 8
    first, last = (at[:, None] + field.bit // 8 + np.arange(size) for field in (begin, end))
    was, new = ([integers(where[index]) for index in (first, last)] for where in (table.chunk.data, data))
    swap = (was[0] <= was[1]) != (new[0] <= new[1])
    first, last = first[swap], last[swap]
    data[first], data[last] = data[last], data[first]
