"""What happened to each packet between the points: passed, lost, not captured, or unknown? And why is that certain?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.table.locate import Bool, Int
from ibdissect.table.rows import mix

from .answers import Packets, Proofs, numbered, proofs_of
from .clocks import Clocks
from .columns import FIELDS, Flows, Point
from .directions import Directions
from .matching import Matched

if TYPE_CHECKING:
    from .comparison import Comparison

ON_PATH = 0.8
"""The share of a route's delivered packets that a point must have seen to lie on that route."""
ENOUGH = 8
"""Delivered packets needed to judge a route by itself, not together with all others between the same addresses."""
HOLE = 4
"""If this many packets provably passed a point while it recorded nothing, it was not capturing."""
TESTED = 20
"""A point misses nothing if at least this many packets provably passed it, and its file has them all."""
BY_CHANCE = 0.05
"""Two points that lack a packet prove its loss only if both would miss at most this many packets by chance."""
SHARE = 0.05
"""The share of such packets that chance may explain if the loss is to count as likely."""
SOME = 0.05
"""A point that saw at least this share of a route's delivered packets, but not ON_PATH, misses packets or sees one of several paths."""


class Journey(Record):
    """Where each transmission was seen and should have been seen; bool[transmissions, points] unless noted otherwise."""

    seen: Bool
    due: Bool
    """The point lies on the packet's route."""
    covered: Bool
    """The point was surely capturing."""
    place: npt.NDArray[np.int16]
    """Number of earlier points on the route, int16[transmissions, points]."""
    passed: Bool
    """Not seen there, but at a later point."""
    proofs: Proofs
    missed: Int
    """Packets that provably passed while the point was capturing but are missing in its file, int64[points]."""
    tested: Int
    """Packets that provably passed, int64[points]."""
    complete: Bool
    """Points that miss nothing, bool[points]."""
    lost: Bool
    """bool[transmissions]"""
    lost_before: Bool
    """The points that a lost packet should have reached."""
    why: npt.NDArray[np.uint8]
    """Index into WHY of each transmission, uint8[transmissions]."""
    likely: Bool
    """The loss is likely, not certain; bool[transmissions]."""
    after: Int
    """The last point that saw it, int64[transmissions]."""
    before: Int
    """The point that should have seen it next, int64[transmissions]; -1 for none."""
    unclear: int
    """Absent packets whose equal copies may have arrived."""


WHY = ("", "absent", "absent-twice", "nak")
OUTCOMES = ("passed", "lost", "ambiguous", "unknown")
"""What became of a packet: `passed` the points on its route, or was answered; `ambiguous`: equal packets are too close together."""


class Transmissions(Record):
    """The fields of the transmissions, one entry each."""

    packets: Packets
    source: Int
    order: Int
    """The flow in which packets should stay in order."""
    port: Int


def transmissions_of(points: Sequence[Point], matched: Matched, directions: Directions, flows: Flows) -> Transmissions:
    """The columns of each transmission, from the first point that has it."""
    n = len(matched)
    names = ("flow", "psn", "syndrome", "port", "opcode", "transaction", "asks")
    columns: dict[str, Any] = {name: np.zeros(n, getattr(points[0], name).dtype) for name in names}
    for i, point in enumerate(points):
        there = np.flatnonzero(matched.rows[:, i] >= 0)
        for name, column in columns.items():
            column[there] = getattr(point, name)[matched.rows[there, i]]
    packets = Packets(**{name: column for name, column in columns.items() if name != "port"})
    return Transmissions(packets, directions.ends.source[packets.flow], flows.merged()[packets.flow], columns["port"])


def judge(points: Sequence[Point], matched: Matched, what: Transmissions, directions: Directions, clocks: Clocks, flows: Flows) -> Journey:
    """Decide for each transmission where it was lost, if that is certain."""
    seen = matched.rows >= 0
    behind = np.moveaxis(directions.sign, 2, 0) > 0  # [source, i, j]: i comes before j
    place = behind.sum(axis=1, dtype=np.int16)[what.source]
    proofs = proofs_of(what.packets, flows, flows.merged())
    proofs.answered &= ~matched.ambiguous
    passed = np.zeros(seen.shape, np.bool_)
    for i, j in permutations(range(len(points)), 2):
        passed[:, i] |= ~seen[:, i] & seen[:, j] & behind[what.source, i, j]
    known = passed | (~seen & proofs.answered[:, None])
    covered, perhaps = _covered(matched, clocks)
    _leave_out_steps(covered, perhaps, clocks, matched)
    furthest = np.where(seen, place, -1).max(axis=1, keepdims=True)
    there = seen & (proofs.answered[:, None] | (place < furthest))
    due, _ = _due(seen, there & covered, known & covered, what, directions)
    for i, times in enumerate(clocks.times):
        _leave_out_holes(covered, perhaps, known & due, i, times, matched)
    due, partly = _due(seen, there & covered, known & covered, what, directions)
    missed = (known & due & covered & ~(matched.ambiguous | matched.close)[:, None]).sum(axis=0)
    tested = missed + (there & due).sum(axis=0)
    complete = (missed == 0) & (tested >= TESTED) & ~partly
    last = np.where(seen, place, -1).argmax(axis=1)
    rows = np.arange(len(seen))
    lacking = due & perhaps & ~seen & (place > place[rows, last][:, None]) & behind[what.source, last]
    vague = np.array([flow.vague for flow in flows.known])[what.packets.flow]  # which of several routes it took is unknown
    absent = lacking & covered & ~(proofs.answered | vague)[:, None]
    backed = proofs.refused | proofs.resent
    chance, some = _by_chance(absent & complete & ~backed[:, None], (due & covered & (seen | absent)).sum(axis=0), tested)
    told = (absent & complete & (backed[:, None] | (chance <= SHARE))).any(axis=1)
    doubtful = absent & ~told[:, None]
    proved, likely = _absent_twice(doubtful, due, np.where(partly, 1.0, (missed + 1) / (tested + 2)))
    refused = proofs.refused & ~proofs.answered & lacking.any(axis=1)
    why = np.select([told, proved | (likely & ~refused), refused], [1, 2, 3], 0).astype(np.uint8)
    unclear = int(((why > 0) & matched.ambiguous).sum())
    why[matched.ambiguous] = 0
    nearest = np.where(lacking, place, np.iinfo(np.int16).max)
    before = np.where(lacking.any(axis=1), nearest.argmin(axis=1), -1)
    likely = np.where(why == 1, ~((absent & complete & (some <= SHARE)).any(axis=1) | backed), likely & (why == 2))
    lost = why > 0
    return Journey(
        seen, due, covered, place, passed, proofs, missed, tested, complete, lost, lacking & lost[:, None], why, likely, last, before,
        unclear,
    )  # fmt: skip


def _by_chance(absent: Bool, due: Int, tested: Int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """How likely a point that has all tested packets has merely missed those that it lacks, float64[points].

    First all of them: they would all be packets that nothing tests, which one or two may well be, but not many. Then each of them.
    """
    lacks = absent.sum(axis=0)
    untested = np.maximum(due - tested, 1)
    return (untested / (untested + tested)) ** lacks, untested / (tested + 1) / np.maximum(lacks, 1)


def _absent_twice(absent: Bool, due: Bool, miss: npt.NDArray[np.float64]) -> tuple[Bool, Bool]:
    """Packets that several points lack, whose loss is proved or likely: far more than these points would miss by chance."""
    proved, likely = np.zeros((2, len(absent)), np.bool_)
    for pattern in np.unique(absent, axis=0):
        if np.count_nonzero(pattern) >= 2:
            alike = (absent == pattern).all(axis=1)
            chance = float(miss[pattern].prod()) * np.count_nonzero(due[:, pattern].all(axis=1))
            proved |= alike & (chance <= BY_CHANCE)
            likely |= alike & (BY_CHANCE < chance <= SHARE * np.count_nonzero(alike))
    return proved, likely


def _covered(matched: Matched, clocks: Clocks) -> tuple[Bool, Bool]:
    """Which points were certainly capturing when each packet passed, however long it took, and which may have been."""
    found, perhaps = np.zeros((2, *matched.rows.shape), np.bool_)
    for i, times in enumerate(clocks.times):
        slowest = _slowest(matched, i, times)
        found[:, i] = (matched.time >= times.min() + slowest) & (matched.time <= times.max() - slowest)
        perhaps[:, i] = (matched.time >= times.min()) & (matched.time <= times.max())
    return found, perhaps


def _due(seen: Bool, passed: Bool, missed: Bool, what: Transmissions, directions: Directions) -> tuple[Bool, Bool]:
    """Which points lie on each packet's route: those that saw nearly all packets of that route that are known to have passed.

    And which points saw only part of a route's packets, bool[points].
    """
    ends = what.source * directions.ends.count + directions.ends.destination[what.packets.flow]
    due, partly = np.zeros(seen.shape, np.bool_), np.zeros(seen.shape[1], np.bool_)
    fine, coarse = numbered(mix([ends, what.port])), numbered(ends)
    for i in range(seen.shape[1]):
        good = []
        for group in (fine, coarse):
            size = int(group.max()) + 1
            there, away, every = (np.bincount(group[which[:, i]], minlength=size) for which in (passed, missed, seen))
            known = there + away
            share = np.where(known > 0, there / np.maximum(known, 1), 1.0)
            good.append((((share >= ON_PATH) & (every > 0))[group], (known >= ENOUGH)[group]))
            partly[i] |= bool(((known >= ENOUGH) & (share >= SOME) & (share < ON_PATH)).any()) and group is fine
        (of_fine, enough), (of_coarse, _) = good
        due[:, i] = np.where(enough, of_fine, of_coarse)
    return due, partly


def _slowest(matched: Matched, point: int, times: Int) -> int:
    """The longest time from a packet's first sighting to its sighting at a point, in nanoseconds."""
    rows = matched.rows[:, point]
    return int((times[rows] - matched.time)[rows >= 0].max(initial=0))


def _leave_out_steps(covered: Bool, perhaps: Bool, clocks: Clocks, matched: Matched) -> None:
    """Packets that may have passed a point while its clock was unknown or being set cannot be called absent."""
    alone = (matched.rows >= 0).sum(axis=1) == 1
    for i, unsure in enumerate(clocks.unsure):
        for last, first in unsure:
            before = clocks.times[i][last] - _slowest(matched, i, clocks.times[i])
            within = (matched.time >= before) & (matched.time <= clocks.times[i][first])
            covered[within, i] = perhaps[within, i] = False
            numbers = matched.number[i][last + 1 : first]
            matched.ambiguous[numbers[alone[numbers]]] = True


def _leave_out_holes(covered: Bool, perhaps: Bool, known: Bool, point: int, times: Int, matched: Matched) -> None:
    """A point that recorded nothing while several packets provably passed was not capturing then."""
    some = np.flatnonzero(known[:, point] & covered[:, point])
    if len(some):
        ordered, slowest = np.sort(times), _slowest(matched, point, times)
        gap = np.searchsorted(ordered, matched.time)
        holes = np.flatnonzero(np.bincount(gap[some]) >= HOLE)
        perhaps[np.isin(gap, holes), point] = False
        started = np.searchsorted(ordered[holes - 1] - slowest, matched.time)
        ended = np.searchsorted(ordered[holes] + slowest, matched.time)
        covered[started > ended, point] = False


def pairs(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """What happened between each two consecutive points, as in the JSON output."""
    points, rows, what, journey = comparison.points, comparison.matched.rows, comparison.what, comparison.journey
    for i, j in permutations(range(len(points)), 2):
        way = journey.seen[:, i] & (comparison.directions.sign[i, j][what.source] > 0)
        both = np.flatnonzero(way & journey.seen[:, j])
        gone = way & ~journey.seen[:, j] & journey.due[:, j]
        lost = gone & journey.lost_before[:, j]
        if not len(both) and not lost.any():
            continue
        outside = gone & ~lost & ~journey.covered[:, j]
        missed = gone & ~lost & ~outside & (journey.passed[:, j] | journey.proofs.answered)
        near, far = rows[both, i], rows[both, j]
        changed = {}
        for k, name in enumerate(FIELDS):
            left, right = points[i].fields[near, k], points[j].fields[far, k]
            changed[name] = int(((left != right) & (left >= 0) & (right >= 0)).sum())
        yield {
            "from": points[i].name, "to": points[j].name, "matched": len(both), "lost": int(lost.sum()), "not_captured": int(missed.sum()),
            "unknown": int((gone & ~lost & ~outside & ~missed).sum()), "outside": int(outside.sum()),
            "reordered": _reordered(what.order[both], near, far),
            "latency_ns": percentiles(comparison.clocks.times[j][far] - comparison.clocks.times[i][near]),
            "changed": {name: count for name, count in changed.items() if count},
        }  # fmt: skip


def outcomes(comparison: Comparison) -> npt.NDArray[np.uint8]:
    """What became of each transmission, as an index of OUTCOMES."""
    journey = comparison.journey
    further = journey.place > np.take_along_axis(journey.place, journey.after[:, None], axis=1)
    open_ = (journey.due & ~journey.seen & further).any(axis=1) & ~journey.proofs.answered
    return np.select([journey.lost, comparison.matched.ambiguous, open_], [1, 2, 3], 0).astype(np.uint8)


def percentiles(values: Int) -> dict[str, int | None]:
    """Minimum, percentiles and maximum; None without values."""
    names = ("min", "p50", "p90", "p99", "max")
    if not len(values):
        return dict.fromkeys(names)
    return dict(zip(names, np.rint(np.percentile(values, (0, 50, 90, 99, 100))).astype(np.int64).tolist(), strict=True))


def _reordered(flow: Int, sent: Int, arrived: Int) -> int:
    """Packets that arrive after one of their flow that was sent later (RFC 4737, 4.1)."""
    if not len(flow):
        return 0
    order = np.lexsort((arrived, flow))
    span = int(sent.max()) + 1
    level = flow[order] * span + sent[order]
    return int((np.maximum.accumulate(level) > level).sum())


def lost_packets(comparison: Comparison) -> Iterator[dict[str, Any]]:
    points, journey = comparison.points, comparison.journey
    for i in np.flatnonzero(journey.lost).tolist():
        last, before = int(journey.after[i]), int(journey.before[i])
        yield {
            "point": points[last].name, "frame": comparison.frame(i, last), "after": points[last].name,
            "before": points[before].name if before >= 0 else None, "certainty": "likely" if journey.likely[i] else "proved",
            "why": WHY[journey.why[i]],
        }  # fmt: skip


def not_captured(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Packets that passed a point but are missing in its file, as in the JSON output."""
    points, journey = comparison.points, comparison.journey
    gone = journey.due & ~journey.seen & journey.covered & ~journey.lost[:, None]
    for why, which in (("later-point", gone & journey.passed), ("answered", gone & ~journey.passed & journey.proofs.answered[:, None])):
        for i, point in np.argwhere(which).tolist():
            near = int(journey.after[i])
            yield {"point": points[near].name, "frame": comparison.frame(i, near), "missing_at": points[point].name, "why": why}
