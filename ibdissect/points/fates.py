"""The fate, between capture points, of the packets that the verdict on a connection rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.identity import FlowNumber, Frame, Index, QpNumber
from ibdissect.diagnosis.connection import Connection, LostPackets
from ibdissect.wire.headers import PSNS
from ibdissect.wire.opcodes import RELIABLE, SERVICE

from .comparison import Comparison, TransmissionBlock
from .same_connections import Same, plain

SILENT = frozenset({"retries-exhausted", "path-mtu", "wrong-partition", "connect-unanswered"})
"""Causes of requests that nobody answered: whether they arrived, and whether answers were sent, only other points show."""
CM_QPN = 1


class Tries(Record):
    """The sendings of one request that nobody answered, as the point shows them that tells of it, and what later points show."""

    point: int
    told: Connection
    flow: FlowNumber
    psn: int
    transaction: int
    """0: it is no MAD."""
    first_ns: int
    sent: int = 0
    arrived: Counter[Index] = field(default_factory=Counter)
    """How many of them each later point has."""
    missing: Counter[Index] = field(default_factory=Counter)
    """How many of them each later point lacks that was certainly capturing."""
    lost: Counter[tuple[Index, Index]] = field(default_factory=Counter)
    """How many were certainly lost after one point and before another one; -1: its receiver."""
    likely: bool = False
    """One of the losses is likely, not certain."""
    replies: dict[Index, list[int]] = field(default_factory=dict)
    """Frames of acknowledgements that another point has and this one lacks; of REQs none."""


class Fate(Record):
    """What became of the packets of a connection."""

    places: list[int]
    """Of each point on the way of the requests, from the requester on."""
    lost: list[LostPackets] = field(default_factory=list)
    unknown: int = 0
    """Requests that a later point lacks without being known to be lost."""
    passed: list[int] = field(default_factory=list)
    """Points that have requests, in the order of their way."""
    tries: dict[Index, Tries] = field(default_factory=dict)
    """By the point that shows them."""


class Ways:
    """The flows of a comparison by who sends to whom, as connections name them."""

    def __init__(self, comparison: Comparison) -> None:
        self._source, self._sign = comparison.directions.source, comparison.directions.sign
        self._numbers: dict[tuple[str, str, QpNumber], list[FlowNumber]] = {}
        for number, flow in enumerate(comparison.flows.known):
            source, destination = map(plain, flow.text)
            self._numbers.setdefault((source, destination, flow.dest_qp), []).append(FlowNumber(number))

    def of(self, one: Connection, side: int, qpn: int | None = None) -> list[FlowNumber]:
        """What one end sends to the queue pair of the other one, or to another queue pair there."""
        to = one.ends[1 - side]
        number = to.qpn if qpn is None else qpn
        return self._numbers.get((plain(one.ends[side].address), plain(to.address), number), []) if number is not None else []

    def places(self, one: Connection) -> list[int]:
        """How many points the requests of a connection pass before each point."""
        asks = one.requester
        for side, sign in ((asks, 1), (1 - asks, -1)):
            if flows := self.of(one, side) or self.of(one, side, CM_QPN):
                return [int((sign * self._sign[:, i, self._source[flows[0]]] > 0).sum()) for i in range(len(self._sign))]
        return [0] * len(self._sign)


def fates(comparison: Comparison, same: list[Same]) -> list[Fate]:
    """Of each connection, in their order. Reads what was matched twice."""
    ways, found = Ways(comparison), []
    for one in same:
        found.append(Fate(ways.places(next(iter(one.at.values())))))
    _lost(comparison, same, found, ways)
    _tries(comparison, found, ways)
    return found


def _lost(comparison: Comparison, same: list[Same], found: list[Fate], ways: Ways) -> None:
    """Which packets of each were lost where; and the requests that nobody answered, by the frame that proves it."""
    flows, points = len(comparison.flows.known), len(comparison.points)
    of_flow: dict[FlowNumber, list[tuple[int, int]]] = {}
    proofs: list[dict[Frame, list[int]]] = [{} for _ in range(points)]
    for number, one in enumerate(same):
        some = next(iter(one.at.values()))
        for side in (0, 1):
            for flow in ways.of(some, side):
                of_flow.setdefault(flow, []).append((number, 1 - side))
        for point, told in one.at.items():
            if told.cause in SILENT and told.evidence[0] is not None:
                proofs[point].setdefault(told.evidence[0], []).append(number)
    unknown, passed = np.zeros(flows, np.int64), np.zeros((flows, points), np.bool_)
    lost: dict[tuple[Index, Index, Index, Index], list[int]] = {}
    for block in comparison.blocks():
        packets, journey, seen = block.packets, block.journey, block.seen
        for point, some_proofs in enumerate(proofs):
            for row in np.flatnonzero(np.isin(packets.frame[:, point], [*some_proofs])).tolist() if some_proofs else ():
                for number in some_proofs[int(packets.frame[row, point])]:
                    found[number].tries.setdefault(point, _try(block, row, point, same[number].at[point]))
        for row in np.flatnonzero(journey.lost).tolist():
            after, _, before = block.lost_between(row)
            frame = int(packets.frame[row, after])
            for number, to in of_flow.get(FlowNumber(int(packets.flow[row])), ()):
                there = same[number].at.get(after)
                if there is not None and there.first_frame <= frame <= there.last_frame:
                    lost.setdefault((number, to, after, before), []).append(frame)
        place = np.take_along_axis(journey.place, journey.after[:, None], axis=1)
        open_ = (journey.due & ~seen & (journey.place > place)).any(axis=1) & ~journey.answered & ~journey.lost
        unknown += np.bincount(packets.flow[open_], minlength=flows)
        for point in range(points):
            passed[packets.flow[seen[:, point]], point] = True
    for (number, to, after, before), frames in sorted(lost.items()):
        found[number].lost.append(LostPackets(to, after, before if before >= 0 else None, len(frames), min(frames)))
    for one, fate in zip(same, found, strict=True):
        some = next(iter(one.at.values()))
        mine = ways.of(some, some.requester)
        fate.unknown = int(unknown[mine].sum())
        fate.passed = sorted(np.flatnonzero(passed[mine].any(axis=0)).tolist(), key=lambda i: fate.places[i])


def _try(block: TransmissionBlock, row: int, point: int, told: Connection) -> Tries:
    packets = block.packets
    mad = packets.opcode[row] & SERVICE not in RELIABLE
    transaction = int(packets.transaction[row]) if mad else 0
    return Tries(point, told, FlowNumber(int(packets.flow[row])), int(packets.psn[row]), transaction, int(packets.time[row]))


def _tries(comparison: Comparison, found: list[Fate], ways: Ways) -> None:
    """What became of the sendings of requests that nobody answered, and which answers another point shows."""
    asked: dict[FlowNumber, list[Tries]] = {}
    replied: dict[FlowNumber, list[Tries]] = {}
    for fate in found:
        for tries in fate.tries.values():
            asked.setdefault(tries.flow, []).append(tries)
            for flow in ways.of(tries.told, 1 - tries.told.requester) if not tries.transaction else ():
                replied.setdefault(flow, []).append(tries)
    if not asked:
        return
    both = np.array(sorted({*asked, *replied}))
    for block in comparison.blocks():
        for row in np.flatnonzero(np.isin(block.packets.flow, both)).tolist():
            flow = FlowNumber(int(block.packets.flow[row]))
            for tries in asked.get(flow, ()):
                if _is_try(block, row, tries):
                    _sent(block, row, tries)
            for tries in replied.get(flow, ()):
                if _is_reply(block, row, tries):
                    for point, frame in _seen(block, row):
                        tries.replies.setdefault(point, []).append(frame)


def _is_try(block: TransmissionBlock, row: int, tries: Tries) -> bool:
    """Whether it is the request, and the point that tells of it has it."""
    packets, frame = block.packets, int(block.packets.frame[row, tries.point])
    if not tries.told.first_frame <= frame <= tries.told.last_frame:
        return False
    return bool(packets.transaction[row] == tries.transaction if tries.transaction else packets.psn[row] == tries.psn)


def _sent(block: TransmissionBlock, row: int, tries: Tries) -> None:
    journey = block.journey
    tries.sent += 1
    for point in np.flatnonzero(journey.place[row] > journey.place[row, tries.point]).tolist():
        tries.arrived[point] += bool(block.seen[row, point])
        tries.missing[point] += bool(journey.covered[row, point] and not block.seen[row, point])
    if journey.lost[row]:
        after, _, before = block.lost_between(row)
        tries.lost[after, before] += 1
        tries.likely |= bool(journey.likely[row])


def _is_reply(block: TransmissionBlock, row: int, tries: Tries) -> bool:
    """Whether it answers the request, later than that was sent, and the point that tells of it neither has it nor just missed it: it was
    capturing."""
    packets, journey, here = block.packets, block.journey, (row, tries.point)
    if block.seen[here] or packets.time[row] < tries.first_ns or journey.passed[here] or not journey.covered[here]:
        return False
    return bool((packets.psn[row] - tries.psn) % PSNS < PSNS // 2 and packets.syndrome[row] >= 0)


def _seen(block: TransmissionBlock, row: int) -> Iterator[tuple[int, int]]:
    """The points that have a packet, and its frame there."""
    for point, frame in enumerate(block.packets.frame[row].tolist()):
        if frame:
            yield point, frame
