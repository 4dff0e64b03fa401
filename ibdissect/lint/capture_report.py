"""What was the result of checking one capture?"""

from __future__ import annotations

from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.chunk import Member
from ibdissect.wire.text import counted

from .finding import Finding


class CaptureReport(Record, kw_only=True):
    """The result of checking one capture."""

    path: str
    members: tuple[Member, ...] = ()
    """The files of a set; empty for a single file."""
    frames: int = 0
    checked: int = 0
    """Frames that were checked: all, or those that -Y and --frames select."""
    infiniband: int = 0
    """Frames with InfiniBand or RoCE headers."""
    undecoded: int = 0
    """Frames too short for their headers, or otherwise malformed."""
    unnumbered: int = 0
    """Keys without a number of their own, because there are too many."""
    first_ns: int = 0
    last_ns: int = 0
    link_types: list[str] = field(default_factory=list)
    status: str = "ok"
    """ok, truncated, damaged, unreadable, failed (a rule raised, some of its findings may be missing), or interrupted
    (only the first `frames` were checked)."""
    error: str | None = None
    """Why it is unreadable, or what failed; the exit status is 2."""
    phases: int | None = None
    """1 for a source that can be read only once, such as a pipe; otherwise None. Findings do not depend on it."""
    findings: list[Finding] = field(default_factory=list)
    by_rule: dict[str, int] = field(default_factory=dict)
    """Exact number of findings by code, not limited by --max-findings."""
    counts: dict[str, int] = field(default_factory=dict)
    """Exact number of findings by severity."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by rule, with --timing."""

    captures: int = 1
    """Number of captures that were added up."""

    @property
    def remarkable(self) -> bool:
        """Whether the report says more than its counts: an error, an interruption, or doubts."""
        return self.error is not None or self.status == "interrupted" or bool(self.doubts)

    def add(self, other: CaptureReport) -> None:
        """Add the counts of another capture. Of all findings, only one of the most severe is kept."""
        for name in ("captures", "frames", "checked", "infiniband", "undecoded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.by_rule, other.by_rule), (self.counts, other.counts), (self.seconds, other.seconds)):
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0) + value  # type: ignore[assignment]
        self.findings = sorted([*self.findings, *other.findings], key=lambda finding: -finding.severity.rank)[:1]

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt the findings, or their absence."""
        found = []
        if self.status in ("unreadable", "interrupted"):
            pass
        elif not self.frames:
            found.append("the capture holds no frames")
        elif 2 * self.undecoded > self.frames:
            found.append(f"{self.undecoded} of {self.frames} frames could not be decoded")
        elif not self.infiniband and "CAP018" not in self.by_rule:  # both say the same
            found.append(f"no InfiniBand or RoCE was found in {counted(self.frames, 'frame')}")
        if self.unnumbered:
            found.append(f"{self.unnumbered} keys have no number of their own (shown as #?): there are too many of their kind")
        return found

    @property
    def incomplete(self) -> str | None:
        """Why findings may be missing; None if the check was completed."""
        if self.status != "interrupted":
            return self.error
        return f"interrupted: only frames 1 to {self.frames} were checked" if self.frames else "interrupted: it was not checked"
