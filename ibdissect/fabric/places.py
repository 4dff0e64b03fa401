"""Where do the SMPs of a chunk go? Directed routes are looked up once each, and told to all SMPs that take them."""

from __future__ import annotations

import numpy as np

from ibdissect.table.distinct import groups
from ibdissect.table.locate import Bool, Int

from . import columns as c
from .columns import Smps
from .routes import Hop, Routes


class Places:
    """The port of every SMP of a chunk, as far as routes are known.

    A route holds from the chunk's start when it was known before, else from behind the first NodeInfo that comes back along it.
    What must not happen meanwhile is the follower's concern: a route that turns, a node that goes.
    """

    def __init__(self, smps: Smps, routes: Routes) -> None:
        self.smps, self.routes = smps, routes
        n = len(smps.rows)
        pure = np.flatnonzero(smps.pure)
        words = smps.ways[pure].view(np.uint64) if len(pure) else np.zeros((0, 1), np.uint64)
        first, which = groups(list(np.ascontiguousarray(words.T)))
        group = np.full(n, -1, np.int64)
        group[pure] = which
        self.group: Int = group
        """Number of the route of each SMP, -1 for those that are not directed from end to end."""
        samples = pure[first].tolist()
        self.ways = [smps.high(i) + smps.path(i) for i in samples]
        self.hops: list[Hop | None] = [routes.known(way) for way in self.ways]
        """Where each route leads."""
        self._slots = [hop.node.slot if hop is not None else -1 for hop in self.hops]
        self._entered = [hop.entered if hop is not None else 0 for hop in self.hops]
        """Where it led as its place became sure: a route that turns takes its `Hop` along."""
        teaches = np.flatnonzero(smps.pure & smps.answers & (smps.attribute == c.NODE_INFO))
        since = np.full(len(first) + 1, n, np.int64)
        since[group[teaches[::-1]]] = teaches[::-1]
        since[:-1][np.array([hop is not None for hop in self.hops], np.bool_)] = -1
        since[-1] = n
        self.sure: Bool = np.arange(n) > since[group]
        """SMPs whose place is known once all before them are taken in."""
        self.missed = False
        """NodeInfo came back along a route, and it is not known even so."""
        self._own: list[tuple[int, int, int]] = []
        self.slot: Int = np.full(n, -1, np.int64)
        """Slot of the node addressed or answering, -1 where it is not known; when `settle` has been called."""
        self.entered: Int = np.zeros(n, np.int64)
        """Number of the port that the SMP came in by."""

    def put(self, i: int, hop: Hop) -> None:
        """SMP `i` goes there."""
        self._own.append((i, hop.node.slot, hop.entered))

    def taught(self, i: int) -> None:
        """NodeInfo has come back with SMP `i`."""
        group = int(self.group[i])
        if group >= 0 and self.hops[group] is None and self.known(group) is None:
            self.missed = True

    def known(self, group: int) -> Hop | None:
        """Look a route up again."""
        hop = self.routes.known(self.ways[group])
        if hop is not None:
            self.hops[group], self._slots[group], self._entered[group] = hop, hop.node.slot, hop.entered
        return hop

    def settle(self, until: int) -> None:
        """Fill in the sure places before `until`, and those that were put; no further one is sure then."""
        index = np.flatnonzero(self.sure[:until])
        group = self.group[index]
        self.slot[index], self.entered[index] = np.array(self._slots, np.int64)[group], np.array(self._entered, np.int64)[group]
        self.sure[:] = False
        if self._own:
            at, slot, number = np.array(self._own, np.int64).T
            self.slot[at], self.entered[at] = slot, number
            self._own.clear()
