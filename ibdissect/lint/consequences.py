"""Which findings are only consequences of another finding? One fault gives one finding, which lists its consequences."""

from __future__ import annotations

from collections.abc import Iterable

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped

from .finding import Finding, Related
from .rule import Rule

MAX_CAUSES = 16384


class Consequences:
    """Frames at which rules report a cause (`Rule.explains`). One per capture."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.dropped = Dropped("frames with a finding that explains another")
        self.causes = {code: BoundedDict[int, Finding | None](MAX_CAUSES, self.dropped) for rule in rules for code in rule.explains}
        """By code of the consequence: frame -> the cause's finding, None if it is at another frame or already lists it."""
        self._first, self._size = 0, 0
        self._present: dict[str, bytearray] = {}
        """By code: which frames of the present chunk have a cause, also those that `causes` evicted."""

    def begin(self, first: int, size: int) -> None:
        """A chunk begins with frame `first`; 0 frames: none is present."""
        self._first, self._size = first, size
        self._present.clear()

    def note(self, rule: Rule, frame: int, finding: Finding | None = None) -> None:
        """Record that a rule reports at a frame; `finding` if this made a new one."""
        for code in rule.explains:
            causes, row = self.causes[code], frame - self._first
            if 0 <= row < self._size:
                self._present.setdefault(code, bytearray(self._size))[row] = True
            if finding is not None or frame not in causes:
                causes.put(frame, finding, frame)

    def explained(self, rule: Rule, frame: int) -> bool:
        """Whether a rule's report at a frame is only a consequence; if so, the cause's finding lists it."""
        causes, row = self.causes.get(rule.code), frame - self._first
        present = self._present.get(rule.code)
        if causes is None or not (frame in causes or (present is not None and 0 <= row < self._size and present[row])):
            return False
        cause = causes.get(frame)
        if cause is not None:
            cause.related = (*cause.related, Related(frame, f"therefore {rule.code} {rule.name}"))
            causes[frame] = None
        return True
