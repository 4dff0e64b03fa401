"""Which findings are only consequences of another finding? One fault gives one finding, which lists its consequences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped

from .finding import Finding, Related, Severity
from .rule import Hit, Rule, family

MAX_CAUSES = 16384
HIGHEST = Severity.ERROR.rank


class Cause(Record):
    """What a rule reports at a frame."""

    severity: int
    """Its rank if it is lower than the rule's, otherwise the highest."""
    count: int = 1
    """Packets for which the report stands."""
    finding: Finding | None = None
    """None if the report is only counted in the finding of another frame."""
    waits: bool = False
    """Whether it is judged at the end of the capture."""


class Consequences:
    """Frames at which rules report a cause (`Rule.explains`). One per capture.

    A report is a consequence if the cause is reported at its frame, or at a frame that proves it: the request of an answer. A cause
    whose severity was lowered does not explain what is more severe, nor one packet what stands for many.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.dropped = Dropped("frames with a finding that explains another")
        self.causes = {rule.code: BoundedDict[int, Cause](MAX_CAUSES, self.dropped) for rule in rules if rule.explains}
        """By code of the cause and frame."""
        by_name: dict[str, list[str]] = defaultdict(list)
        for rule in rules:
            for name in rule.explains:
                by_name[name].append(rule.code)
        of = {rule.code: [*by_name.get(rule.code, ()), *by_name.get(family(rule.code), ())] for rule in rules}
        self.causes_of = {code: causes for code, causes in of.items() if causes}
        """Codes of the causes, by code of the consequence."""
        self.ranks = {code: self._rank(code) for code in self.causes_of}
        """By code of the consequence, from 1: causes are judged before what they explain."""
        self.last = max(self.ranks.values(), default=0)
        self._first, self._size = 0, 0
        self._present: dict[str, bytearray] = {}
        """By code: the severity of the cause in each frame of the present chunk, also of causes that were evicted."""
        self._whole: dict[tuple[str, int], Cause] = {}
        """The causes of the present chunk that have a finding, or stand for several packets, by code and frame."""

    def _rank(self, code: str, above: tuple[str, ...] = ()) -> int:
        """Length of the longest chain of causes that leads to a consequence."""
        causes = self.causes_of.get(code, ()) if code not in above else ()
        return max((1 + self._rank(one, (*above, code)) for one in causes), default=0)

    def begin(self, first: int, size: int) -> None:
        """A chunk begins with frame `first`; 0 frames: none is present."""
        self._first, self._size = first, size
        self._present.clear()
        self._whole.clear()

    def note(self, rule: Rule, frame: int, lowered: Severity | None, count: int = 1, finding: Finding | None = None) -> None:
        """Record that a rule reports at a frame; `lowered`: with a severity that may be lower than its own, `finding`: if it is new."""
        if rule.explains:
            severity = HIGHEST if lowered is None or lowered is rule.severity else lowered.rank
            self._put(rule, frame, Cause(severity, count, finding))

    def await_end(self, rule: Rule, hit: Hit) -> None:
        """Record that a hit waits for the end of the capture, and so does what it explains."""
        for frame in {hit.frame, *hit.mads} if rule.explains else ():
            self._put(rule, frame, Cause(HIGHEST, waits=True))

    def end(self) -> None:
        """Nothing waits any more: what waited is noted again if it is reported."""
        for causes in self.causes.values():
            for frame in [frame for frame, cause in causes.items() if cause.waits]:
                del causes[frame]

    def _put(self, rule: Rule, frame: int, cause: Cause) -> None:
        causes, row = self.causes[rule.code], frame - self._first
        if 0 <= row < self._size and not cause.waits:
            present = self._present.setdefault(rule.code, bytearray(self._size))
            present[row] = max(present[row], cause.severity)
        known = causes.get(frame) or self._whole.get((rule.code, frame))
        if known is None or cause.finding is not None or cause.severity > known.severity:
            cause.finding = cause.finding or (known.finding if known is not None else None)
            causes.put(frame, cause, frame)
            if 0 <= row < self._size and (cause.finding is not None or cause.count > 1):
                self._whole[rule.code, frame] = cause

    def any_of(self, rule: Rule) -> bool:
        """Whether a cause was reported, or waits, that may explain a rule's reports."""
        return any(self.causes[code] for code in self.causes_of.get(rule.code, ()))

    def cause(self, rule: Rule, frame: int, hit: Hit | None = None) -> Cause | None:
        """What explains a rule's report at a frame; `hit`: what it reports."""
        severity = (hit.severity if hit is not None else None) or rule.severity
        for at in (frame, *(one.frame for one in hit.related)) if hit is not None else (frame,):
            for code in self.causes_of.get(rule.code, ()):
                cause = self._at(code, at)
                if cause is not None and cause.severity >= severity.rank and (hit is None or cause.waits or hit.count <= cause.count):
                    return cause
        return None

    def explain(self, rule: Rule, frame: int, cause: Cause) -> None:
        """Let the finding of a cause list a consequence, the first of each rule, and explain what that explains in turn."""
        if rule.explains:
            self._put(rule, frame, cause)
        finding, why = cause.finding, f"therefore {rule.code} {rule.name}"
        if finding is not None and all(one.why != why for one in finding.related):
            finding.related = (*finding.related, Related(frame, why))

    def _at(self, code: str, frame: int) -> Cause | None:
        present, row = self._present.get(code), frame - self._first
        severity = present[row] if present is not None and 0 <= row < self._size else 0
        return self.causes[code].get(frame) or self._whole.get((code, frame)) or (Cause(severity) if severity else None)
