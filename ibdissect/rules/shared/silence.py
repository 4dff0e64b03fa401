"""How sure is a finding that rests on a packet which is not in the capture?"""

from __future__ import annotations

from ibdissect.flow.capture_loss import CaptureLoss
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import Context


def doubtful(context: Context, time_ns: int) -> Severity | None:
    """INFO where the capture may have missed the packet; None, the rule's own severity, where it was not sent."""
    return None if context.get(CaptureLoss).proves_silence(time_ns) else Severity.INFO
