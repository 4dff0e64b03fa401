"""Which packets came before the P_Key tables of their ports were known, and which of them do these tables refuse?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.decode import Bool, Int
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.lrh_packets import BY_P_KEY_TABLE, Native
from ibdissect.decode.rows import SLOTS, is_in, slot
from ibdissect.wire.numbers import BASE, FIRST_MULTICAST, FULL, LID_COUNT

from .events import ChunkFollowed
from .follower import FabricFollower
from .late_facts import LateFacts
from .model import Subnet
from .nodes import ROUTER, Port
from .p_keys import Verdict

MAX_FLOWS = 65536
"""Combinations of sender, receiver and P_Key remembered; the oldest is evicted first."""
SENDER, RECEIVER = 32, 16
"""Places of SLID and DLID in the number of a flow, above the P_Key."""


class Early(Record):
    """Packets of one sender, receiver and P_Key, sent before the P_Key table of an end was known."""

    frame: int
    time_ns: int
    dest_qp: int
    start: int
    """Offset of the first one's BTH in its frame."""
    counts: dict[int, int]
    """Packets before the tables of SENDER and of RECEIVER were learnt."""


class Refusal(NamedTuple):
    """Early packets that the table of an end refuses."""

    first: Early
    flow: int
    p_key: int
    slid: int
    port: Port
    shown: tuple[tuple[int, str], ...]
    """Frames, and what each showed; `{end}` stands for the end whose table it is."""
    packets: int


class EarlyPackets:
    """Packets sent before their ports' tables were read. One per capture, shared by all rules."""

    after: ClassVar = (LateFacts, FabricFollower)

    def __init__(self, later: LateFacts, follower: FabricFollower) -> None:
        self.later, self.follower = later, follower
        self.flows = BoundedDict[int, Early](MAX_FLOWS, "flows before the P_Key tables of their ports were known")
        """By SLID, DLID and P_Key in one number."""

    @cached_property
    def _holder(self) -> Int:
        """The flow in each slot plus one, 0 for none: most packets belong to one of these flows and are only counted."""
        return np.zeros(SLOTS, np.int64)

    @cached_property
    def _counts(self) -> dict[int, Int]:
        """Packets of the flow in each slot."""
        return {end: np.zeros(SLOTS, np.int64) for end in (SENDER, RECEIVER)}

    def take(self, event: ChunkFollowed) -> None:
        """Remember the packets of a chunk that cannot be judged yet. Call it by `event.once`."""
        event.once(self.later.take)
        native = event.table.once(Native)
        if not len(native.rows):
            return
        judged = BY_P_KEY_TABLE[native.opcode] & (native.dest_qp > 1) & (native.dlid < FIRST_MULTICAST)
        if "grh" in event.table.located.start:  # perhaps between virtual ports, which share a LID but not a table
            judged &= event.table.located.start["grh"][native.rows] < 0
        if not judged.any():
            return
        first = event.table.chunk.first
        early = {}
        for end, lids, some in ((SENDER, native.slid, native.slids), (RECEIVER, native.dlid, native.dlids)):
            known = _known_from(event.subnet, some)
            if known is None:
                early[end] = judged
            elif known.max() > first:
                early[end] = judged & (native.rows + first < known[lids])
        if early:
            self._remember(event, native, early)

    def _remember(self, event: ChunkFollowed, native: Native, early: dict[int, Bool]) -> None:
        ends = list(early.items())
        either = ends[0][1] if len(ends) == 1 or ends[0][1] is ends[1][1] else ends[0][1] | ends[1][1]
        flows = native.slid << SENDER | native.dlid << RECEIVER | native.p_key
        place = slot(flows)
        other = self._holder.take(place) != flows + 1
        stranger = np.flatnonzero(other & either)
        if len(stranger):
            self._learn(event, native, stranger, flows[stranger], place[stranger], early)
            other = self._holder.take(place) != flows + 1
        counted = other.any()
        counts: Int | None = None
        for end, mask in ends:
            if len(place) < SLOTS // 16:  # few flows: cheaper one by one than over all slots
                np.add.at(self._counts[end], place[mask & ~other], 1)
                continue
            if counts is None or mask is not either:
                mine = mask & ~other if counted else mask
                counts = np.bincount(place if mine.all() else place[mine], minlength=SLOTS)
            self._counts[end] += counts

    def _learn(self, event: ChunkFollowed, native: Native, index: Int, flows: Int, place: Int, early: dict[int, Bool]) -> None:
        """Learn new flows, and count the packets of flows that share their slot with another."""
        values, first, which = np.unique(flows, return_index=True, return_inverse=True)
        counts = {end: np.bincount(which.ravel()[mask[index]], minlength=len(values)).tolist() for end, mask in early.items()}
        at = index[first]
        rows, table = native.rows[at], event.table
        starts = table.located.at("bth")[rows] - table.chunk.offset[rows]
        columns = (values, place[first], table.chunk.first + rows, table.chunk.time_ns[rows], native.dest_qp[at], starts)
        for i, (value, where, *early_of) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            known = self.flows.get(value)
            if known is None:
                frame, time_ns, dest_qp, start = early_of
                known = Early(frame, time_ns, dest_qp, start, {SENDER: 0, RECEIVER: 0})
                gone = self.flows.put(value, known, frame, time_ns)
                if gone is not None:
                    self._release(gone[0])
                if not self._holder[where]:
                    self._holder[where] = value + 1  # counted with the slot
                    continue
            for end, mine in counts.items():
                known.counts[end] += mine[i]

    def _release(self, flow: int) -> None:
        """Free the slot of an evicted flow."""
        place = int(slot(np.array([flow]))[0])
        if self._holder[place] == flow + 1:
            self._holder[place] = 0
            for counts in self._counts.values():
                counts[place] = 0

    def refusals(self, verdict: Verdict, end: int) -> Iterator[Refusal]:
        """Early packets that a sender's or receiver's table refuses, if it never changed and nothing contradicts it. Call at the capture's
        end.
        """
        flows = np.fromiter(self.flows, np.int64, len(self.flows))
        about = (flows >> end & 0xFFFF) << 16 | flows & 0xFFFF  # many flows share an end and a key
        judged = ((one, _judge(self.follower.subnet, self.later, one >> 16, one & 0xFFFF)) for one in {*about.tolist()})
        refused = {one: found for one, found in judged if found is not None and found[0] is verdict}
        some = is_in(about, np.array([*refused], np.int64))
        for flow, one in zip(flows[some].tolist(), about[some].tolist(), strict=True):
            early, found = self.flows[flow], refused[one]
            slid, dlid, p_key = flow >> SENDER, flow >> RECEIVER & 0xFFFF, flow & 0xFFFF
            place = int(slot(np.array([flow]))[0])
            count = early.counts[end] + (int(self._counts[end][place]) if self._holder[place] == flow + 1 else 0)
            if not count:
                continue
            # A port that sends in that partition holds it, whatever its table shows later; as a full member, if its key says so.
            returned = dlid << SENDER | slid << RECEIVER | p_key & BASE
            if returned | FULL in self.flows or (verdict is Verdict.ABSENT and returned in self.flows):
                continue
            yield Refusal(early, flow, p_key, slid, *found[1:], count)


def _known_from(subnet: Subnet, lids: Int) -> Int | None:
    """For each LID the first frame from which its P_Key table is known; 0: the LID is not used. None: no LID is known."""
    lids = lids[(lids > 0) & (lids < FIRST_MULTICAST)]
    since = {}
    for lid in lids.tolist() if subnet.partitioned else ():
        port = subnet.by_lid(lid)
        if port is not None and port.p_keys is not None and (port.p_keys.blocks or port.p_keys.intended is not None):
            since[lid] = max(subnet.lids[lid].changes()[0], port.p_keys.first)
    if not since:
        return None if len(lids) else np.zeros(1, np.int64)
    known = np.zeros(LID_COUNT, np.int64)
    known[lids] = AFTER_ALL
    for lid, frame in since.items():
        known[lid] = frame
    return known


def _judge(subnet: Subnet, later: LateFacts, lid: int, p_key: int) -> tuple[Verdict, Port, tuple[tuple[int, str], ...]] | None:
    owned = later.owner(subnet, lid)
    if owned is None or not p_key & BASE:
        return None
    port, since = owned
    if port.node.kind == ROUTER or port.node.facts.past or port.p_keys is None or not later.p_keys(port):
        return None
    verdict, shown = port.p_keys.judge(p_key, AFTER_ALL, port.p_key_capacity(AFTER_ALL))
    return verdict, port, ((since, "the {end}'s LID"), *((number, "the {end}'s P_Key table") for number in shown))
