"""Findings of a check's end, if a capture that grows ended now.

Requests without an answer, connections that failed, and all rules that wait for later packets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ibdissect.failures import Failures
from ibdissect.lint.finding import Finding, Severity
from ibdissect.lint.rule import Rule
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.make_linter import linter_of

from .capture_model import STEP, CaptureModel

Occurrence = tuple[type[Rule], Severity, Finding | None, Any, Any, int]
"""As `FindingsStore.take` has it: rule, severity, finding, frames, offset, length."""


@dataclass(slots=True)
class Foreseen:
    """Findings that come at the end only."""

    occurrences: list[Occurrence] = field(default_factory=list)
    by_rule: Counter[str] = field(default_factory=Counter)
    counts: Counter[Severity] = field(default_factory=Counter)


def foresee(model: CaptureModel, options: CheckOptions, frames: int, wanted: Callable[[], bool]) -> Foreseen | None:
    """Check the first `frames` frames once more, to their end; None when it is no longer wanted. What fails is left to the real end."""
    found, rules, ending = Foreseen(), {rule.code: rule for rule in options.rules_for(model.reader.path)}, False

    def made(finding: Finding) -> None:
        finding.severity = options.severity_of(rules[finding.code], finding.severity)
        model.reading.finish(finding)

    def occurred(rule: Rule, own: Severity | None, finding: Finding | None, frames: Any, offset: Any, length: int) -> None:
        if ending:
            found.occurrences.append((type(rule), options.severity_of(rule, own), finding, frames, offset, length))

    linter = linter_of(options, model.reading, Failures(), on_finding=made, on_occurrence=occurred)
    linter.context.damage = model.damage
    done = 0
    while done < frames:
        chunk = model.index.after(done, min(STEP, frames - done))
        if not len(chunk) or not wanted():
            return None
        linter.feed(model.reading.table_of(chunk))
        done += len(chunk)
    before, counts = {code: tally.count for code, tally in linter.tally.items()}, options.totals(linter)
    ending = True
    linter.finish()
    found.by_rule = Counter({code: more for code, tally in linter.tally.items() if (more := tally.count - before.get(code, 0)) > 0})
    found.counts = options.totals(linter) - counts
    linter.close()
    return found
