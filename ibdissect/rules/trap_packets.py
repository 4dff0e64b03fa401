"""Packets that a port complained about (PKY, QKY)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.fabric.events import ChunkFollowed, TrapSeen
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span, value_of
from ibdissect.lint.rule import INFO, WARNING, Hit, on_event
from ibdissect.table.locate import u16
from ibdissect.wire.notice import Notice, TrapPKey, TrapQKey
from ibdissect.wire.transport import BTH

from .learnt import DATA_AT
from .pkey_columns import Native
from .trap_state import DETAILS_AT, TrapRule


class _ReportedPackets(TrapRule):
    """A port complains about a packet that the capture holds: the trap is linked with it."""

    searches = 64
    """Traps per chunk for which packets are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[TrapSeen, int, int, int, int]] = []

    def ends(self, event: TrapSeen) -> tuple[int, int, int, int]:
        """SLID, DLID, destination QP and key of the packet that the trap is about."""
        raise NotImplementedError

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        notice = Notice(event.notice)
        if notice.is_generic and notice.trap_number in self.numbers and len(self.waiting) < self.searches:
            self.waiting.append((event, *self.ends(event)))
        return iter(())

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        waiting, self.waiting = self.waiting, []
        for trap, slid, dlid, qp, key in waiting:
            native: Native = context.get(Native).of(event.table)
            there = (native.slid == slid) & (native.dlid == dlid) & (native.dest_qp == qp)
            there &= native.rows < trap.frame - event.table.chunk.first
            rows = native.rows[np.flatnonzero(there & self.carries(event, native, key))]
            if len(rows):
                last = int(rows[-1]) + event.table.chunk.first
                yield Hit(
                    frame=trap.frame,
                    time_ns=trap.time_ns,
                    arguments={"port": str(trap.port) if trap.port is not None else f"LID {trap.slid}", "slid": slid, "dlid": dlid,
                               "qp": qp, "key": self.key_text(key), "packet": last, "packets": len(rows)},
                    spans=(Span(trap.frame, trap.mad + DATA_AT + DETAILS_AT, 50),),
                    related=(Related(last, "the packet that the trap is about"),),
                    evidence=Evidence.LEARNT,
                    key=(slid, dlid, qp, key),
                )  # fmt: skip

    def carries(self, event: ChunkFollowed, native: Native, key: int) -> Any:
        """Which packets carry the key, bool[n]."""
        raise NotImplementedError

    def key_text(self, key: int) -> Any:
        """The key as the message shows it."""
        raise NotImplementedError


class BadPKeyReported(_ReportedPackets):
    """A port complains about a packet's P_Key, and the capture holds the packet.

    ## Why it matters
    The port dropped it: it is not a member of that partition, or both are limited members.

    ## What to do
    Compare the partitions of both ports (smpquery pkeys).
    """

    code, name, severity = "PKY013", "trap257-crossref", WARNING
    reference = "IBA 14.2.5.1; seed002; opensm ntc_257_258"
    message = "trap 257 from {port}: P_Key {key} from LID {slid} to LID {dlid} QP 0x{qp:x}, last in frame {packet}"
    example = "a packet with P_Key 0x1234, then SubnTrap 257 that names both its ends and that P_Key"
    numbers = (257,)

    def ends(self, event: TrapSeen) -> tuple[int, int, int, int]:
        bad = TrapPKey(event.notice, DETAILS_AT)
        return bad.lidaddr1, bad.lidaddr2, bad.qp2, bad.key_value & 0xFFFF

    def carries(self, event: ChunkFollowed, native: Native, key: int) -> Any:
        return native.p_key == key

    def key_text(self, key: int) -> Any:
        return f"0x{key:04x}"


class BadQKeyReported(_ReportedPackets):
    """A port complains about a datagram's Q_Key, and the capture holds the datagram.

    ## Why it matters
    The port dropped it: the queue pair has another Q_Key than the sender believes.

    ## What to do
    Look at where the sender learnt the Q_Key: a multicast group made anew, a restarted service.
    """

    code, name, severity = "QKY008", "bad-qkey-trap-flow", INFO
    reference = "IBA 14.2.5.1; opensm ntc_257_258"
    message = "trap 258 from {port}: {key} from LID {slid} to LID {dlid} QP 0x{qp:x}, last in frame {packet}"
    example = "a datagram, then SubnTrap 258 that names both its ends and its Q_Key"
    numbers = (258,)

    def ends(self, event: TrapSeen) -> tuple[int, int, int, int]:
        bad = TrapQKey(event.notice, DETAILS_AT)
        return bad.lidaddr1, bad.lidaddr2, bad.qp2, bad.key_value

    def carries(self, event: ChunkFollowed, native: Native, key: int) -> Any:
        data, at = event.table.chunk.data, event.table.located.at("bth")[native.rows] + BTH.size
        datagram = (native.opcode == 0x64) | (native.opcode == 0x65)  # DETH stands right behind BTH
        at = np.where(datagram & (at + 4 <= event.table.located.limit[native.rows]), at, 0)
        return datagram & ((u16(data, at) << 16 | u16(data, at + 2)) == key)

    def key_text(self, key: int) -> Any:
        return value_of(TrapQKey.key_value, key)
