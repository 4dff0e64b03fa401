"""What do rules about several points learn about the packets of each?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.flow.congestion import ANSWERED, CE, PATIENCE_NS
from ibdissect.lint.finding import Related
from ibdissect.lint.sightings import Sighting, Sightings
from ibdissect.table.rows import by_value
from ibdissect.wire.encapsulation import IPv4
from ibdissect.wire.link import LRH
from ibdissect.wire.opcodes import CNP_OPCODE
from ibdissect.wire.spec import Field
from ibdissect.wire.text import counted
from ibdissect.wire.transport import BTH

from .columns import FIELDS, HOP, UNCHANGED

if TYPE_CHECKING:
    from .comparison import Comparison

PROOFS = {
    "absent": "a later point, whose capture is complete, does not have it", "absent-twice": "two later points do not have it",
    "nak": "the receiver asks for it",
}  # fmt: skip
NAMES: dict[str, tuple[str, Field[Any] | None]] = {
    "sl": ("the service level", LRH.sl), "address": ("an address", None), "p_key": ("the P_Key", BTH.p_key),
    "payload": ("the payload", None),
}  # fmt: skip


def sightings(comparison: Comparison, lost: list[dict[str, Any]]) -> list[Sightings]:
    """For each point what its packets prove, in frame order. `lost`: as in the JSON output."""
    found = [Sightings() for _ in comparison.points]
    _lost(comparison, lost, found)
    _changed(comparison, found)
    _doubled(comparison, found)
    _unanswered(comparison, found)
    for one in found:
        for entries in one.by_rule.values():
            entries.sort(key=lambda entry: entry.frame)
    return found


def _lost(comparison: Comparison, lost: list[dict[str, Any]], found: list[Sightings]) -> None:
    index = {point.name: i for i, point in enumerate(comparison.points)}
    for one in lost:
        i = index[one["point"]]
        point = comparison.points[i]
        cnp = point.opcode[np.searchsorted(point.frame, one["frame"])] == CNP_OPCODE
        sure = one["certainty"] == "proved"
        proof = ("" if sure else "most likely, as ") + PROOFS[one["why"]]
        entry = Sighting(one["frame"], {"after": one["after"], "before": one["before"] or "its receiver", "proof": proof}, sure=sure)
        found[i].by_rule.setdefault("PTS005" if cnp else "PTS001", []).append(entry)


def _changed(comparison: Comparison, found: list[Sightings]) -> None:
    """Fields that differ from the previous point although the network must not change them."""
    points, rows, journey = comparison.points, comparison.matched.rows, comparison.journey
    for j, point in enumerate(points):
        before = np.where(journey.seen & (journey.place < journey.place[:, [j]]), journey.place, -1)
        both = journey.seen[:, j] & (before.max(axis=1) >= 0) & ~comparison.matched.ambiguous
        nearest = before.argmax(axis=1)
        for i, other in enumerate(points):
            some = np.flatnonzero(both & (nearest == i))
            left, right = other.fields[rows[some, i]], point.fields[rows[some, j]]
            differs = (left != right) & (left >= 0) & (right >= 0) & (right[:, [HOP]] < 0)
            for k, number in np.argwhere(differs[:, UNCHANGED:]).tolist():
                name = FIELDS[UNCHANGED + number]
                what, at = NAMES[name]
                frame, there = int(point.frame[rows[some[k], j]]), int(other.frame[rows[some[k], i]])
                elsewhere = (Related(0, "the packet before", other.path, there),)
                arguments = {"what": what, "before": other.name, "point": point.name}
                for code in ("PTS003", "PTS004") if name == "payload" else ("PTS003",):
                    entry = Sighting(frame, arguments, elsewhere, at, sure=code == "PTS004" or name != "payload")
                    found[j].by_rule.setdefault(code, []).append(entry)


def _doubled(comparison: Comparison, found: list[Sightings]) -> None:
    """Packets that pass a point once and later points twice."""
    points = comparison.points
    for once, twice in comparison.matched.doubled:
        before = [i for i in once if comparison.journey.complete[i]]
        for j, row in twice if before else ():
            here, other = points[j], points[before[-1]]
            arguments = {"before": other.name, "point": here.name}
            elsewhere = (Related(0, "the packet before", other.path, int(other.frame[once[before[-1]]])),)
            entry = Sighting(int(here.frame[row]), arguments, elsewhere, sure=len(twice) > 1)
            found[j].by_rule.setdefault("PTS002", []).append(entry)


def _unanswered(comparison: Comparison, found: list[Sightings]) -> None:
    """Flows that the network marked before their last point, which misses nothing, and whose receiver sent no notification at all."""
    points, rows, journey, packets = comparison.points, comparison.matched.rows, comparison.journey, comparison.what.packets
    ends, ecn = comparison.flows.ends(), FIELDS.index("ecn")
    notified = {ends[flow] for flow in set(packets.flow[packets.opcode == CNP_OPCODE].tolist())}
    for j, point in enumerate(points):
        if not journey.complete[j]:
            continue
        further = (journey.due & (journey.place > journey.place[:, [j]])).any(axis=1)
        last = np.flatnonzero(journey.seen[:, j] & ~further & ANSWERED[packets.opcode])
        own, times = rows[last, j], comparison.clocks.times[j]
        marked = (point.fields[own, ecn] == CE) & (times[own] <= times.max() - PATIENCE_NS)
        last, own = last[marked], own[marked]
        before = np.full(len(last), -1)
        for i, other in enumerate(points):
            value = other.fields[rows[last, i], ecn]
            before[journey.seen[last, i] & (journey.place[last, i] < journey.place[last, j]) & (value >= 0) & (value != CE)] = i
        last, own, before = last[before >= 0], own[before >= 0], before[before >= 0]
        seen = {ends[flow] for flow in set(packets.flow[journey.seen[:, j]].tolist())}
        for flow, index in by_value(packets.flow[last]):
            way = ends[flow][::-1]
            if way in seen and way not in notified:
                first, other = int(index[0]), points[before[index[0]]]
                arguments = {"packets": counted(len(index), "packet"), "before": other.name, "point": point.name}
                there = (Related(0, "the packet without the mark", other.path, comparison.frame(int(last[first]), int(before[first]))),)
                entry = Sighting(int(point.frame[own[first]]), arguments, there, IPv4.ecn)
                found[j].by_rule.setdefault("PTS006", []).append(entry)
