"""PSNs that a stream skipped, and their fate. The rare steps of `psn_order`, and counts of PSNs for rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ibdissect.bounded import Dropped
from ibdissect.wire.headers import PSNS

FAR = 1 << 16
"""A PSN that is farther away than this belongs to a new connection: no sender has so many packets in flight."""
MAX_GAPS, MAX_ALL_GAPS = 64, 131072
"""Gaps remembered per stream, and of all streams together; the stream's oldest is evicted first."""
MTUS = (256, 512, 1024, 2048, 4096)
SHORTEST_TIMEOUT_NS = 1_000_000
"""Copies that follow faster were duplicated in the network, not retransmitted."""


def distance(a: int, b: int) -> int:
    """How far PSN (or MSN) `a` is ahead of `b`; negative if it is behind."""
    return ((a - b + (PSNS >> 1)) & (PSNS - 1)) - (PSNS >> 1)


@dataclass(slots=True)
class Gap:
    """A gap: PSNs that were skipped and have not arrived so far."""

    start: int
    count: int
    frame: int
    """The packet after the gap."""
    time_ns: int
    before: int
    """Frame of the packet before the gap."""
    requested: bool = False
    """The responder requested these PSNs (NAK sequence error)."""
    requested_ns: int = 0
    """Time of its latest request."""
    passed: bool = False
    """The requester repeated a later PSN, which it does only after these, or went back before them and so sends them again: the capture
    missed them."""


@dataclass(slots=True)
class GapTotal:
    """How many gaps all streams together remember, and how many were evicted."""

    dropped: Dropped = field(default_factory=lambda: Dropped("gaps of one stream"))
    count: int = 0


@dataclass(slots=True)
class Told:
    """What all streams of a capture share: what happened in the present window, and the room for gaps."""

    events: list[list[Any]] = field(default_factory=list)
    """Kind, stream, frame, time, PSN, and what else each tells."""
    begun: list[Any] = field(default_factory=list)
    """New streams."""
    gaps: GapTotal = field(default_factory=GapTotal)
    window: int = 1
    """Number of the window."""
    count: int = 0
    """Streams so far."""
    left_out: int = 0
    """Packets of streams for which there was no room."""

    def taken(self) -> tuple[list[Any], list[list[Any]]]:
        """New streams and events; begins the next window."""
        found = self.begun, self.events
        self.begun, self.events = [], []
        self.window += 1
        return found


def added(gaps: list[Gap], total: GapTotal, count: int, frame: int, time_ns: int) -> None:
    """A stream has so many gaps more: count them, and evict its oldest ones if there are too many."""
    total.count += count
    while gaps and (len(gaps) > MAX_GAPS or total.count > MAX_ALL_GAPS):
        gaps.pop(0)
        total.count -= 1
        total.dropped.add(frame, time_ns)


def filled(gaps: list[Gap], total: GapTotal, psn: int, frame: int, time_ns: int) -> bool:
    """Remove a PSN from its gap, which may leave two; False if it is in none."""
    for i, gap in enumerate(gaps):
        at = distance(psn, gap.start)
        if 0 <= at < gap.count:
            rest = replace(gap, start=(psn + 1) % PSNS, count=gap.count - at - 1)
            gap.count = at
            left = [part for part in (gap, rest) if part.count]
            gaps[i : i + 1] = left
            added(gaps, total, len(left) - 1, frame, time_ns)
            return True
    return False


def went_back(gaps: list[Gap], psn: int, time_ns: int) -> None:
    """The requester repeats a PSN: what it tells of its gaps."""
    for gap in gaps:
        gap.passed |= distance(gap.start, psn) < 0 or time_ns - gap.time_ns >= SHORTEST_TIMEOUT_NS


def asked_for(gaps: list[Gap], psn: int, time_ns: int) -> None:
    """The responder asks for a PSN."""
    for gap in gaps:
        if -gap.count < distance(gap.start, psn) <= 0:
            gap.requested, gap.requested_ns = True, time_ns
