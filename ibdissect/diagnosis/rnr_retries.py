"""Requesters that gave up because the responder had no receive buffer (RNR NAK), and how many tries they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibdissect.wire.numbers import RNR_TIMER_US

from .connections_from_lanes import Raw

INFINITE = 7
"""The RNR retry count that means forever."""


def rnr_limit(raw: Raw, half: Any) -> int | None:
    """The RNR retry count of a requester: the REP says the asker's, the REQ the other one's."""
    if raw.setup is None:
        return None
    own, other = raw.setup.agreed["rnr_retry_of_rep"], raw.setup.agreed["rnr_retry_count"]
    if half is not raw.half(0):
        return other
    return other if own in (None, INFINITE) and other is not None and half.rnr_count == other + 1 else own  # some keep to their own REQ


def rnr_exhausted(raw: Raw, half: Any, goes_on: Callable[[int, int], int]) -> bool:
    """Whether the last word was an RNR NAK, and the requester then gave up: not if it had tries left, or the other side took leave."""
    if half.rnr < half.una or half.rnr_frame < half.last_answer:
        return False
    limit = rnr_limit(raw, half)
    if limit is not None:
        return bool(half.rnr_count > limit != INFINITE)
    if half.rnr_count > INFINITE:
        return False  # only who tries without end gets so many
    side = 0 if half is raw.half(0) else 1
    ended = raw.setup is not None and any(time >= half.rnr_time and by == side for _, time, by in raw.setup.dreqs)
    return ended or goes_on(half.rnr_frame, half.rnr_time) > 4000 * RNR_TIMER_US[half.rnr_code]
