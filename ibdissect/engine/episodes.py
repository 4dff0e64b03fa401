"""Which episodes of trouble did a direction have, which positions did it skip, how long did it wait? The rare steps of `halves`."""

from __future__ import annotations

from array import array
from typing import Any

LOSS, REORDERING, TIMEOUT, RNR, PAUSE = "loss", "reordering", "timeout", "rnr", "idle"
MAX_EPISODES, MAX_HOLES, MAX_ALL = 128, 256, 100_000
"""Episodes and skipped ranges that are kept for each direction, and episodes for all."""
MAX_ENTRIES = 1 << 19
"""Skipped ranges, READs that are under way and classes of waits that are kept for all directions together."""


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

    `room`: how many more there may be in all directions.
    """
    if start >= end:
        return 0
    holes.append([start, end])
    if len(holes) > MAX_HOLES or room <= 0:
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


def wrong_read(half: Any, read: list[int], p: Any, size: int) -> None:
    """Responses up to this one do not make what the READ asked for: so many bytes, or -1, a later part first. `read` as in `Half.reads`.

    Counts once a direction, and not where another READ of another length may have these responses: part of one may be asked for again.
    """
    rivals = [one for one in half.reads if one[0] < read[0] + read[1] and (one[0], one[3]) != (read[0], read[3])]
    if not half.wrong_frame and not rivals and read[3] >= 0:
        half.wrong_frame, half.wrong_request, half.wrong_size, half.wrong_wanted = p.frame, read[4], size, read[3]


def add_gap(gaps: dict[int, list[int]], gap: int, room: int) -> bool:
    """Keep a time that an answer ended, in classes of a sixteenth of an octave: [number, sum]. False: no room for another class."""
    shift = max(0, gap.bit_length() - 5)
    one = gaps.get(shift << 5 | gap >> shift)
    if one is None:
        if room <= 0:
            return False
        one = gaps[shift << 5 | gap >> shift] = [0, 0]
    one[0] += 1
    one[1] += gap
    return True


def beyond(half: Any, trip: int) -> tuple[int, int]:
    """The sum of all gaps of a direction, and of what they last beyond a round trip. Of the long ones number and sum are enough."""
    total, wait = half.long_sum, max(0, half.long_sum - half.long_gaps * trip)
    for number, length in half.gaps.values():
        total += length
        wait += max(0, length - number * trip)
    return total, wait


def wider(ring: Any, first: int, size: int) -> array[int]:
    """A ring of entries of `size` numbers, twice as long, with its first entry at the front. `ring`: int64s."""
    old = array("q")
    old.frombytes(memoryview(ring).cast("B"))
    old = old[first * size % len(old) :] + old[: first * size % len(old)] if old else old
    return old + array("q", bytes(8 * max(len(old), 4 * size)))
