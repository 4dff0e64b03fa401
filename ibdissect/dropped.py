"""What did a bound make us forget? Every state that grows with a capture has one, and says so here when it is reached."""

from __future__ import annotations

from ibdissect.record import record


@record(frozen=False)
class Dropped:
    """How much of one kind was forgotten, or not taken in; rule CAP016 tells it. Who may forget holds one, or several, as `dropped`."""

    what: str
    """Plural: of what there were too many."""
    count: int = 0
    frame: int = 0
    """Where it happened first."""
    time_ns: int = 0

    def add(self, frame: int, time_ns: int, count: int = 1) -> None:
        """Another one that is not known any more, at a frame."""
        if not self.count:
            self.frame, self.time_ns = frame, time_ns
        self.count += count
