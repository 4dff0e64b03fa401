"""Sets and TrapRepresses sent before the M_Key of their port was known, and those that the port refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.decode.identity import Frame
from ibdissect.wire.numbers import SET, TRAP_REPRESS

from .events import DIRECTED_SENDER, ChunkFollowed, WrongMKey
from .follower import FabricFollower
from .late_facts import NEVER, LateFacts
from .m_keys import refuses
from .nodes import SWITCH

MAX_WRITES = 4096
"""Requests remembered; the oldest is evicted first."""


class Write(Record):
    """A Set or TrapRepress to a port that showed no PortInfo yet."""

    frame: int
    time_ns: int
    slot: int
    number: int
    """Number of the port whose M_Key guards the node."""
    method: int
    attribute: int
    presented: int
    transaction: int
    sender: int
    local: bool
    mad: int


class EarlyWrites:
    """Requests to ports before these showed their M_Key. One per capture, shared by all rules."""

    after: ClassVar = (LateFacts, FabricFollower)
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, later: LateFacts, follower: FabricFollower) -> None:
        self.later, self.follower = later, follower
        self.writes = BoundedDict[Frame, Write](MAX_WRITES, "requests before the M_Key of their port was known")
        self.taken: set[tuple[int, int]] = set()
        """Slot and port number of ports that accepted such a request, so they had that key or none."""

    def take(self, event: ChunkFollowed) -> None:
        """Remember the requests of a chunk that cannot be judged yet."""
        asks = event.requests
        index = np.flatnonzero(((asks.method == SET) | (asks.method == TRAP_REPRESS)) & (asks.slot >= 0))
        if len(index):
            kinds = asks.kind[index]
            number = np.where(kinds == SWITCH, 0, asks.entered[index])
            frames = asks.rows[index] + event.table.chunk.first
            early = self.later.infos.precede(asks.slot[index] << 8 | number, frames)
            for i, port in zip(index[early].tolist(), number[early].tolist(), strict=True):
                write = _write(event, i, port)
                self.writes.put(Frame(write.frame), write, write.frame, write.time_ns)
        if self.writes:
            self._answered(event)

    def _answered(self, event: ChunkFollowed) -> None:
        answers = event.answers
        waiting = np.array([write.transaction for write in self.writes.values()], np.uint64)
        index = np.flatnonzero(np.isin(answers.transaction, waiting))
        rows = answers.rows[index] + event.table.chunk.first
        known = np.where(answers.kind[index] > 0, answers.slot[index], -1)
        columns = (answers.transaction[index], known, rows)
        latest = {(transaction, slot): frame for transaction, slot, frame in zip(*(one.tolist() for one in columns), strict=True)}
        """Frames of the last answers by transaction id and node, -1: of a node without NodeInfo."""
        for write in self.writes.values():
            if any(latest.get((write.transaction, slot), 0) > write.frame for slot in (write.slot, -1)):
                self.taken.add((write.slot, write.number))

    def refusals(self) -> Iterator[WrongMKey]:
        """Requests whose key differs from the one that their port held throughout the capture. Call at its end."""
        subnet, later = self.follower.subnet, self.later
        for write in self.writes.values():
            node = subnet.slots.get(write.slot)
            port = node.ports.get(write.number) if node is not None else None
            if port is None or (write.slot, write.number) in self.taken:
                continue
            shown = later.m_key(port)
            held = port.m_key
            if shown == NEVER or held is None or not refuses(held, write.method, write.presented):
                continue
            yield WrongMKey(
                write.frame, write.time_ns, port, held, shown, write.method, write.presented, write.sender, write.local, write.mad,
                write.attribute,
            )  # fmt: skip


def _write(event: ChunkFollowed, i: int, number: int) -> Write:
    asks, smps, at = event.requests, event.smps.smps, int(event.requests.index[i])
    row, transaction = int(asks.rows[i]), smps.transaction(at)
    sender, local = smps.slid[at], smps.slid[at] == smps.dlid[at]
    if smps.directed[at]:
        sender, local = DIRECTED_SENDER + smps.sender(at), not smps.path(at)
    return Write(
        event.table.chunk.first + row, int(event.table.chunk.time_ns[row]), int(asks.slot[i]), number, int(asks.method[i]),
        int(asks.attribute[i]), smps.m_key(at), transaction, sender, local, int(asks.mad[i]),
    )  # fmt: skip
