"""What a rule found: where, what, how it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is; ordered by `rank`."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """3 for error, 2 for warning, 1 for info."""
        return {"error": 3, "warning": 2, "info": 1}[self.value]


class Evidence(StrEnum):
    """How a finding is known."""

    SEEN = "seen"
    """The packet itself proves it."""
    LEARNT = "learnt"
    """It contradicts state that the capture showed; `related` names the frames."""
    INFERRED = "inferred"
    """It follows from something learnt later or only likely."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a frame: `length` bytes from `offset` of frame number `frame`."""

    frame: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Related:
    """Another frame that has to do with the finding, and why."""

    frame: int
    why: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A key value in a finding's arguments; a report shows its number, or the value with --show-keys."""

    kind: str
    value: int
    bits: int = 64


@dataclass(slots=True, kw_only=True)
class Finding:
    """One fault, at its first frame."""

    code: str
    name: str
    severity: Severity
    frame: int
    time_ns: int
    template: str
    """Message with {placeholders}; `arguments` fills them."""
    arguments: dict[str, Any] = field(default_factory=dict)
    capture: str = ""
    field: str | None = None
    value: Any = None
    spans: tuple[Span, ...] = ()
    related: tuple[Related, ...] = ()
    evidence: Evidence = Evidence.SEEN
    count: int = 1
    reference: str = ""

    def secrets(self) -> list[Secret]:
        """Key values that the message or the value shows."""
        return [v for v in (*self.arguments.values(), self.value) if isinstance(v, Secret)]
