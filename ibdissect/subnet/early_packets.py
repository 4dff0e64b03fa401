"""Packets sent before the P_Key tables of their ports were known, and those that these tables refuse."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped
from ibdissect.decode import Int
from ibdissect.decode.equal_rows import is_in
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.native_packets import BY_P_KEY_TABLE, Native
from ibdissect.engine.flow_counts import RECEIVER as RECEIVER
from ibdissect.engine.flow_counts import SENDER as SENDER
from ibdissect.engine.flow_counts import VALUES, FlowCounts
from ibdissect.wire.numbers import BASE, FIRST_MULTICAST, FULL, LID_COUNT

from .events import ChunkFollowed
from .follower import FabricFollower
from .late_facts import LateFacts
from .model import Subnet
from .nodes import ROUTER, Port
from .p_keys import Verdict

MAX_FLOWS = 65536
"""Combinations of sender, receiver and P_Key remembered; the oldest is evicted first."""
ENDS = (SENDER, RECEIVER)
_UNKNOWN, _KNOWN = np.full(LID_COUNT, AFTER_ALL), np.zeros(LID_COUNT, np.int64)
"""From which frame on the P_Key table of each LID is known: none, or all."""


class Early(Record):
    """Packets of one sender, receiver and P_Key, sent before the P_Key table of an end was known."""

    frame: int
    time_ns: int
    dest_qp: int
    start: int
    """Offset of the first one's BTH in its frame."""


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
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, later: LateFacts, follower: FabricFollower) -> None:
        self.later, self.follower = later, follower
        self.dropped = Dropped("flows before the P_Key tables of their ports were known")

    @cached_property
    def flows(self) -> FlowCounts:
        """What the engine keeps of each."""
        return FlowCounts(MAX_FLOWS)

    def take(self, event: ChunkFollowed) -> None:
        """Remember the packets of a chunk that cannot be judged yet."""
        native, chunk, located = event.table.once(Native), event.table.chunk, event.table.located
        if not len(native.rows):
            return
        senders, receivers = (_known_from(event.subnet, some) for some in (native.slids, native.dlids))
        if max(senders.max(), receivers.max()) <= chunk.first:
            return
        judged = BY_P_KEY_TABLE[native.opcode] & (native.dest_qp > 1) & (native.dlid < FIRST_MULTICAST)
        if "grh" in located.start:  # perhaps between virtual ports, which share a LID but not a table
            judged &= located.start["grh"][native.rows] < 0
        columns = {name: getattr(native, name)[judged] for name in ("rows", "slid", "dlid", "p_key", "dest_qp")}
        columns |= {"bth": located.start["bth"], "offset": chunk.offset, "times": chunk.time_ns, "senders": senders, "receivers": receivers}
        before = max(0, self.flows.begun - MAX_FLOWS)
        gone = self.flows.feed(chunk.first, {name: np.ascontiguousarray(column) for name, column in columns.items()})
        if gone >= 0:
            self.dropped.add(chunk.first + gone, int(chunk.time_ns[gone]), max(0, self.flows.begun - MAX_FLOWS) - before)

    def refusals(self, verdict: Verdict, end: int) -> Iterator[Refusal]:
        """Early packets that a sender's or receiver's table refuses, if it never changed and nothing contradicts it. Call at the capture's
        end.
        """
        kept = np.frombuffer(self.flows.block, np.int64).reshape(-1, VALUES)
        kept = kept[np.arange(max(0, self.flows.begun - MAX_FLOWS), self.flows.begun) % len(kept)]
        flows, of_end = kept[:, 0], kept[:, 5 + ENDS.index(end)] > 0
        about = (flows >> end & 0xFFFF) << 16 | flows & 0xFFFF  # many flows share an end and a key
        judged = ((one, _judge(self.follower.subnet, self.later, one >> 16, one & 0xFFFF)) for one in {*about[of_end].tolist()})
        refused = {one: found for one, found in judged if found is not None and found[0] is verdict}
        some = of_end & is_in(about, np.array([*refused], np.int64))
        every = {*flows.tolist()} if some.any() else ()
        for (flow, frame, time_ns, start, dest_qp, *counts), one in zip(kept[some].tolist(), about[some].tolist(), strict=True):
            slid, dlid, p_key = flow >> SENDER, flow >> RECEIVER & 0xFFFF, flow & 0xFFFF
            # A port that sends in that partition holds it, whatever its table shows later; as a full member, if its key says so.
            returned = dlid << SENDER | slid << RECEIVER | p_key & BASE
            if returned | FULL in every or (verdict is Verdict.ABSENT and returned in every):
                continue
            yield Refusal(Early(frame, time_ns, dest_qp, start), flow, p_key, slid, *refused[one][1:], counts[ENDS.index(end)])


def _known_from(subnet: Subnet, lids: Int) -> Int:
    """For each LID the first frame from which its P_Key table is known; 0: the LID is not used."""
    lids = lids[(lids > 0) & (lids < FIRST_MULTICAST)]
    since = {}
    for lid in lids.tolist() if subnet.partitioned else ():
        port = subnet.by_lid(lid)
        if port is not None and port.p_keys is not None and (port.p_keys.blocks or port.p_keys.intended is not None):
            since[lid] = max(subnet.lids[lid].changes()[0], port.p_keys.first)
    if not since:
        return _UNKNOWN if len(lids) else _KNOWN
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
