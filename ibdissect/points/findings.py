"""Packets of each point that were lost, duplicated or changed on their way. For the rules of the family PTS."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.identity import FlowNumber
from ibdissect.decode.mirror_copies import CE
from ibdissect.lint.finding import Related
from ibdissect.lint.point_faults import PointFault, PointFaults
from ibdissect.transport.congestion import ANSWERED, PATIENCE_NS
from ibdissect.wire.encapsulation import IPv4
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.numbers import MULTICAST_QP
from ibdissect.wire.opcodes import CNP_OPCODE, OPCODES, RELIABLE, SERVICE
from ibdissect.wire.spec import Field
from ibdissect.wire.text import counted

from .comparison import Comparison, TransmissionBlock
from .flows import PointFlow
from .matching import Duplicate
from .packet_identity import FIELDS, HOP, UNCHANGED
from .verdicts import WHY

PROOFS = {
    "absent": "a later point, whose capture is complete, does not have it", "absent-twice": "two later points do not have it",
    "nak": "the receiver asks for it",
}  # fmt: skip
NAMES: dict[str, tuple[str, Field[Any] | None]] = {
    "sl": ("the service level", LRH.sl), "address": ("an address", None), "p_key": ("the P_Key", BTH.p_key),
    "payload": ("the payload", None),
}  # fmt: skip


def point_faults(comparison: Comparison) -> list[PointFaults]:
    """For each point what its packets prove, in frame order."""
    found = [PointFaults() for _ in comparison.points]
    marks = _Marks(comparison)
    for block in comparison.blocks():
        _lost(comparison, block, found)
        _changed(comparison, block, found)
        marks.feed(block)
    _doubled(comparison, found)
    marks.report(found)
    for one in found:
        for entries in one.by_rule.values():
            entries.sort(key=lambda entry: entry.frame)
    return found


def _lost(comparison: Comparison, block: TransmissionBlock, found: list[PointFaults]) -> None:
    points, journey = comparison.points, block.journey
    for i in np.flatnonzero(journey.lost).tolist():
        (after, likely_before, surely_before), sure = block.lost_between(i), not journey.likely[i]
        proof = ("" if sure else "most likely, as ") + PROOFS[WHY[journey.why[i]]]
        if hop := block.hop(i, after):
            proof += f" (last seen on link {hop} of {comparison.flows.known[block.packets.flow[i]].hops} of its directed route)"
        if likely_before != surely_before:
            proof += f" (most likely before {points[likely_before].name}, which misses packets itself)"
        before = points[surely_before].name if surely_before >= 0 else "its receiver"
        arguments = {"after": points[after].name, "before": before, "proof": proof}
        code = "PTS005" if block.packets.opcode[i] == CNP_OPCODE else "PTS001"
        found[after].by_rule.setdefault(code, []).append(PointFault(int(block.packets.frame[i, after]), arguments, sure=sure))


def _changed(comparison: Comparison, block: TransmissionBlock, found: list[PointFaults]) -> None:
    """Fields that differ from the previous point although the network must not change them."""
    points, journey, seen, packets = comparison.points, block.journey, block.seen, block.packets
    for j, point in enumerate(points):
        before = np.where(seen & (journey.place < journey.place[:, [j]]), journey.place, -1)
        both = np.flatnonzero(seen[:, j] & (before.max(axis=1) >= 0) & ~journey.ambiguous)
        nearest = before[both].argmax(axis=1)
        left, right = packets.fields[both, nearest], packets.fields[both, j]
        differs = (left != right) & (left >= 0) & (right >= 0) & (right[:, [HOP]] < 0)
        for k, number in np.argwhere(differs[:, UNCHANGED:]).tolist():
            name = FIELDS[UNCHANGED + number]
            what, at = NAMES[name]
            i, other = int(both[k]), int(nearest[k])
            elsewhere = (Related(0, "the packet before", points[other].path, int(packets.frame[i, other])),)
            arguments = {"what": what, "before": points[other].name, "point": point.name}
            for code in ("PTS003", "PTS004") if name == "payload" else ("PTS003",):
                entry = PointFault(int(packets.frame[i, j]), arguments, elsewhere, at, sure=code == "PTS004" or name != "payload")
                found[j].by_rule.setdefault(code, []).append(entry)


def _doubled(comparison: Comparison, found: list[PointFaults]) -> None:
    """Packets that pass a point once and later points twice."""
    points = comparison.points
    for one in comparison.matcher.doubled:
        before = [i for i in one.once if comparison.verdicts.complete[i]]
        own = _of_network(one, comparison.flows.known[one.flow])
        for j, frame in one.twice if before else ():
            other = points[before[-1]]
            arguments = {"before": other.name, "point": points[j].name}
            elsewhere = (Related(0, "the packet before", other.path, one.once[before[-1]]),)
            found[j].by_rule.setdefault("PTS002", []).append(PointFault(frame, arguments, elsewhere, sure=len(one.twice) > 1 and own))


def _of_network(one: Duplicate, flow: PointFlow) -> bool:
    """Whether the network doubled a packet, and not its sender, who repeats requests, answers and CNPs, or a switch for a group."""
    if flow.dest_qp == MULTICAST_QP or one.opcode not in OPCODES:
        return False
    sent_once = OPCODES[one.opcode].service in ("UC", "UD")
    return sent_once or (one.soon and one.opcode & SERVICE in RELIABLE and OPCODES[one.opcode].request)


class _Marks:
    """Flows that the network marked before their last point, which misses nothing, and whose receiver sent no notification at all."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison, self._ends = comparison, comparison.flows.ends()
        self._notified: set[FlowNumber] = set()
        self._seen: list[set[FlowNumber]] = [set() for _ in comparison.points]
        self._marked: list[dict[FlowNumber, list[int]]] = [{} for _ in comparison.points]  # packets, first frame, point and frame before

    def feed(self, block: TransmissionBlock) -> None:
        packets, journey, seen = block.packets, block.journey, block.seen
        self._notified.update(np.unique(packets.flow[packets.opcode == CNP_OPCODE]).tolist())
        marks = packets.fields[:, :, FIELDS.index("ecn")]
        for j in np.flatnonzero(self._comparison.verdicts.complete).tolist():
            self._seen[j].update(np.unique(packets.flow[seen[:, j]]).tolist())
            further = (journey.due & (journey.place > journey.place[:, [j]])).any(axis=1)
            late = packets.at[:, j] > self._comparison.coverage.stops[j] - PATIENCE_NS
            last = np.flatnonzero((marks[:, j] == CE) & ~late & ~further & ANSWERED[packets.opcode])
            before = np.full(len(last), -1)
            for i in range(seen.shape[1]):
                value = marks[last, i]
                before[(journey.place[last, i] < journey.place[last, j]) & (value >= 0) & (value != CE)] = i
            last, before = last[before >= 0], before[before >= 0]
            for flow, index in by_value(packets.flow[last]):
                row, other = int(last[index[0]]), int(before[index[0]])
                first = [0, int(packets.frame[row, j]), other, int(packets.frame[row, other])]
                self._marked[j].setdefault(FlowNumber(flow), first)[0] += len(index)

    def report(self, found: list[PointFaults]) -> None:
        points, ends = self._comparison.points, self._ends
        notified = {tuple(ends[flow].tolist()) for flow in self._notified}
        for j, marked in enumerate(self._marked):
            seen = {tuple(ends[flow].tolist()) for flow in self._seen[j]}
            for flow, (count, frame, before, there) in marked.items():
                back = tuple(ends[flow][::-1].tolist())
                if back in seen and back not in notified:
                    arguments = {"packets": counted(count, "packet"), "before": points[before].name, "point": points[j].name}
                    elsewhere = (Related(0, "the packet without the mark", points[before].path, there),)
                    found[j].by_rule.setdefault("PTS006", []).append(PointFault(frame, arguments, elsewhere, IPv4.ecn))
