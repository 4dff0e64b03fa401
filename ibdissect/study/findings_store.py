"""Which findings are there so far: by frame, by rule, how bad? Filled by the lint thread, read by the screen."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

from ibdissect.lint.finding import Finding, Severity


class FindingsStore:
    """Findings in frame order. One thread adds, the screen's thread reads; a list is never changed while it is iterated."""

    def __init__(self) -> None:
        self._ordered: list[tuple[int, str, int, Finding]] = []
        self._frames: list[int] = []
        self._worst: dict[int, Severity] = {}
        self._by_rule: dict[str, list[Finding]] = {}
        self.codes: dict[int, tuple[str, ...]] = {}
        """Codes by frame, as the filter `ibdissect.code` wants them."""
        self.by_rule: Mapping[str, int] = {}
        """Exact number of findings by code, also of those that are not kept; replaced as a whole."""
        self.counts: Mapping[Severity, int] = dict.fromkeys(Severity, 0)
        """Exact number by severity; replaced as a whole."""
        self.generation = 0
        """Grows with every change."""

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, finding: Finding) -> None:
        """Take in a finished finding."""
        insort(self._ordered, (finding.frame, finding.code, len(self._ordered), finding))
        self._by_rule.setdefault(finding.code, []).append(finding)
        self.codes[finding.frame] = (*self.codes.get(finding.frame, ()), finding.code)
        worst = self._worst.get(finding.frame)
        if worst is None:
            insort(self._frames, finding.frame)
        if worst is None or finding.severity.rank > worst.rank:
            self._worst[finding.frame] = finding.severity
        self.generation += 1

    def set_counts(self, by_rule: Mapping[str, int], counts: Mapping[Severity, int]) -> None:
        """The exact numbers so far."""
        self.by_rule, self.counts = by_rule, counts
        self.generation += 1

    def all(self) -> list[Finding]:
        """Every finding kept, by frame and code."""
        return [entry[3] for entry in self._ordered.copy()]

    def rules(self) -> list[tuple[str, list[Finding]]]:
        """Findings by rule: the worst rules first, then by code."""
        groups = [(code, findings.copy()) for code, findings in self._by_rule.copy().items()]
        return sorted(groups, key=lambda group: (-group[1][0].severity.rank, group[0]))

    def of_frame(self, frame: int) -> list[Finding]:
        """Findings at a frame."""
        ordered = self._ordered
        start = bisect_left(ordered, frame, key=lambda entry: entry[0])
        stop = bisect_right(ordered, frame, key=lambda entry: entry[0])
        return [entry[3] for entry in ordered[start:stop]]

    def worst(self, frame: int) -> Severity | None:
        """The worst severity at a frame, None for a frame without findings."""
        return self._worst.get(frame)

    def after(self, frame: int) -> int | None:
        """The next frame with a finding, from the first one again behind the last; None when there is none at all."""
        frames = self._frames
        if not frames:
            return None
        place = bisect_right(frames, frame)
        return frames[place] if place < len(frames) else frames[0]

    def frames(self) -> list[int]:
        """Every frame with a finding, ascending."""
        return self._frames.copy()
