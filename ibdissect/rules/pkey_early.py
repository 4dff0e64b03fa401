"""Packets sent before their ports' P_Key tables were known: remembered, and judged at the end of the capture (PKY)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ibdissect.fabric import Follower
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.later import Later
from ibdissect.fabric.model import FIRST_MULTICAST, ROUTER, Port, Subnet
from ibdissect.fabric.partitions import BASE, FULL, Verdict
from ibdissect.fabric.told import PKeyTables, PortInfos
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import Hit
from ibdissect.table.locate import Int
from ibdissect.wire.transport import BTH

from .pkey_columns import FIRST_OTHER_OPCODE, SLOTS, Native, slot

MAX_FLOWS = 65536
"""Combinations of sender, receiver and P_Key remembered; later ones are not judged."""
NOT_YET = 1 << 62
LIDS = 1 << 16
SENDER, RECEIVER = 32, 16
"""Places of SLID and DLID in the number of a flow, above the P_Key."""


@dataclass(slots=True)
class Early:
    """Packets of one sender, receiver and P_Key in front of what tells about them."""

    frame: int
    time_ns: int
    dest_qp: int
    span: Span
    count: int


class EarlyPackets:
    """What was sent before anybody asked the ports at one end for their tables; one per capture for all rules that ask."""

    shift: ClassVar[int] = 0
    """Where the LID of the port that judges stands in the number of a flow."""

    @property
    def opposite(self) -> type[EarlyPackets]:
        """Where the packets of the other direction are, as long as nothing is known of that port."""
        raise NotImplementedError

    def __init__(self) -> None:
        self.flows: dict[int, Early] = {}
        """By SLID, DLID and P_Key in one number."""
        self._holder: Int = np.full(SLOTS, -1, np.int64)
        """The flow in each slot: most packets are of one of them and are only counted."""
        self._count: Int = np.zeros(SLOTS, np.int64)
        self._of: object = None

    def take(self, event: ChunkFollowed, context: Context) -> None:
        """Remember the packets of a chunk that cannot be judged yet."""
        later: Later = context.get(Later)
        if not later.enabled or self._of is event:
            return
        self._of = event
        later.take(context.get(PortInfos).of(event), context.get(PKeyTables).of(event))
        native: Native = context.get(Native).of(event.table)
        if not len(native.rows):
            return
        lids = native.slid if self.shift == SENDER else native.dlid
        known = _known_from(event.subnet, lids)
        first = event.table.chunk.first
        if known.max() <= first:
            return
        frames = native.rows + first
        early = (frames < known[lids]) & (native.opcode < FIRST_OTHER_OPCODE) & (native.dest_qp > 1) & (native.dlid < FIRST_MULTICAST)
        index = np.flatnonzero(early)
        if len(index):
            self._remember(event, native, index)

    def _remember(self, event: ChunkFollowed, native: Native, index: Int) -> None:
        flows = native.slid[index] << 32 | native.dlid[index] << 16 | native.p_key[index]
        place = slot(flows)
        stranger = np.flatnonzero(self._holder[place] != flows)
        values, first, counts = np.unique(flows[stranger], return_index=True, return_counts=True)
        for value, at, count in zip(values.tolist(), first.tolist(), counts.tolist(), strict=True):
            known = self.flows.get(value)
            if known is not None:
                known.count += count
                continue
            if len(self.flows) >= MAX_FLOWS:
                break
            i = int(index[stranger[at]])
            self.flows[value] = _early(event, native, i, count)
            where = int(place[stranger[at]])
            if self._holder[where] == -1:
                self._holder[where] = value
        self._count += np.bincount(np.delete(place, stranger) if len(stranger) else place, minlength=SLOTS)

    def judged(self, context: Context, verdict: Verdict) -> Iterator[Hit]:
        """What those tables refuse, as far as they never changed and nothing contradicts; at the end of the capture."""
        subnet, later, back = context.get(Follower).subnet, context.get(Later), context.get(self.opposite)
        for flow, early in self.flows.items():
            slid, dlid, p_key = flow >> SENDER, flow >> RECEIVER & 0xFFFF, flow & 0xFFFF
            found = _judge(subnet, later, slid if self.shift == SENDER else dlid, p_key, early.frame)
            if found is None or found[0] is not verdict:
                continue
            # Who sends back in that partition holds it, whatever its table says later; as a full member, if its key says so.
            returned = dlid << SENDER | slid << RECEIVER | p_key & BASE
            if returned | FULL in back.flows or (verdict is Verdict.ABSENT and returned in back.flows):
                continue
            port, taught = found[1:]
            place = int(slot(np.array([flow]))[0])
            yield Hit(
                frame=early.frame,
                time_ns=early.time_ns,
                arguments={"p_key": p_key, "slid": slid, "qp": early.dest_qp, "port": str(port)},
                spans=(early.span,),
                field=BTH.p_key,
                value=p_key,
                related=tuple(Related(frame, "told later, and never otherwise in this capture") for frame in taught),
                evidence=Evidence.INFERRED,
                count=early.count + (int(self._count[place]) if self._holder[place] == flow else 0),
                key=("earlier", port.node.slot, port.number, flow),
            )


class EarlyReceived(EarlyPackets):
    """Against the tables of those they go to."""

    shift = RECEIVER

    @property
    def opposite(self) -> type[EarlyPackets]:
        return EarlySent


class EarlySent(EarlyPackets):
    """Against the tables of those they come from."""

    shift = SENDER

    @property
    def opposite(self) -> type[EarlyPackets]:
        return EarlyReceived


def _early(event: ChunkFollowed, native: Native, i: int, count: int) -> Early:
    table, row = event.table, int(native.rows[i])
    low, high = BTH.p_key.span
    frame, start = table.chunk.first + row, int(table.located.at("bth")[row] - table.chunk.offset[row])
    return Early(frame, int(table.chunk.time_ns[row]), int(native.dest_qp[i]), Span(frame, start + low, high - low), count)


def _known_from(subnet: Subnet, lids: Int) -> Int:
    """By LID, the frame from which on the P_Key rules can judge its packets; 0 for LIDs that do not occur."""
    known = np.zeros(LIDS, np.int64)
    for lid in np.flatnonzero(np.bincount(lids, minlength=LIDS)[:FIRST_MULTICAST]).tolist():
        port = subnet.by_lid(lid)
        if port is not None and port.p_keys is not None and port.p_keys.blocks:
            known[lid] = max(subnet.lids[lid].changes()[0], min(block.changes()[0] for block in port.p_keys.blocks))
        elif lid:
            known[lid] = NOT_YET
    return known


def _judge(subnet: Subnet, later: Later, lid: int, p_key: int, frame: int) -> tuple[Verdict, Port, tuple[int, ...]] | None:
    owned = later.owner(subnet, lid)
    if owned is None or not p_key & BASE:
        return None
    port, told = owned
    if port.node.kind == ROUTER or port.p_keys is None or not later.p_keys(port):
        return None
    verdict, taught = port.p_keys.judge(p_key, 1 << 62, port.p_key_capacity)
    frames = tuple(sorted({told, *taught}))
    return (verdict, port, frames) if frame < frames[-1] else None
