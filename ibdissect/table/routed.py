"""Which packets were captured before and after a router? They differ in their hop count and below IP, and have one ICRC."""

from __future__ import annotations

import numpy as np

from ibdissect.capture.scattered import gather
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import BTH, GRH, ICRC

from .locate import Int
from .rows import U64, mix, order_of
from .table import ChunkTable

ROUTED_NS = 1_000_000
"""A router keeps a packet for less. A repetition has its sender's hop count again, however soon it comes."""
MAX_RECENT = 4096
"""Packets before one that it is compared with."""
ROUTERS_READ = (("ip4", IPv4.ttl, IPv4.source, IPv4.destination), ("ip6", IPv6.hop_limit, IPv6.source, IPv6.destination),
                ("grh", GRH.hop_lmt, GRH.sgid, GRH.dgid))  # fmt: skip
"""Headers that routers read: hop count and addresses."""
_NONE = 256
"""In place of a hop count: what has none is routed by nobody."""
_WORD = 4


class Routed:
    """Finds the second and further sightings of routed packets. Feed chunks in order."""

    def __init__(self) -> None:
        self.recent = np.zeros((4, 0), np.int64)
        """The last packets: hash, hop count, frame, time."""
        self.several = False
        """Whether hop counts differ; until they do, nobody has to compare."""
        self.hops = _NONE

    def again(self, table: ChunkTable) -> tuple[Int, Int, Int, Int]:
        """Rows of packets seen before with more hops left, in order; how many frames and nanoseconds before; bytes that are equal."""
        loc, none = table.located, np.empty(0, np.int64)
        at, icrc = loc.at("bth"), loc.at("icrc")
        rows = np.flatnonzero((at >= 0) & (icrc >= 0))
        hops, ends = routes_of(table, rows)
        data = table.chunk.data
        checks = gather(data, icrc[rows], ICRC.size).view(">u4")[:, 0]
        good = (hops < _NONE) & (checks != 0)  # zero: not yet computed when it was captured
        rows, hops, ends, checks = rows[good], hops[good], ends[:, good], checks[good]
        if not len(rows):
            return none, none, none, none
        first = int(hops[0]) if self.hops == _NONE else self.hops
        self.several, self.hops = self.several or bool((hops != first).any()), first
        if not self.several:
            rows, hops, ends, checks = rows[-MAX_RECENT:], hops[-MAX_RECENT:], ends[:, -MAX_RECENT:], checks[-MAX_RECENT:]
        words = [gather(data, at[rows] + offset, _WORD).view(">u4")[:, 0] for offset in range(_WORD, BTH.size, _WORD)]
        marks: U64 = mix([checks, *words, *ends, icrc[rows] - at[rows]])
        now = np.stack([marks.view(np.int64), hops, rows + table.chunk.first, table.chunk.time_ns[rows]])
        known = self.recent.shape[1]
        every = np.concatenate([self.recent, now], axis=1)
        self.recent = every[:, -MAX_RECENT:]
        if not self.several:
            return none, none, none, none
        order = order_of(every[0].view(np.uint64))
        mark, left, frame, time_ns = every[:, order]
        later = np.abs(np.diff(time_ns, prepend=0))
        same = np.zeros(len(order), np.bool_)
        same[1:] = (mark[1:] == mark[:-1]) & (left[1:] < left[:-1]) & (later[1:] <= ROUTED_NS) & (np.diff(order) <= MAX_RECENT)
        mine = np.flatnonzero(same & (order >= known))
        mine = mine[np.argsort(order[mine])]
        found = frame[mine] - table.chunk.first
        return found, frame[mine] - frame[mine - 1], later[mine], icrc[found] + ICRC.size - at[found]


def routes_of(table: ChunkTable, rows: Int) -> tuple[Int, Int]:
    """How many hops packets may still take, by the header that routers read, _NONE without one; the ends of both addresses, int64[2, n]."""
    start, found, ends = table.located.start, np.full(len(rows), _NONE, np.int64), np.zeros((2, len(rows)), np.int64)
    for name, hops, *addresses in reversed(ROUTERS_READ):
        if name not in start:
            continue
        places = start[name][rows]
        there = np.flatnonzero(places >= 0)
        found[there] = table.chunk.data[places[there] + hops.bit // 8]
        for i, address in enumerate(addresses):
            last = (address.bit + address.bits) // 8 - _WORD
            ends[i, there] = gather(table.chunk.data, places[there] + last, _WORD).view(">u4")[:, 0]
    return found, ends
