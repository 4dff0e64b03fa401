"""Connections that several points captured, each once, with the point that tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.identity import Index
from ibdissect.diagnosis.connection import BOTH, CANNOT_TELL, SEVERITIES, Connection, Diagnosis
from ibdissect.diagnosis.text import ORDER

from .clocks import Clocks

NEAR_NS = 1_000_000
"""Two sightings of one connection overlap in time, or are at most so far apart."""
MAPPED = "::ffff:"
"""What the text of a GID begins with that holds an IPv4 address."""
PROVED = frozenset({
    "refused", "duplicate-qp-after-restart", "remote-access-error", "remote-operational-error", "remote-invalid-request", "mtu-mismatch",
    "psn-reused", "icrc-wrong-at-sender",
})  # fmt: skip
"""Causes that packets prove wherever they are captured; the others rest on what is missing, which only the requester's side shows."""
LOSS, REORDERING, TIMEOUT = "slow-by-loss", "slow-by-reordering", "slow-by-timeout"


def plain(address: str) -> str:
    """An address as all points write it: an IPv4-mapped GID is that IPv4 address."""
    return address.removeprefix(MAPPED)


class Same(Record):
    """One connection, as several points captured it."""

    at: dict[Index, Connection]
    """By the number of the point."""
    spans: dict[Index, tuple[int, int]] = field(default_factory=dict)
    """When each point saw its first and its last frame, by the clock of the first point."""

    def teller(self, places: Sequence[int], *, lost: bool) -> int:
        """The point whose verdict counts. `places`: of each point on the way of the requests, from the requester on; `lost`: whether
        requests are known to be lost between points.

        What is missing shows at the requester's side: it gave up, or waited for a timer, only if it got no answer. A fault that packets
        prove may be seen at any point. What overtook shows behind the place where it did.
        """
        both = [i for i, one in self.at.items() if one.directions == BOTH and one.cause != CANNOT_TELL]
        known = both or [i for i, one in self.at.items() if one.cause != CANNOT_TELL] or [*self.at]
        first = min(known, key=lambda i: (places[i], i))
        proved = [i for i in known if self.at[i].cause in PROVED and rank(self.at[i]) < rank(self.at[first])]
        if proved:
            return min(proved, key=lambda i: (rank(self.at[i]), places[i], i))
        late = [i for i in known if self.at[i].cause == REORDERING]
        return late[0] if self.at[first].cause == LOSS and late and not lost else first


def rank(one: Connection) -> tuple[int, int]:
    """The worst verdict has the lowest."""
    return ORDER[one.verdict], SEVERITIES.get(one.severity, 3)


def same_connections(diagnoses: Sequence[Diagnosis], clocks: Clocks) -> list[Same]:
    """Each connection once, in the order of the first points that have it: by its ends, its set-up, and when it was there."""
    found: list[Same] = []
    by_ends: dict[frozenset[str], list[Same]] = {}
    for i, diagnosis in enumerate(diagnoses):
        spans = _spans(i, diagnosis.connections, clocks)
        fresh: list[Same] = []
        open_: list[tuple[tuple[int, int, int], int, Same]] = []
        for number, (one, span) in enumerate(zip(diagnosis.connections, spans, strict=True)):
            for other in by_ends.get(_ends(one), ()):
                if (how := _alike(one, span, other)) is not None:
                    open_.append((how, number, other))
        placed: set[Index] = set()
        for _, number, other in sorted(open_, key=lambda each: each[:2], reverse=True):
            if number not in placed and i not in other.at:
                placed.add(number)
                other.at[i], other.spans[i] = diagnosis.connections[number], spans[number]
        for number, (one, span) in enumerate(zip(diagnosis.connections, spans, strict=True)):
            if number not in placed:
                fresh.append(Same({i: one}, {i: span}))
        for other in fresh:
            by_ends.setdefault(_ends(other.at[i]), []).append(other)
        found += fresh
    return found


def _ends(one: Connection) -> frozenset[str]:
    return frozenset(plain(end.address) for end in one.ends)


def _spans(point: int, connections: Sequence[Connection], clocks: Clocks) -> list[tuple[int, int]]:
    """When each was there, by the clock of the first point."""
    frames = np.array([frame for one in connections for frame in (one.first_frame, one.last_frame)], np.int32)
    times = np.array([time for one in connections for time in (one.start_ns, one.last_ns)], np.int64)
    order = np.argsort(frames, kind="stable")
    found = np.empty(len(frames), np.int64)
    found[order] = clocks.on_reference(point, frames[order], times[order])
    return [(int(start), int(end)) for start, end in found.reshape(-1, 2)]


def _alike(one: Connection, span: tuple[int, int], other: Same) -> tuple[int, int, int] | None:
    """How well a connection fits one that another point has: the set-up, known queue pairs, time; None: it is another one."""
    at, seen = next(iter(other.at.items()))[1], next(iter(other.spans.values()))
    ids = one.set_up.id, at.set_up.id
    if None not in ids and ids[0] != ids[1]:
        return None
    pairs = _qpns(one), _qpns(at)
    known = [(mine, pairs[1][address]) for address, mine in pairs[0].items() if mine is not None and pairs[1].get(address) is not None]
    together = min(span[1], seen[1]) - max(span[0], seen[0])
    if any(mine != theirs for mine, theirs in known) or together < -NEAR_NS or not (known or None not in ids):
        return None
    return int(None not in ids), len(known), together


def _qpns(one: Connection) -> Mapping[str, int | None]:
    return {plain(end.address): end.qpn for end in one.ends}
