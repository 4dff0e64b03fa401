"""How do rules draw conclusions from a packet that is not in the capture, or from an unanswered request?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from ibdissect.bounded import Dropped, KeptList
from ibdissect.fabric.nodes import Node
from ibdissect.flow.capture_loss import CaptureLoss
from ibdissect.flow.requests import Request, Unanswered
from ibdissect.flow.transactions import Transactions
from ibdissect.flow.visible_answers import VisibleAnswers
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import SEEN, Context, Hit, Rule, on_event
from ibdissect.rules.shared.unanswered_sets import UnansweredSets
from ibdissect.table.history import SECOND_NS
from ibdissect.wire.numbers import GET, SET

PATIENCE_NS = SECOND_NS
"""A request within this time before the capture's end may still be answered."""
WARM_UP_NS = 10 * SECOND_NS
"""Exchanges that began before the capture are over by then."""
MAX_KEPT = 16384
"""Requests without an answer that are kept until the end; further ones are not judged."""


def lowered_severity(context: Context, time_ns: int) -> Severity | None:
    """INFO if the capture may have missed the packet; None (keep the rule's own severity) if it was certainly not sent."""
    return None if context.get(CaptureLoss).proves_silence(time_ns) else Severity.INFO


def warm(time_ns: int, context: Context) -> bool:
    """Whether the capture has run long enough to contain the beginning."""
    return bool(time_ns - context.get(Transactions).first_ns >= WARM_UP_NS)


class LearntFactRule(Rule):
    """Base of rules that compare a packet with facts from earlier ones, which a change missed by the capture makes uncertain."""

    waits = True
    needs: ClassVar[tuple[type[Any], ...]] = (CaptureLoss, Transactions)
    written: ClassVar[tuple[int, ...]] = ()
    """Attributes of subnet management with these facts: a Set that was not answered may have changed them."""
    read: ClassVar[tuple[int, ...]] = ()
    """Attributes of which a Get that was not answered may have shown the sender later facts."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if a packet is missing between the frames that showed the facts and this one, or their order is uncertain."""
        if hit.evidence is SEEN:  # it rests on no facts: the site policy or the packet itself
            return None
        loss, shown = context.get(CaptureLoss), min((one.frame for one in hit.related if one.frame < hit.frame), default=0)
        asked = *((SET, one) for one in self.written), *((GET, one) for one in self.read)
        nodes, unanswered = self.rests_on(hit, context) if asked else (), context.get(UnansweredSets)
        missed = loss.between(shown, hit.time_ns) or any(unanswered.between(one, shown, hit.frame, nodes, how) for how, one in asked)
        doubtful = missed or loss.unsettled(hit.frame, hit.time_ns)
        return Severity.INFO if doubtful else super().severity_at_end(hit, context)

    def rests_on(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The nodes whose `written` attributes a finding rests on; None: any node's."""
        return None


class UnansweredRule(Rule):
    """Base of rules about unanswered requests: they judge at the end, when it is known whose answers the capture shows."""

    evidence = "The request is never answered, the capture goes on for a second, and it shows answers to the same requester."
    needs: ClassVar[tuple[type[Any], ...]] = (VisibleAnswers,)
    mgmt_class: ClassVar[int | None] = None
    """Only requests of this class."""
    remembers: ClassVar[str] = "requests without an answer"

    def __init__(self) -> None:
        self.dropped = Dropped(self.remembers)
        self.given_up = KeptList[Request](MAX_KEPT, self.dropped)

    @on_event(Unanswered)
    def keep_unanswered(self, event: Unanswered, _context: Context) -> None:
        if self.mgmt_class in (None, event.request.mgmt_class):
            self.given_up.keep(event.request, event.frame, event.time_ns)

    def unanswered(self, context: Context, patience_ns: float = PATIENCE_NS) -> Iterator[Request]:
        """Requests that were never answered, or are still open at the end, of requesters to whom the capture shows answers."""
        transactions, answers = context.get(Transactions), context.get(VisibleAnswers)
        waiting = transactions.open_requests(self.mgmt_class, int(transactions.last_ns - patience_ns))
        for request in (*self.given_up, *waiting):
            if answers.would_show(request):
                yield request
