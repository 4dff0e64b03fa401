"""Base of rules about a single trap, and about the packet that it reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.identity import Content, LidId, PortId
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity, Span
from ibdissect.lint.rule import INFO, Context, FaultDetails, Hit, Moment, fault, on_event
from ibdissect.rules.shared.not_seen import LearntFactRule, warm
from ibdissect.subnet import ChunkFollowed, FabricFollower, Port
from ibdissect.subnet.events import TrapSeen
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.smp_columns import DATA_AT
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.convert import timeout_ns
from ibdissect.wire.notice import Notice, TrapPKey, TrapQKey

DETAILS_AT = Notice.data_details.bit // 8
BAD_M_KEY = 256
MAX_TRAPS, MAX_LIDS = 4096, 8
"""Traps, senders or ports remembered per rule."""


class FirstTraps:
    """From which LIDs a trap was sent: it is repeated with the same notice until it is acknowledged. One per capture."""

    learns_from: ClassVar = TrapSeen

    def __init__(self) -> None:
        self.sent = KeptDict[Content, tuple[Moment, set[LidId]]](MAX_TRAPS, "traps that may be repeated")
        """When each was first seen, and the LIDs that it came from, by transaction id and notice."""

    def take(self, event: TrapSeen) -> None:
        """Note a trap."""
        known = self.sent.get_or_make(_content(event), lambda: (Moment(event.frame, event.time_ns), set()), event.frame, event.time_ns)
        if known is not None and len(known[1]) < MAX_LIDS:
            known[1].add(LidId(event.slid))

    def first(self, event: TrapSeen) -> Moment | None:
        """When an equal trap was first seen; None if nobody knows."""
        known = self.sent.get(_content(event))
        return known[0] if known is not None else None

    def was_sent_from(self, event: TrapSeen, lid: int) -> bool:
        """Whether an equal trap came from a LID, or nobody knows."""
        known = self.sent.get(_content(event))
        return self.sent.dropped.count > 0 or (known is not None and LidId(lid) in known[1])


def repetition_ns(port: Port | None) -> int:
    """Nanoseconds within which a port repeats a trap that is not repressed; 0 if unknown."""
    info = port.info if port is not None else None
    return 2 * timeout_ns(info.subnet_time_out) if info is not None else 0


def _content(event: TrapSeen) -> Content:
    return event.transaction.to_bytes(8, "big") + event.notice


class TrapRule(LearntFactRule):
    """Base of rules about a single trap: one finding per sender and trap number. What ports answered before passes the gate."""

    holds_ns = CONFIGURED_NS

    evidence = (
        "The trap, and what the port or node that it names answered before. Silent where the capture does not show that; an `info` where "
        "it may have missed a change in between."
    )
    numbers: tuple[int, ...] = ()
    """Trap numbers that are judged; empty: all generic ones."""
    at = Notice.trap_number

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        """Arguments and proof; None if the trap is in order."""
        raise NotImplementedError

    @staticmethod
    def in_one_subnet(hit: Hit, context: Context) -> bool:
        """Whether the frames of a hit are known to be of one subnet: LIDs of another one are other ports'."""
        return context.get(Scopes).together((hit.frame, *(one.frame for one in hit.related)))

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        judged = self.judge(event, context) if event.number >= 0 and (event.number in self.numbers or not self.numbers) else None
        if judged is not None:
            arguments, proof = judged
            yield fault(
                event, {"trap": event.number, "port": event.sender, **arguments}, Notice.trap_number, event.number,
                start=event.mad + DATA_AT, proof=proof, key=(event.origin, event.number),
                about=(event.port.node.slot,) if event.port is not None else (),
            )  # fmt: skip


class OwnLidRule(TrapRule):
    """Base of rules about a LID in a trap that is not its sender's: a port may have had it when it first sent the trap.

    That may have been before the capture began, if the trap comes in its first ten seconds, or before the port repeats one: an INFO.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (LidWrites, FirstTraps)

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        first = context.get(FirstTraps).first(event)
        for hit in super().trap(event, context):
            hit.severity = None if first is not None and warm(first, context, repetition_ns(event.port)) else INFO
            yield hit

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO, too, if the capture begins with another LID of the port than it had before."""
        origin, _ = hit.key
        node = context.get(FabricFollower).subnet.by_slot(origin.node) if isinstance(origin, PortId) else None
        port = node.ports.get(origin.number) if node is not None else None
        if port is not None and context.get(LidWrites).gained(port, 0):
            return INFO
        return super().severity_at_end(hit, context)


LOOK_BACK = 8192
"""Native packets before a trap that are searched for those it is about."""


class ReportedPackets(TrapRule):
    """Base of rules about a trap whose packet is in the capture: the finding links both."""

    evidence = "The trap, and among the 8192 packets before it one with the ends and the key that it names."
    details: type[TrapPKey] | type[TrapQKey]
    """What the trap says of the packet."""
    key_mask = 0xFFFFFFFF

    def __init__(self) -> None:
        self.waiting: list[tuple[TrapSeen, int, int, int, int]] = []
        """Traps of this chunk, with the ends and the key that they are about."""
        self.latest: Int = np.empty((5, 0), np.int64)
        """Frame, SLID, DLID, destination QP and key of the latest native packets, int64[5, n]."""

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        if event.number in self.numbers:
            bad = self.details(event.notice, DETAILS_AT)
            self.waiting.append((event, bad.lidaddr1, bad.lidaddr2, bad.qp2, bad.key_value & self.key_mask))
        return iter(())

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        waiting, self.waiting = self.waiting, []
        native = event.table.once(Native)
        some = slice(None) if waiting else slice(-LOOK_BACK, None)
        columns = (native.rows[some] + event.table.chunk.first, native.slid[some], native.dlid[some], native.dest_qp[some])
        packets = np.concatenate([self.latest, [*columns, self.keys(event.table, native, some)]], axis=1)
        self.latest = packets[:, -LOOK_BACK:].copy()
        for trap, *about in waiting:
            slid, dlid, qp, key = about
            stop = int(packets[0].searchsorted(trap.frame))
            before = packets[:, max(0, stop - LOOK_BACK) : stop]
            frames = before[0, (before[1:] == np.array(about)[:, None]).all(axis=0)]
            if len(frames):
                last = int(frames[-1])
                yield fault(
                    trap,
                    {"port": trap.sender, "slid": slid, "dlid": dlid, "qp": qp, "key": self.key_text(key), "packet": last,
                     "packets": len(frames)},
                    proof=[(last, "the packet that the trap is about")], spans=(Span(trap.frame, trap.mad + DATA_AT + DETAILS_AT, 50),),
                    key=(slid, dlid, qp, key),
                )  # fmt: skip

    def doubtful_by_then(self, hit: Hit, context: Context) -> bool:
        """Never: the port complains, whatever state the capture shows it in."""
        return False

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if trap and packet may be of two subnets; what happened in between changes neither."""
        return None if self.in_one_subnet(hit, context) else INFO

    def keys(self, table: ChunkTable, native: Native, some: slice) -> Int:
        """The key that each of some packets carries, -1 for none; int64[n]."""
        raise NotImplementedError

    def key_text(self, key: int) -> Any:
        """The key as the message shows it."""
        raise NotImplementedError
