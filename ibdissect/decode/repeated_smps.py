"""Subnet management packets with equal contents. A sweep repeats most of the one before it, and a rule that found nothing wrong
with a packet finds nothing wrong with the same packet later."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_ERF, LINK_INFINIBAND
from ibdissect.engine.seen_before import Marks
from ibdissect.wire.column import ComputedField
from ibdissect.wire.encapsulation import ERF
from ibdissect.wire.expr import And, Arith, Compare, Expr, In, Not, Or, Present, Where
from ibdissect.wire.headers import BTH, ICRC, VCRC
from ibdissect.wire.mad import BASE_VERSION_IB, MAD, MAD_SIZE
from ibdissect.wire.numbers import DIRECTED, LID_ROUTED
from ibdissect.wire.places import MadFormat
from ibdissect.wire.spec import Field, Struct

from .chunk_table import ChunkTable
from .equal_rows import mix
from .locate import Int
from .mads import Mads

MAX_JUDGED = 1 << 17
"""Contents that are remembered of what was judged, by each who asks."""
SMALL = 512
"""So few packets are judged at once: to look whether they are known costs as much."""


def contents(table: ChunkTable) -> Int:
    """What each subnet management packet holds, as a positive number, int64[n]: all bytes from the LRH on but for PSN, transaction id and
    CRCs. 0: of other packets, of tunnels, and of those that are not whole. Call as `table.once(contents)`.
    """
    mads, loc, chunk = table.once(Mads), table.located, table.chunk
    rows = mads.rows[(mads.mgmt_class == LID_ROUTED) | (mads.mgmt_class == DIRECTED)]
    if not len(rows):
        return np.broadcast_to(np.int64(0), len(table))
    found = np.zeros(len(table), np.int64)
    lrh, link = loc.at("lrh"), chunk.link[rows]
    whole = loc.complete[rows] & (lrh[rows] >= 0) & (loc.malformed[rows] == 0) & (loc.at("mad")[rows] + _SIZE == loc.payload_end[rows])
    whole &= (link == LINK_ERF) | (link == LINK_INFINIBAND)
    rows = rows[whole]
    if len(rows) and "inner" not in loc.start:
        Marks(chunk.data).packets(rows, lrh, loc.at("bth"), loc.at("mad"), found)
    return found


def together(*columns: npt.NDArray[Any]) -> Int:
    """One positive number for what all columns say of a row, int64[n]: equal for equal rows."""
    return mix(columns).view(np.int64) & np.int64((1 << 63) - 1) | 1


_SIZE = MAD_SIZE[BASE_VERSION_IB]


@cache
def rests_on_content(on: type[Struct] | None, condition: Expr, *known: type) -> bool:
    """Whether a condition about occurrences of `on` holds for a subnet management packet if it holds for one with equal `contents`.

    `known`: kinds of operands whose values are compared, too.
    """
    return on is not None and _is_part_of_content(on, known) and _is_part_of_content(condition, known)


def _is_part_of_content(part: Any, known: tuple[type, ...]) -> bool:
    """Whether what a condition names is among the contents, if it is in such a packet at all."""
    if isinstance(part, Field):
        of_mads = part.owner is MAD or any(isinstance(place, MadFormat) for place in part.owner.carried_by)
        left_out = BTH.psn if part.owner is BTH else MAD.transaction_id if of_mads else None
        apart = left_out is None or part.bit + part.bits * part.count <= left_out.bit or part.bit >= left_out.bit + left_out.bits
        return apart and not isinstance(part, ComputedField) and _is_part_of_content(part.owner, known)
    if isinstance(part, type):
        return part not in (ERF, ICRC, VCRC)
    if isinstance(part, Where):
        return part.of_content and _is_part_of_content(part.of, known)
    if isinstance(part, (And, Arith, Compare, In, Not, Or, Present)):
        return all(_is_part_of_content(getattr(part, name), known) for name in part.__struct_fields__)
    if isinstance(part, tuple):
        return all(_is_part_of_content(one, known) for one in part)
    return part is None or isinstance(part, (int, str, bytes, frozenset, *known))
