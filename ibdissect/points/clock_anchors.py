"""Packets by which the clocks of two points can be compared, steps of these clocks, and their drift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import U64, Columns, by_value, common, is_in, run_starts

from .packet_identity import Sightings
from .read_captures import Point

NEAR_NS = 50_000
"""Sightings of equal packets within this time count as one when clocks are compared: a mirror's duplicate, a port's two sides."""
ENOUGH = 200_000
"""Packets used to compare two clocks; if there are more, every second, third, ... is used."""
FEW = 20
"""If fewer packets were sent only once, repeated ones are compared too; this many with a stamp of their own suffice."""
SAME_NS = 2_000_000
"""Clocks drift less than this while repeated packets are compared."""
PAIRS = 1_000_000
"""Maximum number of pairs of equal packets that are compared."""
JUMP_NS, DRIFT = 200_000, 5e-4
"""A clock that moves by more than JUMP_NS plus DRIFT times the interval between two packets was set."""
NEIGHBOURS = 7
"""Packets on each side of a jump that must agree on it."""
PARTS = 8
"""Before small steps are known, a drift is measured between packets 1 / PARTS of a stretch apart."""
CERTAIN = 4.0
"""Number of standard errors by which a value must exceed noise."""


class Anchors(Columns):
    """Packets that both points saw once, in the file order of the second."""

    first: Int
    """Row at the first point."""
    second: Int
    delay: Int
    """Clock of the second point minus clock of the first."""
    flow: Int
    segment: Int
    """Number of the stretch between two steps of either clock."""
    own_stamp: Bool
    """Both points gave it a stamp of its own."""

    def __len__(self) -> int:
        return len(self.first)

    def with_own_stamps(self) -> Anchors:
        """The anchors with stamps of their own, if there are enough."""
        return self.take(self.own_stamp) if np.count_nonzero(self.own_stamp) >= max(FEW, len(self) // 10) else self


def seen_once(points: Sequence[Point]) -> list[tuple[U64, Int]]:
    """For each point the keys that it saw once, ascending, and the row of each; duplicates within NEAR_NS are ignored.

    Keys that any point saw more than once are left out: two points may have seen different copies.
    """
    found, repeated = [], []
    for point in points:
        order = np.argsort(point.seen.key, kind="stable")
        keys = point.seen.key[order]
        starts = run_starts(keys)
        last = np.append(starts[1:], len(keys)) - 1
        near = np.abs(point.seen.time[order[last]] - point.seen.time[order[starts]]) <= NEAR_NS
        found.append((keys[starts], order[starts]))
        repeated.append(keys[starts[~near]])
    some = np.concatenate(repeated)
    return [(keys[single], rows[single]) for keys, rows in found for single in [~is_in(keys, some)]]


def anchors(points: Sequence[Point], once: Sequence[tuple[U64, Int]], first: int, second: int) -> Anchors:
    """The packets for comparing the clocks of two points, with the steps found in the clocks."""
    one, other = points[first].seen, points[second].seen
    _, left, right = common(once[first][0], once[second][0])
    rows, others = once[first][1][left], once[second][1][right]
    if len(rows) < FEW:
        rows, others = max((rows, others), _repeated(one, other), key=lambda pair: len(pair[0]))
    order = np.argsort(others, kind="stable")[:: 1 + len(others) // ENOUGH]
    rows, others = rows[order], others[order]
    delay = other.time[others] - one.time[rows]
    level = _of_one_way(delay, one.flow[rows].astype(np.int64))
    if _unrelated(level, other.time[others]):
        rows, others, delay, level = rows[:0], others[:0], delay[:0], level[:0]
    own_stamp = one.own_stamp[rows] & other.own_stamp[others]
    return Anchors(rows, others, delay, one.flow[rows].astype(np.int64), _segments(level, other.time[others]), own_stamp)


def _unrelated(delay: Int, time: Int) -> bool:
    """Whether the delays fit no clock: the packets are equal but were sent at different times."""
    if len(delay) < NEIGHBOURS:
        return False
    return bool(np.median(np.abs(np.diff(delay)) - DRIFT * np.abs(np.diff(time))) > JUMP_NS)


def _repeated(first: Sightings, second: Sightings) -> tuple[Int, Int]:
    """Pair the rows of repeated packets: those whose clocks differ by what most pairs of equal packets agree on."""
    none = np.empty(0, np.int64)
    one, other = (np.argsort(point.key, kind="stable") for point in (first, second))
    low, high = (np.searchsorted(second.key[other], first.key[one], side) for side in ("left", "right"))
    count = high - low
    total = int(count.sum())
    if not 0 < total <= PAIRS:
        return none, none
    rows = np.repeat(one, count)
    others = other[np.arange(total) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)]
    delay = second.time[others] - first.time[rows]
    ordered = np.sort(delay)
    inside = np.searchsorted(ordered, ordered + SAME_NS, "right") - np.arange(total)
    best = int(ordered[inside.argmax()])
    rivals = inside[np.abs(ordered - best) > 2 * SAME_NS]
    if 2 * int(rivals.max(initial=0)) > int(inside.max()):
        return none, none
    good = (delay >= best) & (delay <= best + SAME_NS)
    rows, others = rows[good], others[good]
    alone = (np.bincount(rows)[rows] == 1) & (np.bincount(others)[others] == 1)
    return rows[alone], others[alone]


def _of_one_way(delay: Int, flow: Int) -> Int:
    """The delays as if all packets had gone the way of the largest flow: those of the other way of a long path come early by as much.

    Flows that few packets of the largest one lie between stay as they are: what they differ in may be a step.
    """
    found, rows = delay.copy(), np.arange(len(delay))
    if not len(rows):
        return found
    largest = max(by_value(flow), key=lambda one: len(one[1]))[1]
    after = np.searchsorted(largest, rows)
    before, after = (largest[np.clip(place, 0, len(largest) - 1)] for place in (after - 1, after))
    nearest = np.where(rows - before <= np.abs(after - rows), before, after)
    among, apart = np.abs(rows - nearest) <= NEIGHBOURS, delay - delay[nearest]
    for _, mine in by_value(flow):
        near = mine[among[mine]]
        if 2 * len(near) > len(mine):
            found[mine] -= np.int64(np.median(apart[near]))
    return found


def _segments(delay: Int, time: Int) -> Int:
    """Number the stretches between steps: places where the medians before and after differ by more than drift explains."""
    n, k = len(delay), NEIGHBOURS
    if n < 2 * k:
        return np.zeros(n, np.int64)
    level = np.median(np.lib.stride_tricks.sliding_window_view(delay - delay[0], k), axis=1)
    when = np.median(np.lib.stride_tricks.sliding_window_view(time - time[0], k), axis=1)
    jump = np.abs(level[k:] - level[:-k]) - JUMP_NS - DRIFT * np.abs(when[k:] - when[:-k])  # between anchors i + k - 1 and i + k
    found = np.zeros(n, np.int64)
    i = 0
    while len(some := np.flatnonzero(jump[i:] > 0)):
        start = i + int(some[0])
        stop = start + 1
        while stop < len(jump) and jump[stop] > 0:
            stop += 1
        before, after = delay[start : start + k], delay[min(stop + k - 1, n - k) : min(stop + 2 * k - 1, n)]
        rest = delay[start : stop + 2 * k - 1] - np.int64(np.median(before))
        nearer = np.abs(rest) < np.abs(rest - np.int64(np.median(after) - np.median(before)))
        gain = np.cumsum(np.where(nearer, 1, -1))  # the border that puts most anchors on their own side
        found[start + int(np.argmax(gain)) + 1 :] += 1
        i = stop
    return found


def drift_of(anchors: Anchors, time: Int, side: Int, parts: int = 2) -> float:
    """The relative drift of two clocks, from packets of the same stretch and `side` that are 1 / `parts` of it apart.

    Robust against queueing; 0 if it does not stand out from noise. Many parts make it robust against small steps, few make it exact.
    """
    slopes, weights = [], []
    for _, rows in by_value(anchors.segment * (int(side.max(initial=0)) + 1) + side):
        half = len(rows) // parts
        if half < 2:
            continue
        rows = rows[np.argsort(time[rows], kind="stable")]
        apart = time[rows[half:]] - time[rows[:-half]]
        apart_delay = anchors.delay[rows[half:]] - anchors.delay[rows[:-half]]
        some = apart > 0
        slopes.append(apart_delay[some] / apart[some])
        weights.append(apart[some].astype(np.float64))
    if not slopes:
        return 0.0
    slope, weight = np.concatenate(slopes), np.concatenate(weights)
    order = np.argsort(slope)
    total = np.cumsum(weight[order])
    if not len(total):
        return 0.0
    low, middle, high = slope[order[np.searchsorted(total, total[-1] * np.array((0.25, 0.5, 0.75)))]].tolist()
    return float(middle) if abs(middle) > CERTAIN * (high - low) / len(slope) ** 0.5 else 0.0
