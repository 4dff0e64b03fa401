"""Consequences of other findings: a fault is reported once, with a list of its consequences."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache, partial

from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped

from .finding import Finding, Related, Severity
from .rule import Hit, Rule, family

MAX_CAUSES = 16384
"""Frames with a cause that a later hit can name, for each rule: the latest ones before the hit."""
HIGHEST = Severity.ERROR.rank


class Cause(Record):
    """What a rule reports at a frame."""

    severity: int
    """The rank of its severity if that is lower than the rule's, otherwise the highest rank."""
    count: int = 1
    """Packets for which the report stands."""
    finding: Finding | None = None
    """None if the report is only counted in the finding of another frame."""
    waits: bool = False
    """Whether it is judged at the end of the capture."""


class Consequences:
    """Frames at which rules report a cause (`Rule.explains`). One per capture.

    B is a consequence of A if A is reported at the frame of B, or at a frame that proves B (the request of an answer). A must be at
    least as severe as B, and stand for at least as many packets.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.dropped = Dropped("frames with a finding that explains another")
        self.causes: dict[str, BoundedDict[int, Cause]] = defaultdict(partial(BoundedDict, MAX_CAUSES, self.dropped))
        """By code of the cause and frame."""
        self._frames: dict[str, list[int]] = {}
        """The frames of a rule's causes in order, where a chunk has more than can be named."""
        self.causes_of, self.ranks = chains(tuple(map(type, rules)))
        self.last = max(self.ranks.values(), default=0)

    def trim(self) -> None:
        """At the end of a chunk, keep only the latest causes of each rule. During a chunk, all of its causes are kept."""
        self._frames.clear()
        for _, causes in sorted(self.causes.items()):
            frames = sorted(causes) if len(causes) > causes.limit else []
            for frame in frames[: -causes.limit]:
                self.dropped.add(frames[causes.limit], 0)
                del causes[frame]

    def note(self, rule: Rule, frame: int, lowered: Severity | None, count: int = 1, finding: Finding | None = None) -> None:
        """Record that a rule reports at a frame. `lowered`: the severity, if not the rule's own. `finding`: the finding, if it is new."""
        if rule.explains:
            severity = HIGHEST if lowered is None or lowered is rule.severity else lowered.rank
            self._put(rule, frame, Cause(severity, count, finding))

    def await_end(self, rule: Rule, hit: Hit) -> None:
        """Record that a hit waits for the end of the capture: the hits that it explains wait, too."""
        for frame in {hit.frame, *hit.mads} if rule.explains and hit.explains else ():
            self._put(rule, frame, Cause(HIGHEST, waits=True))

    def _oldest(self, code: str, frame: int) -> int:
        """The oldest frame whose cause a hit at `frame` can name, wherever the chunk ends."""
        causes, known = self.causes[code], self._frames.get(code, [])
        if len(causes) <= causes.limit:
            return 0
        if len(known) != len(causes):
            known = self._frames[code] = sorted(causes)
        return known[max(bisect_right(known, frame) - causes.limit, 0)]

    def end(self, unreliable: Collection[str]) -> None:
        """The capture has ended: forget the causes of `unreliable` rules, and those that waited. These are noted again if reported."""
        self._frames.clear()
        for code in unreliable:
            self.causes.pop(code, None)
        for causes in self.causes.values():
            for frame in [frame for frame, cause in causes.items() if cause.waits]:
                del causes[frame]

    def _put(self, rule: Rule, frame: int, cause: Cause) -> None:
        causes = self.causes[rule.code]
        known = causes.get(frame)
        if known is None or cause.finding is not None or cause.severity > known.severity:
            cause.finding = cause.finding or (known.finding if known is not None else None)
            causes[frame] = cause

    def any_of(self, rule: Rule) -> bool:
        """Whether any cause that may explain a rule's hits was reported or waits."""
        codes = self.causes_of.get(rule.code)
        return codes is not None and any(self.causes.get(code) for code in codes)

    def cause(self, rule: Rule, frames: Sequence[int], severity: Severity | None = None, count: int = 1) -> Cause | None:
        """The cause of a rule's hit, or None. `frames`: its own and those that prove it; `severity`: its own, if lower than the rule's."""
        rank = (severity or rule.severity).rank
        for frame in frames:
            for code in self.causes_of.get(rule.code, ()):
                cause = self.causes[code].get(frame) if code in self.causes else None
                if cause is None or frame < self._oldest(code, frames[0]):
                    continue
                if cause.severity >= rank and (cause.waits or count <= cause.count):
                    return cause
        return None

    def explain(self, rule: Rule, frame: int, cause: Cause) -> None:
        """List a consequence in the finding of its cause (the first one of each rule). What it explains has the same cause."""
        if rule.explains:
            self._put(rule, frame, cause)
        finding, why = cause.finding, f"therefore {rule.code} {rule.name}"
        if finding is not None and all(one.why != why for one in finding.related):
            finding.related = (*finding.related, Related(frame, why))


@lru_cache(maxsize=8)
def chains(rules: tuple[type[Rule], ...]) -> tuple[dict[str, list[str]], dict[str, int]]:
    """By code of the consequence: the codes of its causes, and its rank. Ranks start at 1 and are judged in order, causes first."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for rule in rules:
        for name in rule.explains:
            by_name[name].append(rule.code)
    of = {rule.code: causes for rule in rules if (causes := by_name.get(rule.code, []) + by_name.get(family(rule.code), []))}

    def rank(code: str, above: tuple[str, ...] = ()) -> int:
        """Length of the longest chain of causes that leads to a consequence."""
        return 0 if code not in of or code in above else 1 + max(rank(one, (*above, code)) for one in of[code])

    return of, {code: rank(code) for code in of}
