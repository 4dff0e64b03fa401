"""What came of checking one capture."""

from __future__ import annotations

from dataclasses import field

from ibdissect.record import record

from .finding import Finding


@record(eq=True, frozen=False, kw_only=True)
class CaptureReport:
    """What came of checking one capture."""

    path: str
    frames: int = 0
    checked: int = 0
    """Frames that were judged: all, or those that -Y and --frames leave."""
    first_ns: int = 0
    last_ns: int = 0
    link_types: list[str] = field(default_factory=list)
    status: str = "ok"
    """ok, truncated, damaged, unreadable, or interrupted: only `frames` were looked at."""
    error: str | None = None
    phases: int | None = None
    """1 for a pipe: judged in one pass, as knowledge came."""
    findings: list[Finding] = field(default_factory=list)
    by_rule: dict[str, int] = field(default_factory=dict)
    """Exact number of findings by code, beyond --max-findings too."""
    counts: dict[str, int] = field(default_factory=dict)
    """Exact number of findings by severity."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by rule, with --timing."""

    @property
    def incomplete(self) -> str | None:
        """Why findings may be missing that a whole check would have made; None for a check that came to its end."""
        if self.status != "interrupted":
            return self.error
        return f"interrupted: only frames 1 to {self.frames} were checked" if self.frames else "interrupted: it was not checked"
