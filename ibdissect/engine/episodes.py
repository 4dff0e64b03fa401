"""Episodes of trouble, skipped positions and gaps of a direction. The rare steps of `requester_responder`."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

LOSS, REORDERING, TIMEOUT, RNR, PAUSE = "loss", "reordering", "timeout", "rnr", "idle"
MAX_EPISODES, MAX_HOLES, MAX_ALL = 128, 256, 100_000
"""Episodes and skipped ranges that are kept for each direction, and episodes for all."""
MAX_ENTRIES = 1 << 19
"""Skipped ranges and classes of waits that are kept for all directions together."""


def open_episode(half: Any, kind: str, start: int, end: int) -> None:
    """Begin an episode: [kind, start, end, packets sent again in it]. Any: `Half`, compiled or not."""
    close_episode(half, start)
    if len(half.episodes) < MAX_EPISODES and half.path.room.episodes > 0:
        half.path.room.episodes -= 1
        half.episodes.append([kind, start, end, 0])
    else:
        half.dropped += 1


def close_episode(half: Any, time: int) -> None:
    """What was under way is acknowledged, or something else begins: the last loss or RNR wait ends."""
    if half.episodes:
        one = half.episodes[-1]
        if one[0] != TIMEOUT and one[1] == one[2]:
            one[2] = max(one[1], time)


def count_again(episodes: list[list[Any]]) -> None:
    """A packet was sent again, in the last episode."""
    if episodes:
        episodes[-1][3] += 1


def skip(holes: list[list[int]], start: int, end: int, room: int) -> int:
    """Positions from `start` to `end` were not seen although later ones were; returns how many ranges were forgotten for that.

    `holes`: ranges in order. `room`: how many more there may be in all directions.
    """
    if start >= end:
        return 0
    insort(holes, [start, end])
    if len(holes) > MAX_HOLES or room <= 0:
        holes.pop(0)
        return 1
    return 0


def fill(holes: list[list[int]], pos: int, end: int) -> bool:
    """Whether `pos` was skipped and comes now."""
    at = bisect_left(holes, [pos + 1]) - 1
    if at < 0 or holes[at][1] <= pos:
        return False
    start, stop = holes[at]
    holes[at : at + 1] = [part for part in ([start, pos], [end, stop]) if part[0] < part[1]]
    return True


def beyond(half: Any, trip: int) -> tuple[int, int]:
    """The sum of all gaps of a direction, and of what they last beyond a round trip. Of the long ones number and sum are enough."""
    gaps = half.gaps
    total, wait = gaps.long_sum, max(0, gaps.long_sum - gaps.long_count * trip)
    for _, number, length in gaps.classes():
        total += length
        wait += max(0, length - number * trip)
    return total, wait
