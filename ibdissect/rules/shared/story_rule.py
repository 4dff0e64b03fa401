"""Base of rules that report what `ibdissect diagnose` says of a connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from ibdissect.diagnosis.connection import NONE
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFERRED, INFO, Context, Hit, Moment, Rule, fault, on_end

if TYPE_CHECKING:
    from ibdissect.diagnosis.connection import Connection


class StoryRule(Rule):
    """Base of rules about what became of a connection: one cause of docs/diagnose.md each, one finding a connection."""

    evidence = (
        "The state of the connection, followed from packet to packet, as `ibdissect diagnose` tells it at the end of the capture. Silent "
        "where the capture shows too little: one direction only, or the middle of a set-up."
    )
    needs: ClassVar[tuple[type[Any], ...]] = (Stories,)
    cause: ClassVar[str]
    quotes: ClassVar[bool] = True
    """Whether the finding also names the frame where it began; a frame with a wrong ICRC proves nothing but that."""
    message = "{ends}: {why}"

    def concerns(self, one: Connection) -> bool:
        """Whether the rule reports this connection, which its cause explains."""
        return True

    def severity_of(self, one: Connection, stories: Stories) -> Severity | None:
        """A lower severity than the rule's, or None: by default that of the diagnosis."""
        own = Severity(one.severity) if one.severity != NONE else INFO
        return own if own.rank < self.severity.rank else None

    def flow_of(self, one: Connection) -> object:
        """Connections with the same one become one finding."""
        return (one.ends, one.first_frame)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        stories = context.get(Stories)
        for one in stories.of_cause(self.cause):
            if self.concerns(one):
                yield self.told(one, stories)

    def told(self, one: Connection, stories: Stories) -> Hit:
        """The finding about one connection, at the frame that decides it."""
        first, decisive = one.evidence
        frame = decisive or first or one.last_frame
        proof = [(first, "where it began")] if self.quotes and first is not None and first != frame else []
        lids = [end.lid for end in one.ends if end.lid is not None]
        return fault(
            Moment(frame, stories.time_of(frame)), {"ends": ends_text(one), "why": one.why, "lids": lids}, proof=proof, evidence=INFERRED,
            key=self.flow_of(one), severity=self.severity_of(one, stories),
        )  # fmt: skip


class RefusedRule(StoryRule):
    """Base of rules about connections that were refused: an info where the asker succeeds at a later try, or is asked itself."""

    cause = "refused"

    def concerns(self, one: Connection) -> bool:
        return one.set_up.start_ns is not None

    def severity_of(self, one: Connection, stories: Stories) -> Severity | None:
        return INFO if stories.connected_later(one) or stories.connected_back(one) else super().severity_of(one, stories)


def ends_text(one: Connection) -> str:
    """`RC 10.0.0.1 QP 0x000111 → 10.0.0.2 QP 0x000222`."""
    return f"{one.transport} {one.ends[0]} → {one.ends[1]}"
