"""Conclusions from a packet that is not in the capture, or from an unanswered request: bases of rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from ibdissect.decode.addresses import End
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.history import SECOND_NS
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import SEEN, WEEK_NS, Context, Hit, Locatable, Rule, Seen
from ibdissect.mad.agents import Agents
from ibdissect.mad.request_outcomes import Request
from ibdissect.mad.transactions import Transactions
from ibdissect.mad.visible_answers import VisibleAnswers
from ibdissect.rules.shared.answer_patience import SlowAnswers, announced
from ibdissect.rules.shared.answered_packets import RepliesToFindings, Reply
from ibdissect.rules.shared.unanswered_sets import UnansweredSets
from ibdissect.subnet import SWITCH, FabricFollower, Node, Port
from ibdissect.subnet.started_ports import StartedPorts
from ibdissect.subnet.visible_managers import AGES_NS, Vantage
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import LRH
from ibdissect.wire.numbers import GET, P_KEY_TABLE, PORT_INFO, SET

HOUR_NS = 3600 * SECOND_NS
RESTARTS_NS = SECOND_NS
"""A node that was restarted does not answer again so soon."""
PATIENCE_NS = SECOND_NS
"""A request within this time before the capture's end may still be answered."""
WARM_UP_NS = 10 * SECOND_NS
"""Exchanges that began before the capture are over by then."""


def _resized(node: Node, frame: int, loss: CaptureLoss) -> bool:
    """Whether a node shows other ports or tables within a sweep after a frame: it may have had them by then."""
    changes = (*node.facts.changes(), *node.switch.changes())
    return any(one > frame and loss.nanoseconds_between(frame, one) <= AGES_NS for one in changes)


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
