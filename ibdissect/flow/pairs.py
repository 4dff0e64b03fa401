"""Which requests of a chunk have exactly one answer, right behind them? All that is clean is matched by one sort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.table.distinct import U64, order_of
from ibdissect.table.locate import Bool, Int

NOTHING, ASKS, ANSWERS, OTHER = range(4)
"""What a datagram is to the matching."""
_ODD = (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB,
    0x8EBC6AF09C88C6E3, 0x589965CC75374CC3,
)  # fmt: skip
"""Odd multipliers that spread small numbers over 64 bits, one for each of the first columns, then over again."""


@record
class Pairs:
    """Indices of datagrams; the first two have one length, the answers ascend."""

    requests: Int
    answers: Int
    waits: Int
    """Requests that may find their answer in a later chunk, ascending: nothing but pairs came before them."""
    rest: Int
    """All others that take part, ascending: repeated, answered twice, answers alone, or of a mark that was waited for."""


def mark(columns: Sequence[npt.NDArray[np.uint64]]) -> U64:
    """A hash of each row, uint64[n]; columns of zeros at the end do not change it, nor what chunk the row is in."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for k, column in enumerate(columns):
        part = column * np.uint64(_ODD[k % len(_ODD)] + 2 * (k // len(_ODD)))
        part ^= part >> np.uint64(29)
        part *= np.uint64(_ODD[1])
        mixed += part
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(_ODD[0])
    return mixed


def among(marks: U64, some: U64) -> Bool:
    """Which marks are among some, bool[n]."""
    if not len(some):
        return np.zeros(len(marks), np.bool_)
    some = np.sort(some)
    found: Bool = some[np.minimum(np.searchsorted(some, marks), len(some) - 1)] == marks
    return found


def pair(marks: U64, columns: Sequence[npt.NDArray[np.uint64]], role: npt.NDArray[np.uint8], waiting: U64) -> Pairs:
    """Match datagrams that agree in all columns, each request with the answer behind it; `role` as above, one a datagram.

    Only where all that agree come as request, answer, request, answer ... (the last request may lack its answer), and where
    their mark is not one of `waiting`. `marks` is `mark(columns)`; rows that differ and hash alike are left to the rest.
    """
    live = np.flatnonzero(role)
    order = live[order_of(marks[live])]
    if not len(order):
        return Pairs(order, order, order, order)
    sorted_marks, role = marks[order], role[order]
    new = np.ones(len(order), np.bool_)
    np.not_equal(sorted_marks[1:], sorted_marks[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(order))
    group = np.repeat(np.arange(len(starts)), sizes)
    second = (np.arange(len(order)) - starts[group] & 1).astype(np.bool_)
    fine = role == np.where(second, ANSWERS, ASKS).astype(np.uint8)
    for column in columns:
        found = column[order]
        fine[1:] &= (found[1:] == found[:-1]) | new[1:]
    clean = np.logical_and.reduceat(fine, starts)
    clean &= ~among(sorted_marks[starts], waiting)
    matched = np.flatnonzero(second & clean[group])
    requests, answers = order[matched - 1], order[matched]
    waits = order[(starts + sizes - 1)[clean & (sizes & 1 == 1)]]
    rest = np.zeros(len(marks), np.bool_)
    rest[live] = True
    rest[requests] = rest[answers] = rest[waits] = False
    by_answer = np.argsort(answers)
    return Pairs(requests[by_answer], answers[by_answer], np.sort(waits), np.flatnonzero(rest))
