"""Hits that wait for the end of the capture, where `stands` and `severity_at_end` of their rules judge them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ibdissect.bounded import BoundedDict, Dropped, KeptList
from ibdissect.decode import Int

from .rule import Hit, Rule

MAX_WAITING = 49152
"""Hits that wait for the end of the capture, of all rules together. Nobody knows what becomes of further ones: they are not reported."""
KEPT_APART = 64
"""Hits of a flow that are judged one by one at the end of the capture; the last one in a chunk stands for all further ones there."""
MAX_FLOWS = 1 << 18
"""Flows remembered, of all rules together: the finding of each (the next hit of one that was evicted starts a new one), and how many of its
hits were kept apart."""


def apart(flow: Int, before: int = 0) -> Iterator[Int]:
    """The hits of a flow in a chunk one by one, as what becomes of each at the end depends on its frame; the last part has the rest.

    `before`: hits of the flow in earlier chunks that were kept apart."""
    number = max(1, KEPT_APART - before)
    for k in range(min(len(flow), number)):
        yield flow[k : k + 1] if k + 1 < number else flow[k:]


class WaitingHits:
    """The hits that wait, in order of discovery; one per capture."""

    def __init__(self, every_occurrence: bool) -> None:
        """`every_occurrence`: each occurrence is told of, so hits keep their frames, and none counts others."""
        self.every_occurrence = every_occurrence
        self.dropped = Dropped("findings that wait for the end of the capture")
        self.hits: KeptList[tuple[Rule, Hit]] | None = KeptList(MAX_WAITING, self.dropped)
        """None at the end of the capture: nothing waits any more."""
        self.told = 0
        """Of how many of them the frames were told."""
        self.of_flows = BoundedDict[tuple[str, bytes | None], int](MAX_FLOWS)
        """Hits of each flow that were kept apart."""
        self.counting = BoundedDict[tuple[str, Any], Hit](MAX_WAITING)
        """The hit that waits for each flow whose hits are `alike`."""

    @property
    def is_full(self) -> bool:
        """Whether further hits are not kept."""
        return self.hits is not None and len(self.hits) >= self.hits.limit

    def keep(self, rule: Rule, hit: Hit) -> None:
        """Keep a hit until the end of the capture."""
        if not self.every_occurrence:
            hit.frames = ()
        if self.hits is not None:
            self.hits.keep((rule, hit), hit.frame, hit.time_ns)

    def newly(self) -> list[int]:
        """Frames of the hits that began to wait since the last call."""
        fresh = [hit.frame for _, hit in (self.hits or [])[self.told :]]
        self.told += len(fresh)
        return fresh

    def counting_hit(self, flow: tuple[str, Any]) -> Hit | None:
        """The first hit of a flow, which stands or falls with all of it and counts them."""
        return None if self.every_occurrence else self.counting.get(flow)

    def is_counted(self, rule: Rule, hit: Hit) -> bool:
        """Whether the first hit of the flow counts a hit that is to wait; else this one is the first."""
        if not rule.alike or hit.key is None or self.every_occurrence:
            return False
        first = self.counting.get((rule.code, hit.key))
        if first is None:
            self.counting.put((rule.code, hit.key), hit)
            return False
        first.count += hit.count
        return True

    def one_by_one(self, flow: tuple[str, bytes | None], hits: Int) -> Iterator[Int]:
        """The hits of a flow in a chunk `apart`, after those of earlier chunks."""
        before = self.of_flows.get(flow, 0)
        self.of_flows.put(flow, before + min(len(hits), KEPT_APART))
        return apart(hits, before)

    def end(self, unreliable: Collection[str]) -> list[tuple[Rule, Hit]]:
        """The capture has ended: all hits but those of `unreliable` rules; from now on nothing waits."""
        found = [one for one in self.hits or () if one[0].code not in unreliable]
        self.hits = None
        return found
