"""Where do the SMPs of a chunk go? Each directed route is looked up once for all SMPs that take it."""

from __future__ import annotations

import numpy as np

from ibdissect.table.locate import Bool, Int
from ibdissect.table.rows import groups
from ibdissect.wire import numbers

from .nodes import Hop
from .routes import Routes
from .smps import Smps


class Places:
    """The port of every SMP of a chunk, as far as routes are known.

    A route is valid from the start of the chunk if known before, otherwise after the first NodeInfo that returns along it.
    The follower must ensure that meanwhile no route changes its end and no node is dropped.
    """

    def __init__(self, smps: Smps, routes: Routes) -> None:
        self.smps, self.routes = smps, routes
        n = len(smps.rows)
        pure = np.flatnonzero(smps.pure)
        words = np.ascontiguousarray(smps.paths[pure].view(np.uint64).T)
        first, which = groups([smps.transactions[pure] >> np.uint64(32), *words])
        group = np.full(n, -1, np.int64)
        group[pure] = which
        self.group: Int = group
        """Number of each SMP's route; -1 if it is not directed all the way."""
        samples = pure[first].tolist()
        self.ways = [(smps.high(i), smps.path(i)) for i in samples]
        """Origin and path of each route."""
        self.hops: list[Hop | None] = [routes.end_of(*way) for way in self.ways]
        """Where each route leads."""
        self._slots = [hop.node.slot if hop is not None else -1 for hop in self.hops]
        self._entered = [hop.entered if hop is not None else 0 for hop in self.hops]
        """Slot and port number, copied when the place became sure: a route that changes modifies its `Hop`."""
        node_infos = np.flatnonzero(smps.pure & smps.answers & (smps.attribute == numbers.NODE_INFO))
        since = np.full(len(first) + 1, n, np.int64)
        since[group[node_infos[::-1]]] = node_infos[::-1]
        since[:-1][np.array([hop is not None for hop in self.hops], np.bool_)] = -1
        since[-1] = n
        self.sure: Bool = np.arange(n) > since[group]
        """SMPs whose place is known once all earlier SMPs have been processed, bool[n]."""
        self.missed = False
        """A route is still unknown although NodeInfo returned along it."""
        self._own: list[tuple[int, int, int]] = []
        self.slot: Int = np.full(n, -1, np.int64)
        """Slot of the node addressed or answering, -1 if unknown; valid after `settle`."""
        self.entered: Int = np.zeros(n, np.int64)
        """Number of the port through which the SMP entered."""

    def put(self, i: int, hop: Hop) -> None:
        """Set the place of SMP `i`."""
        self._own.append((i, hop.node.slot, hop.entered))

    def learn_route(self, group: int) -> None:
        """NodeInfo returned along a route (-1: not a directed one): look the route up."""
        if group >= 0 and self.hops[group] is None and self.look_up(group) is None:
            self.missed = True

    def look_up(self, group: int) -> Hop | None:
        """Look a route up again."""
        hop = self.routes.end_of(*self.ways[group])
        if hop is not None:
            self.hops[group], self._slots[group], self._entered[group] = hop, hop.node.slot, hop.entered
        return hop

    def settle(self, until: int) -> None:
        """Fill in `slot` and `entered` for sure places before `until` and for those set by `put`; clears `sure`."""
        index = np.flatnonzero(self.sure[:until])
        group = self.group[index]
        self.slot[index], self.entered[index] = np.array(self._slots, np.int64)[group], np.array(self._entered, np.int64)[group]
        self.sure[:] = False
        if self._own:
            at, slot, number = np.array(self._own, np.int64).T
            self.slot[at], self.entered[at] = slot, number
            self._own.clear()
