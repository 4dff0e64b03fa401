"""Requests of a chunk that are followed by exactly one answer: a single sort matches all clean traffic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import U64, is_in, order_of
from ibdissect.wire.numbers import CM_CLASS, DATA, RESPONSE_BIT, TRAP, TRAP_REPRESS

from .datagrams import ASKS, Datagrams

NOTHING, REQUEST, ANSWER, OTHER = range(4)
"""Roles of a datagram in matching."""
_ROLES = np.full(256, NOTHING, np.uint8)
_ROLES[ASKS] = REQUEST
_ROLES[[TRAP, TRAP_REPRESS]] = OTHER
_ROLES[RESPONSE_BIT:] = ANSWER


def roles(mads: Datagrams) -> tuple[npt.NDArray[np.uint8], Bool]:
    """The role of each datagram in matching, and whether it belongs to a multi-packet transfer."""
    role, kind = _ROLES[mads.method], mads.rmpp_type
    segments = kind != 0
    if segments.any():
        # Later segments belong to the same request or answer as the first one.
        role[segments & ((kind != DATA) | (mads.segment > 1))] = NOTHING
    other = (mads.mgmt_class == CM_CLASS) | ((role == REQUEST) & mads.answered_elsewhere)
    role[other] = NOTHING
    return role, segments & ~other


class Pairs(Record, frozen=True, eq=False):
    """Indices of datagrams; `requests` and `answers` have equal length, `answers` ascend."""

    requests: Int
    answers: Int
    waits: Int
    """Requests that may be answered in a later chunk, ascending; only complete pairs precede them."""
    rest: Int
    """All others, ascending: requests repeated before or after their answer, second answers, answers without a request, and all that
    match a request of an earlier chunk."""

    def without(self, doubtful: Bool) -> Pairs:
        """With some of `waits` in `rest`."""
        if not doubtful.any():
            return self
        rest = np.sort(np.concatenate([self.rest, self.waits[doubtful]]))
        return Pairs(self.requests, self.answers, self.waits[~doubtful], rest)


def pair(marks: U64, columns: Sequence[npt.NDArray[np.uint64]], role: npt.NDArray[np.uint8], waiting: U64) -> Pairs:
    """Match each request with the next answer that is equal in all columns; `role` as above, one per datagram.

    Matches only groups of equal datagrams that alternate request, answer, request, answer ... (a last request without an answer goes
    to `rest` if it is not the only one), and whose mark is not in `waiting`. `marks` is `mix(columns)`; groups with hash collisions go
    to `rest`.
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
    fine = role == np.where(second, ANSWER, REQUEST).astype(np.uint8)
    for column in columns:
        if not column.any():
            continue
        found = column[order]
        fine[1:] &= (found[1:] == found[:-1]) | new[1:]
    clean = np.logical_and.reduceat(fine, starts)
    clean &= ~is_in(sorted_marks[starts], waiting)
    matched = np.flatnonzero(second & clean[group])
    requests, answers = order[matched - 1], order[matched]
    waits = order[starts[clean & (sizes == 1)]]
    rest = np.zeros(len(marks), np.bool_)
    rest[live] = True
    rest[requests] = rest[answers] = rest[waits] = False
    by_answer = np.argsort(answers)
    return Pairs(requests[by_answer], answers[by_answer], np.sort(waits), np.flatnonzero(rest))
