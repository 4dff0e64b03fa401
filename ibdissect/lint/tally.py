"""What did one rule find, and how much of it is kept?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from .finding import Finding, Severity


class Tally:
    """What one rule found in a capture: the exact number, and the first findings."""

    def __init__(self, most: int | None, on_finding: Callable[[Finding], None] | None) -> None:
        """`most` findings are kept (None: all); `on_finding` gets each of them."""
        self.most, self.on_finding = most, on_finding
        self.count = 0
        self.seconds = 0.0
        self.findings: list[Finding] = []
        self.lowered = Counter[Severity]()
        """Number of findings with a severity lower than the rule's, by severity."""

    def add(self, number: int) -> int:
        """Count new findings; return how many of them to keep."""
        self.count += number
        return number if self.most is None else min(number, max(0, self.most - len(self.findings)))

    def keep(self, finding: Finding) -> None:
        """Keep a finding for which there is room."""
        self.findings.append(finding)
        if self.on_finding is not None:
            self.on_finding(finding)

    def join(self, other: Tally) -> None:
        """Take over what the same rule found in other packets."""
        self.count += other.count
        self.seconds += other.seconds
        self.lowered += other.lowered
        self.findings = sorted(self.findings + other.findings, key=lambda finding: finding.frame)[: self.most]
