"""Requests and answers of management counted by who asks whom, with their response times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode import Int
from ibdissect.decode.addresses import End
from ibdissect.decode.equal_rows import by_value, groups
from ibdissect.decode.identity import Code, Index
from ibdissect.wire.mad import short_class_name
from ibdissect.wire.numbers import DIRECTED

from .request_outcomes import AnsweredMany, Request, Unanswered
from .transactions import Transactions

MAX_EXCHANGES = 65536
"""Most pairs of ends, and kinds of requests, that are counted."""
KEPT = 4096
"""Exchanges that a snapshot shows, the busiest ones."""
ROUTES = "directed routes"
BUCKETS_PER_OCTAVE = 16
"""Buckets of the response-time histogram are 4.4 % wide."""
FASTEST = 9
"""First octave drawn: 512 ns."""
OCTAVES = 26
"""Octaves drawn: up to 34 s."""
Name = End | str
"""One end, or a description of many."""
K = TypeVar("K", bound=Hashable)

PERCENTILES = (50, 90, 95, 99)
"""The percentiles of times that are written, everywhere the same: the time that this share of the answers did not exceed (nearest rank)."""
MAX_EXACT = 1 << 18
"""Times kept exactly by one owner; further ones count in a histogram only."""
ERROR = 2 ** (1 / BUCKETS_PER_OCTAVE) - 1
"""By how much a percentile from the histogram may be too large: 4.4 %. It is never too small."""


class ExactTimesRoom(Record):
    """How many more times may be kept exactly."""

    left: int = field(default_factory=lambda: MAX_EXACT)


class ResponseTimes(Record):
    """Response times in nanoseconds: exactly while there is room, and as a histogram."""

    buckets: Counter[Index]
    count: int = 0
    least: int = 0
    most: int = 0
    room: ExactTimesRoom = field(default_factory=ExactTimesRoom)
    """Shared by the times of one owner."""
    kept: list[Int] | None = field(default_factory=list)
    """All times; None if there was no room for some."""

    def add(self, ns: Int) -> None:
        """Add response times, int64[n]; those below 0 are left out: the clock was set back, so they are not known."""
        ns = ns[ns >= 0]
        if not len(ns):
            return
        least, most = int(ns.min()), int(ns.max())
        self.least = least if not self.count else min(self.least, least)
        self.most = max(self.most, most)
        self.count += len(ns)
        if self.kept is not None:
            self.room.left -= len(ns)
            self.kept.append(ns)
            if self.room.left < 0:
                self.room.left += sum(map(len, self.kept))
                self.kept = None
        buckets, counts = np.unique(bucket_of(ns), return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self.buckets[bucket] += count

    @property
    def exact(self) -> bool:
        """Whether percentiles are exact; otherwise they are too large by up to ERROR."""
        return self.kept is not None

    def percentile(self, share: float) -> int:
        """The time in nanoseconds that this share of the answers did not exceed: the nearest rank."""
        wanted = max(1, math.ceil(round(share * self.count, 6)))
        if self.kept is not None and self.count:
            if len(self.kept) > 1:
                self.kept = [np.concatenate(self.kept)]
            return int(np.partition(self.kept[0], wanted - 1)[wanted - 1])
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return int(min(max(2 ** ((bucket + 1) / BUCKETS_PER_OCTAVE), self.least), self.most))
        return self.most

    def percentiles(self) -> dict[str, Any]:
        """PERCENTILES as `p50_ns` ..., None if there are no times, and how exact they are."""
        found = {f"p{share}_ns": self.percentile(share / 100) if self.count else None for share in PERCENTILES}
        return found | {"percentile_error": 0 if self.exact else round(ERROR, 3)}

    def copy(self) -> ResponseTimes:
        """A copy that no longer changes."""
        return replace(self, buckets=self.buckets.copy(), kept=self.kept and [*self.kept])

    def octaves(self) -> list[int]:
        """Answers by octave of response time: OCTAVES numbers; times outside count in the first or last."""
        found = [0] * OCTAVES
        for bucket, count in self.buckets.items():
            found[min(max(bucket // BUCKETS_PER_OCTAVE - FASTEST, 0), OCTAVES - 1)] += count
        return found


def bucket_of(ns: Int) -> Int:
    """The bucket of each time, of which BUCKETS_PER_OCTAVE are an octave."""
    found: Int = (np.log2(ns + 1.0) * BUCKETS_PER_OCTAVE).astype(np.int64)
    return found


class Kind(NamedTuple):
    """What is asked for."""

    mgmt_class: Code
    method: Code
    attribute: Code


class Pair(NamedTuple):
    """Who asks whom, with requests of which class."""

    requester: Name
    responder: Name
    mgmt_class: Code


class Exchange(Record):
    """Requests and answers of one management class between two addresses, or of one kind."""

    requester: Name
    responder: Name
    mgmt_class: int
    first_frame: int = 0
    answered: int = 0
    unanswered: int = 0
    retries: int = 0
    """Tries beyond the first."""
    times: ResponseTimes = field(default_factory=lambda: ResponseTimes(Counter()))
    """From the last try to the answer."""
    first_times: ResponseTimes = field(default_factory=lambda: ResponseTimes(Counter()))
    """From the first try to the answer."""

    @property
    def requests(self) -> int:
        """Requests that were answered or given up."""
        return self.answered + self.unanswered

    @property
    def kind(self) -> str:
        """The common name of the management class."""
        return short_class_name(self.mgmt_class)

    def quantile(self, share: float) -> int | None:
        """Nanoseconds within which this share of the answers came; None without answers."""
        return self.times.percentile(share) if self.times.count else None

    def answer(self, event: AnsweredMany, index: Int) -> None:
        """Count answered requests."""
        self.answered += len(index)
        since_last = event.latency_ns[index]
        self.times.add(since_last)
        waited = np.zeros_like(since_last)
        if event.singles:
            for k, i in enumerate(index.tolist()):
                if (request := event.singles.get(i)) is not None:
                    self.retries += request.tries - 1
                    waited[k] = request.last_ns - request.time_ns
        self.first_times.add(since_last + waited)

    def give_up(self, request: Request) -> None:
        """Count an unanswered request."""
        self.unanswered += 1
        self.retries += request.tries - 1

    def copy(self) -> Exchange:
        """A copy that no longer changes."""
        return replace(self, times=self.times.copy(), first_times=self.first_times.copy())


class Exchanges:
    """Exchanges of a capture, counted from the events of `Transactions`."""

    def __init__(self) -> None:
        dropped = Dropped("kinds of requests, or pairs of managers and agents")
        self._room = ExactTimesRoom()
        self.pairs = KeptDict[Pair, Exchange](MAX_EXCHANGES, dropped)
        """By requester, responder and class."""
        self.kinds = KeptDict[Kind, Exchange](MAX_EXCHANGES, dropped)

    def count(self, event: object, *, pairs: bool = False) -> None:
        """Count an event by kind, and by pair of ends if wanted."""
        if isinstance(event, AnsweredMany):
            kinds = event.mgmt_class.astype(np.int64) << 24 | event.request_method.astype(np.int64) << 16 | event.attribute
            for kind, index in by_value(kinds):
                self._answered(self.kinds, Kind(kind >> 24, kind >> 16 & 0xFF, kind & 0xFFFF), Pair("", "", kind >> 24), event, index)
            for pair, index in sorted(_by_ends(event), key=lambda found: int(found[1][0])) if pairs else ():
                self._answered(self.pairs, pair, pair, event, index)
        elif isinstance(event, Unanswered):
            self._unanswered(event.request, pairs)

    def finish(self, transactions: Transactions, *, pairs: bool = False) -> None:
        """Call at the end of the capture: requests still open count as unanswered."""
        for request in transactions.open_requests():
            self._unanswered(request, pairs)

    def _made(self, pair: Pair, frame: int) -> Exchange:
        return Exchange(
            *pair, frame, times=ResponseTimes(Counter(), room=self._room), first_times=ResponseTimes(Counter(), room=self._room)
        )

    def _answered(self, found: KeptDict[K, Exchange], key: K, pair: Pair, event: AnsweredMany, index: Int) -> None:
        frame = int(event.request_frames[index[0]])
        if one := found.get_or_make(key, partial(self._made, pair, frame), frame, int(event.times_ns[index[0]]), len(index)):
            one.answer(event, index)

    def _unanswered(self, request: Request, pairs: bool) -> None:
        kind, pair = Kind(request.mgmt_class, request.method, request.attribute), Pair(*ends_of(request), request.mgmt_class)
        when = request.frame, request.time_ns
        one = self.kinds.get_or_make(kind, partial(self._made, Pair("", "", request.mgmt_class), request.frame), *when)
        two = self.pairs.get_or_make(pair, partial(self._made, pair, request.frame), *when) if pairs else None
        for found in (one, two):
            if found is not None:
                found.give_up(request)

    def busiest(self) -> list[Exchange]:
        """Copies by pair of ends, the busiest first."""
        return [found.copy() for found in sorted(self.pairs.values(), key=lambda found: -found.requests)[:KEPT]]

    def busiest_kinds(self) -> list[tuple[Kind, Exchange]]:
        """Copies by class, method and attribute, the busiest first."""
        found = sorted(self.kinds.items(), key=lambda item: (-item[1].requests, item[0]))[:KEPT]
        return [(kind, exchange.copy()) for kind, exchange in found]


def ends_of(request: Request) -> tuple[Name, Name]:
    """Requester and responder; all directed routes share one name."""
    return request.source, ROUTES if request.mgmt_class == DIRECTED else request.target


def _by_ends(event: AnsweredMany) -> Iterator[tuple[Pair, Int]]:
    """Requester, responder and class, and the indices of their answers."""
    index = event.by_columns
    source, target = event.mads.source.take(event.asked[index]), event.mads.destination.take(event.asked[index])
    classes = event.mgmt_class[index]
    to = [np.where(classes == DIRECTED, 0, column) for column in (target.size, target.high, target.low)]
    first, group = groups([classes, source.size, source.high, source.low, source.network, *to])
    requesters, responders = source.take(first).addresses(), target.take(first).addresses()
    for number, members in by_value(group):
        mgmt_class = int(classes[first[number]])
        yield Pair(requesters[number], ROUTES if mgmt_class == DIRECTED else responders[number], mgmt_class), index[members]
    for i, request in event.singles.items():
        yield Pair(*ends_of(request), request.mgmt_class), np.array([i])
