"""Which episodes of trouble did a direction have, which positions did it skip, how long did it wait? The rare steps of `halves`."""

from __future__ import annotations

from typing import Any

LOSS, REORDERING, TIMEOUT, RNR, PAUSE = "loss", "reordering", "timeout", "rnr", "idle"
MAX_EPISODES, MAX_HOLES = 256, 256
"""Episodes and skipped ranges that are kept for each direction."""


def open_episode(half: Any, kind: str, start: int, end: int) -> None:
    """Begin an episode: [kind, start, end, packets sent again in it]. Any: `Half`, compiled or not."""
    if kind != PAUSE:
        close_episode(half, start)
    if len(half.episodes) < MAX_EPISODES:
        half.episodes.append([kind, start, end, 0])
    else:
        half.dropped += 1


def close_episode(half: Any, time: int) -> None:
    """What was under way is acknowledged, or something else begins: the last loss or RNR wait ends."""
    for one in reversed(half.episodes):
        if one[0] != PAUSE:
            if one[0] != TIMEOUT and one[1] == one[2]:
                one[2] = max(one[1], time)
            return


def count_again(episodes: list[list[Any]]) -> None:
    """A packet was sent again, in the last episode."""
    for one in reversed(episodes):
        if one[0] != PAUSE:
            one[3] += 1
            return


def skip(holes: list[list[int]], start: int, end: int) -> int:
    """Positions from `start` to `end` were not seen although later ones were; returns how many ranges were forgotten for that."""
    if start >= end:
        return 0
    holes.append([start, end])
    if len(holes) > MAX_HOLES:
        holes.pop(0)
        return 1
    return 0


def fill(holes: list[list[int]], pos: int, end: int) -> bool:
    """Whether `pos` was skipped and comes now."""
    for i, one in enumerate(holes):
        if one[0] <= pos < one[1]:
            holes[i : i + 1] = [part for part in ([one[0], pos], [end, one[1]]) if part[0] < part[1]]
            return True
    return False


def add_gap(gaps: dict[int, list[int]], gap: int) -> None:
    """Keep a time that an answer ended, in classes of a sixteenth of an octave: [number, sum]."""
    shift = max(0, gap.bit_length() - 5)
    one = gaps.setdefault(shift << 5 | gap >> shift, [0, 0])
    one[0] += 1
    one[1] += gap


def beyond(gaps: dict[int, list[int]], trip: int) -> tuple[int, int]:
    """The sum of all gaps, and of what they last beyond a round trip."""
    total = sum(one[1] for one in gaps.values())
    return total, sum(max(0, one[1] - one[0] * trip) for one in gaps.values())
