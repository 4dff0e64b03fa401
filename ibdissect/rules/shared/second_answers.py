"""Second answers to a request: one of both answers another request, which the capture lacks."""

from __future__ import annotations

from typing import Any, ClassVar

from ibdissect.bounded import KeptDict
from ibdissect.decode.identity import Frame
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, Context, Hit
from ibdissect.mad.request_outcomes import AnsweredAgain
from ibdissect.rules.shared.not_seen import LearntFactRule

MAX_AGAIN = 16384


class AnsweredAgainLater:
    """Frames of requests that got more than one answer. One per capture."""

    learns_from: ClassVar = AnsweredAgain

    def __init__(self) -> None:
        self.frames = KeptDict[Frame, None](MAX_AGAIN, "requests that were answered twice")

    def take(self, event: AnsweredAgain) -> None:
        """Note a second answer."""
        self.frames.keep(event.request.last_frame, None, event.frame, event.time_ns)


class OwnAnswerRule(LearntFactRule):
    """Base of rules about an answer that does not fit its request: an `info` if that request gets another answer, too.

    Two hosts may share a transaction id and a directed route, or an answer may be late: then it is that to an earlier request.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (AnsweredAgainLater,)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        again = context.get(AnsweredAgainLater).frames
        doubtful = again.dropped.count or any(one.frame in again for one in hit.related)
        return INFO if doubtful else super().severity_at_end(hit, context)
