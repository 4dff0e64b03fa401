"""Times, counts and episodes of a connection, from the state of its directions."""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import Any

from ibdissect.engine.episodes import LOSS, PAUSE, REORDERING, TIMEOUT, beyond

from .connection import ConnectionTimes, Counts, Episode
from .connections_from_lanes import Raw

UNKNOWN_TRIP = 1 << 61
LEAST_EPISODES = 3
"""Fewer do not make a connection slow."""
SHARE = 5
"""A fifth of the time in which the application was not idle."""


def times_of(half: Any) -> ConnectionTimes | None:
    """The time of a direction by its parts; None without packets, or where answers are cut off before they say whether they are NAKs,
    or where more was under way than is remembered. A queue pair that was made anew did not wait for its timer: it was idle."""
    if half is None or not half.since or half.unread or half.forgotten:
        return None
    trip = half.path.trip
    total, wait = beyond(half, trip)
    wait = wait if trip < UNKNOWN_TRIP else 0
    timeout, idle = (half.timeout, half.idle) if timeouts_of(half) else (0, half.idle + half.timeout)
    parts = (half.transferring + total - wait, wait, half.rnr_wait, half.loss_recovery, timeout, idle)
    return ConnectionTimes(sum(parts), *parts)


def timeouts_of(half: Any) -> int:
    """How often a requester waited until its timer ran out. Never, as far as is known, if the messages of its queue pair were counted from
    the start again: then that was made anew, with PSNs that it had before.
    """
    return 0 if half.renewed else int(half.timeouts)


def round_trip_of(half: Any) -> int | None:
    """The shortest round trip that the capture shows between the two hosts, in nanoseconds; None if it shows none."""
    return int(half.path.trip) if half is not None and half.path.trip < UNKNOWN_TRIP else None


def reordered(half: Any) -> bool:
    """Whether packets that a NAK asked for came late, rather than never."""
    return bool(half.reorder_proof > half.loss_proof)


def episodes_of(raw: Raw) -> tuple[Episode, ...]:
    """The episodes of both directions in order of time."""
    found: list[Episode] = []
    halves = raw.halves
    for half in halves:
        late, quiet = reordered(half), half.idle_times()
        found += map(Episode, repeat(PAUSE), quiet[::2], quiet[1::2])
        for kind, start, end, again in half.episodes:
            if kind == TIMEOUT and not timeouts_of(half):
                continue
            found.append(Episode(REORDERING if late and kind == LOSS else kind, start, max(start, end), again))
    if len(halves) > 1 or (halves and halves[0].episodes):  # pauses alone are in order
        found.sort(key=attrgetter("start_ns", "end_ns"))
    return tuple(found)


def counts_of(raw: Raw) -> Counts:
    """What both directions show together."""
    halves = raw.halves
    return Counts(
        sum(half.messages for half in halves), sum(half.payload for half in halves), sum(half.again for half in halves),
        sum(half.naks for half in halves), sum(half.rnr_naks for half in halves),
        sum(lane.cnps for lane in raw.lanes if lane is not None), sum(half.marks for half in halves),
        sum(half.unread for half in halves),
    )  # fmt: skip


def slow_by(half: Any, times: ConnectionTimes) -> str | None:
    """What made a direction slow: loss, reordering, timeout or rnr; None if it is not."""
    kinds = ((half.rnrs, times.rnr_wait, "rnr"), (timeouts_of(half), times.timeout, "timeout"), (half.losses, times.loss_recovery, "loss"))
    number, part, name = max(kinds, key=lambda one: one[1])
    if number < LEAST_EPISODES or part * SHARE < times.busy or not part:
        return None
    return "reordering" if name == "loss" and reordered(half) else name
