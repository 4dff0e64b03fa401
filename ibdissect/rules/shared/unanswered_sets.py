"""Requests of subnet management without an answer: what they may have changed nobody knows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import ClassVar

import numpy as np

from ibdissect.decode.identity import Code, Frame, LidId, NodeId, SenderId
from ibdissect.engine.ports import Hop
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import Hit
from ibdissect.mad.request_outcomes import AnsweredMany, Request
from ibdissect.mad.transactions import Transactions
from ibdissect.mad.visible_answers import VisibleAnswers
from ibdissect.subnet import SWITCH, FabricFollower, Node
from ibdissect.wire.numbers import GET, PERMISSIVE, SET, SMP_CLASSES

PATH_AT = 4
"""Offset of the path in `Request.route`, behind both LIDs of the directed route."""
PURE = PERMISSIVE.to_bytes(2, "big") * 2
Frames = tuple[list[int], list[int]]
MOST_AWAITED = 8
"""The latest Sets whose answers are awaited for each finding: managers have four on the wire."""


class UnansweredSets:
    """SubnSets without an answer: they may have been carried out. Also SubnGets. One per capture; ask at its end.

    `under_way` also knows Sets that are answered later, and is asked in the chunk of the packet.
    """

    after: ClassVar = (Transactions, FabricFollower, VisibleAnswers)
    learns_from: ClassVar = AnsweredMany

    def __init__(self, transactions: Transactions, follower: FabricFollower, visible: VisibleAnswers) -> None:
        self.transactions, self.follower, self.visible = transactions, follower, visible
        self._placed: dict[tuple[tuple[Code, Code], NodeId], Frames] = {}
        """First and last frames, ascending, by method and attribute, and the node that a request went to."""
        self._astray: dict[tuple[tuple[Code, Code], SenderId | LidId], Frames] = {}
        """The same for requests to nodes that are not known, by method and attribute, and the sender of a directed route or the LID."""
        self._known = False
        self._answers: AnsweredMany | None = None
        self._sets = np.empty((0, 4), np.int64)
        """The answered Sets of a chunk: index into its answers, attribute, first and last frame of the exchange."""
        self._awaited: dict[Frame, list[tuple[Hit, Collection[Node] | None]]] = {}
        """By the first frame of a Set that is not answered yet: findings about later packets, and the nodes that they rest on."""
        self._open: tuple[int, list[Request]] = 0, []
        """The first frame of the latest chunk, and the Sets that are not answered in it."""

    def take(self, event: AnsweredMany) -> None:
        """Lower the findings about packets during whose time a Set was under way, which is answered only in this chunk."""
        if not self._awaited:
            return
        for answer in event.some(np.isin(event.request_frames, [*self._awaited])):
            for hit, nodes in self._awaited.pop(answer.request.frame):
                if self._went_to({self._slot(answer.request)}, nodes):
                    hit.severity = Severity.INFO

    def await_answers(self, attributes: Collection[int], hit: Hit, nodes: Collection[Node] | None, chunk: int) -> None:
        """Lower a finding once a Set that `under_way` asks for is answered in a later chunk. `chunk`: first frame of this one."""
        if self._open[0] != chunk:
            every = self.transactions.open_requests()
            self._open = chunk, [one for one in every if one.method == SET and one.mgmt_class in SMP_CLASSES]
        before = [one for one in self._open[1] if one.attribute in attributes and one.frame < hit.frame]
        for request in before[-MOST_AWAITED:]:
            self._awaited.setdefault(Frame(request.frame), []).append((hit, nodes))

    def under_way(self, attributes: Collection[int], frame: int, nodes: Collection[Node] | None) -> bool:
        """Whether a Set of an attribute to one of these nodes was sent before a frame and answered after it, both in this chunk; None: any
        node."""
        answers = self.transactions.matched
        if answers is None:
            return False
        if answers is not self._answers:
            mine = np.flatnonzero((answers.request_method == SET) & np.isin(answers.mgmt_class, [*SMP_CLASSES]))
            self._answers = answers
            self._sets = np.stack([mine, answers.attribute[mine], answers.request_frames[mine], answers.frames[mine]], axis=1)
        index, attribute, first, last = self._sets.T
        index = index[(first < frame) & (frame < last) & np.isin(attribute, [*attributes])]
        if not len(index):
            return False
        return self._went_to({self._slot(one.request) for one in answers.some(np.isin(np.arange(len(answers)), index))}, nodes)

    @staticmethod
    def _went_to(slots: Collection[int | None], nodes: Collection[Node] | None) -> bool:
        """Whether requests to nodes with these slots (None: unknown) may have gone to one of some nodes; None: any."""
        return nodes is None or None in slots or any(node.slot in slots for node in nodes)

    def between(self, attribute: int, frame: int, until: int, nodes: Collection[Node] | None, method: int = SET) -> bool:
        """Whether an unanswered Set of an attribute between two frames may have changed one of these nodes; None: any node."""
        self._learn()
        if (self.transactions.superseded if method == SET else self.transactions.given_up).dropped.count:
            return True
        asked = method, attribute
        if nodes is None:
            found = [frames for (one, _), frames in (*self._placed.items(), *self._astray.items()) if one == asked]
        else:
            found = [self._placed.get((asked, NodeId(node.slot)), ([], [])) for node in nodes]
            found += [frames for (one, to), frames in self._astray.items() if one == asked and self._may_lead(to, nodes, until)]
        return any(bisect_left(first, until) > bisect_right(last, frame) for first, last in found)  # begun before, and not yet over

    def _may_lead(self, to: SenderId | LidId, nodes: Collection[Node], frame: int) -> bool:
        """Whether an unknown route of a sender may lead to one of these nodes, as it has no other route there, or a LID be theirs."""
        if isinstance(to, LidId):
            return any(_may_own(node, to.lid, frame) for node in nodes)
        origin = self.follower.routes.origins.get(to)
        return origin is None or origin.shared > 0 or not {node.slot for node in nodes} <= {hop.node.slot for hop in origin.hops.values()}

    def _learn(self) -> None:
        if self._known:
            return
        self._known = True
        for request in self._requests():
            slot = self._slot(request)
            if slot is None and request.method == GET and self.visible.would_show(request):
                continue  # it led nowhere, or the capture would show what its sender was told
            asked = request.method, request.attribute
            if slot is not None:
                first, last = self._placed.setdefault((asked, NodeId(slot)), ([], []))
            else:
                sender = self.follower.senders.of_transaction(request.transaction)
                to = SenderId(sender) if request.route is not None else LidId(request.target.lid or 0)
                first, last = self._astray.setdefault((asked, to), ([], []))
            first.append(request.frame)
            last.append(request.last_frame)
        for frames in (*self._placed.values(), *self._astray.values()):
            for one in frames:
                one.sort()

    def _requests(self) -> Iterator[Request]:
        for request in (*self.transactions.all_given_up(), *self.transactions.open_requests()):
            if request.method in (GET, SET) and request.mgmt_class in SMP_CLASSES:
                yield request

    def end_of(self, request: Request) -> Hop | None:
        """The node that a request went to, and the port through which it came, 0 on a switch asked by LID; None if unknown."""
        routes = self.follower.routes
        if request.route is None:
            port = self.follower.subnet.owner(request.target.lid or 0, request.frame)[0]
            return Hop(port.node, port.number, request.frame) if port is not None else None
        origin = routes.origins.get(self.follower.senders.of_transaction(request.transaction))
        return routes.directed(origin, request.route[PATH_AT:]) if origin is not None and request.route[:PATH_AT] == PURE else None

    def _slot(self, request: Request) -> int | None:
        """The node that a request went to; None if unknown, or if its route is known to lead to another node only since then."""
        hop = self.end_of(request)
        return hop.node.slot if hop is not None and hop.frame <= request.last_frame else None


def _may_own(node: Node, lid: int, frame: int) -> bool:
    """Whether a node may have had a LID when a frame was sent, or before: unless all its ports that have LIDs are known to have others."""
    if node.kind == SWITCH:
        numbers: Iterable[int] = (0,)
    else:
        numbers = range(1, node.facts_at(frame)[0].num_ports + 1)
    ports = [node.ports.get(number) for number in numbers]
    return not ports or any(port is None or port.owns(lid, frame) is not False or port.has_had(lid, frame) for port in ports)
