"""How do rules judge packets that a port reports by trap or counts as violations?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.fabric.earlier_answers import PortInfos
from ibdissect.fabric.events import ChunkFollowed, TrapSeen
from ibdissect.lint.finding import Span
from ibdissect.lint.rule import Context, Hit, fault, on_event
from ibdissect.rules.shared.attribute_rule import DATA_AT, Changed
from ibdissect.rules.shared.trap_rule import DETAILS_AT, TrapRule
from ibdissect.table.locate import Int
from ibdissect.table.native_packets import Native
from ibdissect.table.table import ChunkTable
from ibdissect.wire.notice import Notice

LOOK_BACK = 8192
"""Native packets before a trap that are searched for those it is about."""


class ReportedPackets(TrapRule):
    """Base of rules about a trap whose packet is in the capture: the finding links both."""

    evidence = "The trap, and among the 8192 packets before it one with the ends and the key that it names."

    def __init__(self) -> None:
        self.waiting: list[tuple[TrapSeen, int, int, int, int]] = []
        """Traps of this chunk, with the ends and the key that they are about."""
        self.latest: Int = np.empty((5, 0), np.int64)
        """Frame, SLID, DLID, destination QP and key of the latest native packets, int64[5, n]."""

    def ends(self, event: TrapSeen) -> tuple[int, int, int, int]:
        """SLID, DLID, destination QP and key of the packet that the trap is about."""
        raise NotImplementedError

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        notice = Notice(event.notice)
        if notice.is_generic and notice.trap_number in self.numbers:
            self.waiting.append((event, *self.ends(event)))
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

    def keys(self, table: ChunkTable, native: Native, some: slice) -> Int:
        """The key that each of some packets carries, -1 for none; int64[n]."""
        raise NotImplementedError

    def key_text(self, key: int) -> Any:
        """The key as the message shows it."""
        raise NotImplementedError


class ViolationCounted(Changed):
    """Base of rules about violation counters."""

    evidence = "Two answers of the port, the later one with a higher count."
    source = PortInfos
    why = "showed a lower count"
    differs = np.greater
