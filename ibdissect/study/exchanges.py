"""Who asked whom, who answered, how fast? Counts what matching management requests with their answers finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from msgspec import structs

from ibdissect.flow.statistics import BUCKETS_PER_OCTAVE, Times
from ibdissect.flow.transactions import Answered, AnsweredMany, Request, Unanswered
from ibdissect.wire.numbers import DIRECTED

from .flows import Name
from .traffic_counts import class_name

MAX_EXCHANGES = 65536
"""Pairs of ends, and kinds of requests, that are kept; further ones are not counted."""
KEPT = 4096
"""The busiest that a snapshot shows."""
ROUTES = "directed routes"
FASTEST = 9
"""First octave drawn: 512 ns."""
OCTAVES = 26
"""Octaves drawn: up to 34 s."""
Kind = tuple[int, int, int]
"""Management class, method, attribute."""


@dataclass(slots=True)
class Exchange:
    """Requests of one management class between two addresses, or of one kind, and their answers."""

    requester: Name
    responder: Name
    mgmt_class: int
    answered: int = 0
    unanswered: int = 0
    retries: int = 0
    """Tries beyond the first."""
    first_frame: int = 0
    times: Times = field(default_factory=lambda: Times(Counter()))

    @property
    def requests(self) -> int:
        """Requests that are decided."""
        return self.answered + self.unanswered

    @property
    def kind(self) -> str:
        """The management class as a person calls it."""
        return class_name(self.mgmt_class)

    def quantile(self, share: float) -> int | None:
        """Nanoseconds within which that share of the answers came; None without answers."""
        return self.times.percentile(share) if self.times.count else None

    def take(self, event: Answered | Unanswered) -> None:
        """One more request is decided."""
        self.retries += event.request.tries - 1
        if isinstance(event, Answered):
            self.answered += 1
            self.times.add(event.latency_ns)
        else:
            self.unanswered += 1

    def copy(self) -> Exchange:
        """A copy that no longer changes."""
        return replace(self, times=structs.replace(self.times, buckets=self.times.buckets.copy()))


def octaves(times: Times) -> list[int]:
    """Answers by the octave of their time: OCTAVES numbers, what is outside counts for the first or last."""
    found = [0] * OCTAVES
    for bucket, count in times.buckets.items():
        found[min(max(bucket // BUCKETS_PER_OCTAVE - FASTEST, 0), OCTAVES - 1)] += count
    return found


class Exchanges:
    """Fed with the events of `flow.Transactions`."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[Name, Name, int], Exchange] = {}
        self._kinds: dict[Kind, Exchange] = {}

    def take(self, event: object) -> None:
        """Take in an event; only answers, and requests that nobody answered, count."""
        if isinstance(event, AnsweredMany):
            for one in event.each():
                self.take(one)
        if not isinstance(event, (Answered, Unanswered)):
            return
        request = event.request
        requester, responder = ends_of(request)
        kind = (request.mgmt_class, request.method, request.attribute)
        pair = (requester, responder, request.mgmt_class)
        found = self._pairs.get(pair)
        if found is None and len(self._pairs) < MAX_EXCHANGES:
            found = self._pairs[pair] = Exchange(*pair, first_frame=request.frame)
        if found is not None:
            found.take(event)
        found = self._kinds.get(kind)
        if found is None and len(self._kinds) < MAX_EXCHANGES:
            found = self._kinds[kind] = Exchange("", "", request.mgmt_class, first_frame=request.frame)
        if found is not None:
            found.take(event)

    def busiest(self) -> list[Exchange]:
        """Copies by pair of ends, the busiest first."""
        return [found.copy() for found in sorted(self._pairs.values(), key=lambda found: -found.requests)[:KEPT]]

    def kinds(self) -> list[tuple[Kind, Exchange]]:
        """Copies by class, method and attribute, the busiest first."""
        found = sorted(self._kinds.items(), key=lambda item: (-item[1].requests, item[0]))[:KEPT]
        return [(kind, exchange.copy()) for kind, exchange in found]


def ends_of(request: Request) -> tuple[Name, Name]:
    """Requester and responder; directed routes share one name, for each is another way."""
    return request.source, ROUTES if request.mgmt_class == DIRECTED else request.target
