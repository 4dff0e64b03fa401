"""Which SubnSets were never answered, and which nodes may they have changed? Which SubnGets, and which nodes may have answered unseen?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import ClassVar

from ibdissect.fabric import FabricFollower
from ibdissect.fabric.nodes import Node
from ibdissect.flow.requests import Request
from ibdissect.flow.transactions import Transactions
from ibdissect.wire.numbers import GET, PERMISSIVE, SET, SMP_CLASSES

PATH_AT = 4
"""Offset of the path in `Request.route`, behind both LIDs of the directed route."""
PURE = PERMISSIVE.to_bytes(2, "big") * 2
Frames = tuple[list[int], list[int]]


class UnansweredSets:
    """SubnSets without an answer: they may have been carried out. Also SubnGets. One per capture; ask at its end."""

    after: ClassVar = (Transactions, FabricFollower)

    def __init__(self, transactions: Transactions, follower: FabricFollower) -> None:
        self.transactions, self.follower = transactions, follower
        self._placed: dict[tuple[tuple[int, int], int], Frames] = {}
        """First and last frames, ascending, by method and attribute, and slot of the node that a request went to."""
        self._astray: dict[tuple[tuple[int, int], int], Frames] = {}
        """The same for requests to nodes that are not known, by method and attribute, and high half of the transaction id, -1: to a LID."""
        self._known = False

    def between(self, attribute: int, frame: int, until: int, nodes: Collection[Node] | None, method: int = SET) -> bool:
        """Whether an unanswered Set of an attribute between two frames may have changed one of these nodes; None: any node."""
        self._learn()
        asked = method, attribute
        if nodes is None:
            found = [frames for sets in (self._placed, self._astray) for (one, _), frames in sets.items() if one == asked]
        else:
            found = [self._placed.get((asked, node.slot), ([], [])) for node in nodes]
            found += [frames for (one, high), frames in self._astray.items() if one == asked and self._may_lead(high, nodes)]
        return any(bisect_left(first, until) > bisect_right(last, frame) for first, last in found)  # begun before, and not yet over

    def _may_lead(self, high: int, nodes: Collection[Node]) -> bool:
        """Whether an unknown route of a sender may lead to one of these nodes: it has no other route there."""
        origin = self.follower.routes.origins.get(high)
        return origin is None or not {node.slot for node in nodes} <= {hop.node.slot for hop in origin.hops.values()}

    def _learn(self) -> None:
        if self._known:
            return
        self._known = True
        for request in self._requests():
            slot = self._slot(request)
            high = -1 if request.route is None else request.transaction >> 32
            sets, place = (self._astray, high) if slot is None else (self._placed, slot)
            first, last = sets.setdefault(((request.method, request.attribute), place), ([], []))
            first.append(request.frame)
            last.append(request.last_frame)
        for frames in (*self._placed.values(), *self._astray.values()):
            for one in frames:
                one.sort()

    def _requests(self) -> Iterator[Request]:
        for request in (*self.transactions.superseded, *self.transactions.open_requests()):
            if request.method in (GET, SET) and request.mgmt_class in SMP_CLASSES:
                yield request

    def _slot(self, request: Request) -> int | None:
        """The node that a request went to; None if unknown."""
        routes = self.follower.routes
        if request.route is None:
            port = self.follower.subnet.owner(request.target.lid or 0, request.frame)[0]
            return port.node.slot if port is not None else None
        origin = routes.origins.get(request.transaction >> 32)
        hop = routes.directed(origin, request.route[PATH_AT:]) if origin is not None and request.route[:PATH_AT] == PURE else None
        return hop.node.slot if hop is not None else None
