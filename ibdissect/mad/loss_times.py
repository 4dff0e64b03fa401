"""Times at which the capture missed packets, counted per second, so that an hour of losses takes little memory."""

from __future__ import annotations

from ibdissect.bounded import BoundedDict, Dropped
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Time

MAX_SECONDS = 65536


class MissedPackets:
    """Times of packets missing in the capture, for one kind of evidence."""

    def __init__(self, what: str) -> None:
        self.dropped = Dropped(f"seconds with {what}")
        self.seconds = BoundedDict[Time, int](MAX_SECONDS, self.dropped)
        """Number of missing packets by second."""

    def add(self, frame: int, time_ns: int) -> None:
        """Record a missing packet near this frame."""
        second = time_ns // SECOND_NS
        self.seconds.put(second, self.seconds.get(second, 0) + 1, frame, time_ns)

    def remove(self, time_ns: int) -> None:
        """Uncount a missing packet that arrived late."""
        second = time_ns // SECOND_NS
        left = self.seconds.get(second, 0) - 1
        if left > 0:
            self.seconds[second] = left
        else:
            self.seconds.pop(second, None)
