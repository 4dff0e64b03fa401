"""What do rules about a single trap share?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibdissect.fabric.events import TrapSeen
from ibdissect.fabric.model import Subnet
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import Hit, Rule, on_event
from ibdissect.rules.shared.attribute_rule import DATA_AT
from ibdissect.wire.notice import Notice

DETAILS_AT = Notice.data_details.bit // 8
BAD_M_KEY = 256
SECOND = 1_000_000_000
TICK_NS = 4096
"""Unit of SubnetTimeOut: 4.096 us times a power of two."""
MAX_TRAPS = 4096
"""Traps, senders or ports remembered per rule."""
Judged = tuple[dict[str, Any], tuple[Related, ...]]
"""Arguments of a message, and the frames that prove it."""


class TrapRule(Rule):
    """What the rules about a single trap share: one finding per sender and trap number."""

    numbers: tuple[int, ...] = ()
    """Trap numbers that it looks at; none: all generic ones."""
    at = Notice.trap_number

    def __init__(self) -> None:
        self.subnet: Subnet | None = None

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        """Arguments and proof; None when the trap is in order."""
        raise NotImplementedError

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        notice = Notice(event.notice)
        if not notice.is_generic or (self.numbers and notice.trap_number not in self.numbers):
            return
        found = self.judge(event, notice, context)
        if found is None:
            return
        arguments, related = found
        low, high = Notice.trap_number.span
        yield Hit(
            frame=event.frame,
            time_ns=event.time_ns,
            arguments={"trap": notice.trap_number, "port": str(event.port) if event.port is not None else f"LID {event.slid}", **arguments},
            spans=(Span(event.frame, event.mad + DATA_AT + low, high - low),),
            field=Notice.trap_number,
            value=notice.trap_number,
            related=related,
            evidence=Evidence.LEARNT if related else Evidence.SEEN,
            key=(event.slid, notice.trap_number),
        )
