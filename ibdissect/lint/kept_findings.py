"""Which findings are kept: those of selected frames, and the first ones of each rule, of which all are counted."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ibdissect.decode import ChunkTable

from .finding import Finding, Severity


class SelectedFrames:
    """The selected frames of all chunks so far, one bit each; without a selection all frames are reported."""

    def __init__(self) -> None:
        self.chunks: list[tuple[int, int, npt.NDArray[np.uint8]]] = []
        """First frame, length and bits of each chunk with only some frames selected."""

    def choose(self, table: ChunkTable, selected: npt.NDArray[np.bool_]) -> None:
        """Report only these frames of a chunk, bool[n]; chunks come in order."""
        self.chunks.append((table.chunk.first, len(selected), np.packbits(selected)))

    def __contains__(self, frame: int) -> bool:
        """Whether to report a frame, also one of an earlier chunk; frames of other chunks are reported."""
        i = bisect_right(self.chunks, frame, key=lambda chunk: chunk[0]) - 1 if self.chunks else -1
        if i < 0:
            return True
        first, count, bits = self.chunks[i]
        row = frame - first
        return row >= count or bool(bits[row >> 3] >> (7 - (row & 7)) & 1)


class RuleTally:
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
        return number if self.most is None else min(number, self.most - len(self.findings))

    def keep(self, finding: Finding) -> None:
        """Keep a finding for which there is room."""
        self.findings.append(finding)
        if self.on_finding is not None:
            self.on_finding(finding)

    def join(self, other: RuleTally) -> None:
        """Take over what the same rule found in other packets."""
        self.count += other.count
        self.seconds += other.seconds
        self.lowered += other.lowered
        self.findings = sorted(self.findings + other.findings, key=lambda finding: finding.frame)[: self.most]


class Unreported(RuleTally):
    """That of a rule which only explains what others find."""

    def add(self, number: int) -> int:
        return number

    def keep(self, finding: Finding) -> None:
        pass
