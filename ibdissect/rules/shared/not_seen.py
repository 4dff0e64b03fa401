"""Conclusions from a packet that is not in the capture, or from an unanswered request: bases of rules."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from ibdissect.decode.addresses import End
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Code, Frame, LidId, NodeId, SenderId
from ibdissect.engine.ports import Hop
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import SEEN, WEEK_NS, Context, Hit, Locatable, Rule, Seen
from ibdissect.mad.agents import Agents
from ibdissect.mad.request_outcomes import AnsweredMany, Request
from ibdissect.mad.transactions import Transactions
from ibdissect.mad.visible_answers import VisibleAnswers
from ibdissect.rules.shared.answer_patience import SlowAnswers, announced
from ibdissect.rules.shared.answered_packets import RepliesToFindings, Reply
from ibdissect.subnet import SWITCH, FabricFollower, Node, Port
from ibdissect.subnet.started_ports import StartedPorts
from ibdissect.subnet.visible_managers import AGES_NS, Vantage
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import LRH
from ibdissect.wire.numbers import GET, P_KEY_TABLE, PERMISSIVE, PORT_INFO, SET, SMP_CLASSES

PATH_AT = 4
"""Offset of the path in `Request.route`, behind both LIDs of the directed route."""
PURE = PERMISSIVE.to_bytes(2, "big") * 2
Frames = tuple[list[int], list[int]]
HOUR_NS = 3600 * SECOND_NS
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


def _resized(node: Node, frame: int, loss: CaptureLoss) -> bool:
    """Whether a node shows other ports or tables within a sweep after a frame: it may have had them by then."""
    changes = (*node.facts.changes(), *node.switch.changes())
    return any(one > frame and loss.nanoseconds_between(frame, one) <= AGES_NS for one in changes)


RESTARTS_NS = SECOND_NS
"""A node that was restarted does not answer again so soon."""
PATIENCE_NS = SECOND_NS
"""A request within this time before the capture's end may still be answered."""
WARM_UP_NS = 10 * SECOND_NS
"""Exchanges that began before the capture are over by then."""


def lowered_severity(context: Context, time_ns: int) -> Severity | None:
    """INFO if the capture may have missed the packet; None (keep the rule's own severity) if it was certainly not sent."""
    return None if context.get(CaptureLoss).proves_silence(time_ns) else Severity.INFO


def warm(where: Locatable, context: Context, least_ns: int = 0) -> bool:
    """Whether the capture has run long enough, since it began or went on after a pause, to contain the beginning."""
    scopes = context.get(Scopes)
    if context.table is not None:
        context.table.once(scopes.take)  # the event may come before the follower's turn
    return scopes.has_run(where.frame, where.time_ns) >= max(WARM_UP_NS, least_ns)


class SameOwnersRule(Rule):
    """Base of rules that compare a packet with an earlier one: an INFO where one of its LIDs was given to another port between the two."""

    needs: ClassVar[tuple[type[Any], ...]] = (FabricFollower,)

    def watch(self, hit: Hit, context: Context) -> None:
        """Keep the LIDs of the packet for the end; rules that judge then name `lids` themselves."""
        row = hit.frame - context.table.chunk.first if context.table is not None else -1
        if row >= 0 and hit.evidence is not SEEN:
            seen = Seen(context.table, row)
            hit.arguments["lids"] = seen.value(LRH.slid), seen.value(LRH.dlid)
        super().watch(hit, context)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if something that the capture shows, or lacks, after the first frame that the finding quotes may refute it."""
        shown = min((one.frame for one in hit.related if 0 < one.frame < hit.frame), default=hit.frame)
        rests = hit.evidence is not SEEN and shown < hit.frame
        return Severity.INFO if rests and self.outdated(hit, context, shown) else super().severity_at_end(hit, context)

    def outdated(self, hit: Hit, context: Context, shown: int) -> bool:
        """Whether what frame `shown` shows need not hold for the packet any more."""
        subnet = context.get(FabricFollower).subnet
        return any(not subnet.kept(lid, shown, hit.frame) for lid in hit.arguments.get("lids", ()))


class QuotingRule(SameOwnersRule):
    """Base of rules that packets which the capture lacks would refute: an INFO where packets are missing after what the finding quotes.

    A connection may have been set up again, a transaction id used again, an answer sent where the capture does not show it.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (CaptureLoss,)

    def outdated(self, hit: Hit, context: Context, shown: int) -> bool:
        return super().outdated(hit, context, shown) or self.lost(context.get(CaptureLoss), shown, hit.frame)

    @staticmethod
    def lost(loss: CaptureLoss, shown: int, frame: int) -> bool:
        """Whether packets are missing between two frames."""
        return loss.between_frames(shown, frame)


class LearntFactRule(Rule):
    """Base of all rules that quote earlier frames about the subnet: the gate that their verdicts pass, whoever writes them.

    A fact may be outdated, another port's, under way to being changed, or refuted by what follows. Then the finding is an INFO.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (
        CaptureLoss, Transactions, VisibleAnswers, Scopes, Vantage, StartedPorts, RepliesToFindings, UnansweredSets,
    )  # fmt: skip
    written: ClassVar[tuple[int, ...]] = ()
    """Attributes of subnet management with these facts: a Set that was not answered, or whose port is not known, may have changed them."""
    read: ClassVar[tuple[int, ...]] = ()
    """Attributes of which a Get that was not answered may have shown the sender later facts."""
    ages: ClassVar[bool] = True
    """Whether a manager may change the facts at any time, so that they hold for a while only where the capture does not show it."""
    holds_ns: ClassVar[int] = AGES_NS
    """That while: for what a manager changes as hosts come and go, `CONFIGURED_NS`, or `RESTARTS_NS` for what a node is."""
    of_size: ClassVar[bool] = False
    """Whether they are about ports or tables of a node: of a switch that may be restarted with others, they hold for `AGES_NS`."""

    of_all_ports: ClassVar[bool] = False
    """Whether they are about all ports of the subnet, which a manager reads one after the other: a handover counts whenever it was."""

    refutable: ClassVar[bool] = False
    """Whether a good answer also refutes what a packet says by itself."""

    def files_hold_ns(self) -> int:
        """A week for partitions, which somebody configures; an hour for what has a LID, as hosts come and managers give LIDs anew."""
        return WEEK_NS if P_KEY_TABLE in self.written else HOUR_NS

    def watch(self, hit: Hit, context: Context) -> None:
        if hit.evidence is not SEEN and self.doubtful_by_then(hit, context):  # histories may have forgotten it at the end
            hit.severity = Severity.INFO
        if self.written and hit.evidence is not SEEN and context.table is not None:
            sets, nodes = context.get(UnansweredSets), self.facts_used_of(hit, context)
            if sets.under_way(self.written, hit.frame, nodes):
                hit.severity = Severity.INFO
            else:
                sets.await_answers(self.written, hit, nodes, context.table.chunk.first)
        if hit.evidence is not SEEN or self.refutable:
            context.get(RepliesToFindings).watch(hit, context.table)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if the capture would not have shown a change of the facts, or if an answer refutes them."""
        if hit.evidence is SEEN and not self.refutable:  # it rests on no facts: the site policy or the packet itself
            return None
        reply = context.get(RepliesToFindings).reply(hit)
        if hit.evidence is SEEN:
            return Severity.INFO if reply is not None and self.refutes(hit, reply, context) else None
        doubtful = (reply is not None and self.refutes(hit, reply, context)) or self._outdated(hit, context)
        return Severity.INFO if doubtful else super().severity_at_end(hit, context)

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        """Whether a reply to the packet proves that what the finding says is not so."""
        return reply.good

    def _outdated(self, hit: Hit, context: Context) -> bool:
        """Whether a fact may have changed unseen between the frames that showed it and the packet."""
        loss, unanswered, vantage = context.get(CaptureLoss), context.get(UnansweredSets), context.get(Vantage)
        frames = [one.frame for one in hit.related if one.frame > 0]
        earlier, later = [one for one in frames if one < hit.frame], [one for one in frames if one > hit.frame]
        shown = min(earlier, default=0)
        written = (*self.written, PORT_INFO) if hit.by_lid and self.ages else self.written
        nodes = self.facts_used_of(hit, context) if written or self.read or self.ages else ()
        asked = *((SET, one) for one in written), *((GET, one) for one in self.read)
        if loss.between(shown, hit.time_ns) or loss.unread_between(shown, hit.time_ns) or loss.unsettled(hit.frame, hit.time_ns):
            return True
        given = None if hit.by_lid else nodes  # a Set of PortInfo to whichever node may have given it the LID
        if any(unanswered.between(one, shown, hit.frame, given if one == PORT_INFO and how == SET else nodes, how) for how, one in asked):
            return True
        if not context.get(Scopes).together((hit.frame, *frames)):
            return True
        if self.doubtful_by_then(hit, context):
            return True
        first, last = (shown, hit.frame) if earlier else (hit.frame, max(later, default=hit.frame))
        if not self.ages or not frames or hit.related[0].frame < 0:
            return False
        if not vantage.ambiguous.isdisjoint(frames):
            return True
        if any(vantage.astray(one, first, last, nodes) for one in written):
            return True
        if vantage.handed_over(0 if self.of_all_ports else first, last, nodes):
            return True
        if self.of_size and any(_resized(node, hit.frame, loss) for node in nodes or ()):
            return True
        age = loss.nanoseconds_between(first, last)
        if self.holds_ns < AGES_NS:
            return age > self.holds_ns  # no manager changes it, and none would see it change
        if age > RESTARTS_NS and any(node.kind != SWITCH and node.lost_link(first, last) for node in nodes or ()):
            return True  # restarted or replaced
        if age <= AGES_NS:
            return False
        if vantage.manages(nodes, hit.frame):
            return loss.interrupted(first, last)  # nobody saw what it wrote by then
        resized = self.of_size and any(node.kind == SWITCH for node in nodes or ())
        return hit.by_lid or resized or age > self.holds_ns or (P_KEY_TABLE in self.written and vantage.repartitions(first, last))

    def doubtful_by_then(self, hit: Hit, context: Context) -> bool:
        """Whether what came before the packet makes a finding doubtful."""
        return any(context.get(StartedPorts).unseen(port, hit.frame) for port in self.ports_passed(hit, context))

    def ports_passed(self, hit: Hit, context: Context) -> Iterator[Port]:
        """The ports with a link that carries data by then: those of the packet's LIDs, and the ports at the other end of their cables."""
        if hit.arguments.keys() >= {"slid", "dlid"}:
            for lid in (hit.arguments["slid"], hit.arguments["dlid"]):
                yield from with_peer(context.get(FabricFollower).subnet.owner(lid, hit.frame)[0], hit.frame)

    def facts_used_of(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The nodes whose `written` attributes a finding rests on; None: any node's."""
        if hit.about is None:
            return None
        subnet = context.get(FabricFollower).subnet
        return [node for node in map(subnet.by_slot, hit.about) if node is not None]


def with_peer(port: Port | None, frame: int) -> Iterator[Port]:
    """A port, if it is known, and the one that it faced when `frame` was sent."""
    if port is not None:
        yield port
        peer = port.facing_at(frame)[0]
        if peer is not None:
            yield peer


class UnansweredRule(Rule):
    """Base of rules about unanswered requests: they judge at the end, when it is known whose answers the capture shows."""

    evidence = (
        "The request is never answered, the capture goes on for a second and for as long as the agent announced that its answers may take, "
        "and it shows answers to the same requester."
    )
    needs: ClassVar[tuple[type[Any], ...]] = (CaptureLoss, Transactions, VisibleAnswers, Agents, FabricFollower, SlowAnswers)
    mgmt_class: ClassVar[int | None] = None
    """Only requests of this class."""

    def unanswered(self, context: Context, patience_ns: float = PATIENCE_NS) -> Iterator[Request]:
        """Requests that were never answered, or are still open at the end, of requesters to whom the capture shows answers."""
        answers, scopes, transactions = context.get(VisibleAnswers), context.get(Scopes), context.get(Transactions)
        waiting = transactions.open_requests(self.mgmt_class)
        waited = (one for one in waiting if scopes.goes_on(one.last_frame, one.last_ns) >= patience_ns)
        for request in (*transactions.all_given_up(self.mgmt_class), *waited):
            if answers.would_show(request):
                yield request

    @staticmethod
    def is_up(context: Context, agent: End, frame: int) -> bool:
        """Whether an agent answered somebody after a frame, or in the second before, so that it is not silent because it is down. True for
        those without a LID, which are not remembered."""
        latest = context.get(VisibleAnswers).senders.latest(agent)
        return agent.lid is None or latest > frame or (latest > 0 and not context.get(CaptureLoss).nanoseconds_between(latest, frame))

    @staticmethod
    def may_take(context: Context, request: Request) -> int:
        """How long its answer may take, in ns: as long as the agent announced, and twice as long as others took."""
        if request.route is not None:
            return 0
        agents, subnet = context.get(Agents), context.get(FabricFollower).subnet
        limit, _ = announced(agents, subnet, request.mgmt_class, request.target, request.frame)
        took = context.get(SlowAnswers).of(request.mgmt_class, request.target)  # those that wait behind others take longer and longer
        return max(limit, 2 * took)
