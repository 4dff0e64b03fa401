"""Which findings are only consequences of another finding? One fault gives one finding, which lists its consequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped

from .finding import Finding, Related, Severity
from .rule import Hit, Rule

MAX_CAUSES = 16384


class Cause(Record):
    """What a rule reports at a frame."""

    severity: int
    """Its rank if it is lower than the rule's, otherwise the highest."""
    count: int
    """Packets for which the report stands."""
    finding: Finding | None
    """None if the report is only counted in the finding of another frame, or if the finding already lists the consequence."""


class Consequences:
    """Frames at which rules report a cause (`Rule.explains`). One per capture.

    A report is a consequence if the cause is reported at its frame, or at a frame that proves it: the request of an answer. A cause
    whose severity was lowered does not explain what is more severe, nor one packet what stands for many.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.dropped = Dropped("frames with a finding that explains another")
        self.causes = {code: BoundedDict[int, Cause](MAX_CAUSES, self.dropped) for rule in rules for code in rule.explains}
        """By code of the consequence and frame."""
        self.ranks = _ranks(rules)
        """By code of the consequence, from 1: causes are judged before what they explain."""
        self.last = max(self.ranks.values(), default=0)
        self._first, self._size = 0, 0
        self._present: dict[str, bytearray] = {}
        """By code: the severity of the cause in each frame of the present chunk, also of causes that were evicted."""

    def begin(self, first: int, size: int) -> None:
        """A chunk begins with frame `first`; 0 frames: none is present."""
        self._first, self._size = first, size
        self._present.clear()

    def note(self, rule: Rule, frame: int, severity: Severity | None = None, count: int = 1, finding: Finding | None = None) -> None:
        """Record that a rule reports at a frame; `severity` if it is lower than the rule's, `finding` if this made a new one."""
        rank = (Severity.ERROR if severity in (None, rule.severity) else severity).rank
        for code in rule.explains:
            causes, row = self.causes[code], frame - self._first
            if 0 <= row < self._size:
                present = self._present.setdefault(code, bytearray(self._size))
                present[row] = max(present[row], rank)
            known = causes.get(frame)
            if known is None or finding is not None or rank > known.severity:
                causes.put(frame, Cause(rank, count, finding or (known and known.finding)), frame)

    def explained(self, rule: Rule, frame: int, hit: Hit | None = None) -> bool:
        """Whether a rule's report at a frame is only a consequence; if so, the cause's finding lists it. `hit`: what it reports."""
        if rule.code not in self.causes:
            return False
        severity = (hit.severity if hit is not None else None) or rule.severity
        for place in (frame, *(one.frame for one in hit.related)) if hit is not None else (frame,):
            cause = self._cause(rule.code, place)
            if cause is None or cause.severity < severity.rank or (hit is not None and hit.count > cause.count):
                continue
            self.note(rule, frame, severity, cause.count, cause.finding)  # what it explains follows from the cause, too
            if cause.finding is not None:
                cause.finding.related = (*cause.finding.related, Related(frame, f"therefore {rule.code} {rule.name}"))
                cause.finding = None
            return True
        return False

    def _cause(self, code: str, frame: int) -> Cause | None:
        present, row = self._present.get(code), frame - self._first
        severity = present[row] if present is not None and 0 <= row < self._size else 0
        return self.causes[code].get(frame) or (Cause(severity, 1, None) if severity else None)


def _ranks(rules: Iterable[Rule]) -> dict[str, int]:
    """How many causes stand behind each consequence, one behind the other."""
    causes: dict[str, list[str]] = {}
    for rule in rules:
        for code in rule.explains:
            causes.setdefault(code, []).append(rule.code)

    def rank(code: str, above: tuple[str, ...] = ()) -> int:
        return 0 if code not in causes or code in above else 1 + max(rank(one, (*above, code)) for one in causes[code])

    return {code: rank(code) for code in causes}
