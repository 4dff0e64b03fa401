"""How do rules judge a single trap?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.fabric.events import TrapSeen
from ibdissect.lint.rule import Context, Hit, Judged, Rule, fault, on_event
from ibdissect.rules.shared.attribute_rule import DATA_AT
from ibdissect.wire.notice import Notice

DETAILS_AT = Notice.data_details.bit // 8
BAD_M_KEY = 256
TICK_NS = 4096
"""Unit of SubnetTimeOut: 4.096 us times a power of two."""
MAX_TRAPS = 4096
"""Traps, senders or ports remembered per rule."""


class TrapRule(Rule):
    """Base of rules about a single trap: one finding per sender and trap number."""

    evidence = "The trap, and what the port or node that it names answered before. Silent where the capture does not show that."
    numbers: tuple[int, ...] = ()
    """Trap numbers that are judged; empty: all generic ones."""
    at = Notice.trap_number

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        """Arguments and proof; None if the trap is in order."""
        raise NotImplementedError

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        notice = Notice(event.notice)
        if not notice.is_generic or (self.numbers and notice.trap_number not in self.numbers):
            return
        judged = self.judge(event, notice, context)
        if judged is None:
            return
        arguments, proof = judged
        yield fault(
            event, {"trap": notice.trap_number, "port": event.sender, **arguments}, Notice.trap_number, notice.trap_number,
            start=event.mad + DATA_AT, proof=proof, key=(event.slid, notice.trap_number),
        )  # fmt: skip
