"""`AttributeRule`: judges a subnet management attribute by earlier answers of the same port or node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Code, PortId
from ibdissect.lint.compared_with_answers import all_compared, asked_of_others, check, holds_in, suspects, value_in
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import INFO, Context, DeferredHit, FaultDetails, Hit, fault, on_event
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.answered_packets import RepliesToFindings, Reply
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import CA, ROUTER, SWITCH, ChunkFollowed, FabricFollower, Node, Port
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import AttributeHistory, NodesRecorded, PortInfos, attributes_of, history_of, port_key
from ibdissect.subnet.nodes import SwitchFacts
from ibdissect.subnet.shown_before import shown
from ibdissect.subnet.visible_managers import AGES_NS, CONFIGURED_NS, Vantage
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.expr import And, Expr, Or, Value
from ibdissect.wire.mad import MAD, METHODS
from ibdissect.wire.numbers import GET_RESP, SET
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import GUIDInfo
from ibdissect.wire.spec import INT_KINDS, Field

VLS = np.array([0, 1, 2, 4, 8, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
"""Data VLs by OperationalVLs; 0 for reserved codes."""
WRITTEN, ANSWERED = MAD.method == SET, MAD.method == GET_RESP
"""Conditions of rules about SMPs: a Set, and an answer with status 0."""
OF_ADAPTER = previous(NodeInfo.node_type).isin({CA, ROUTER})
OF_SWITCH = previous(NodeInfo.node_type) == SWITCH
"""The kind of node, where its NodeInfo was seen."""
Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""


class Fault(Record, frozen=True, eq=False):
    """One of several forms of a fault; the first one that holds is reported."""

    when: Expr
    what: str = ""
    """What the message quotes as `{what}`; it may quote what the message quotes."""
    why: str = ""
    """Why the frame of the first `previous` in this `when` is cited; empty: the rule's `why`."""


class AttributeRule(LearntFactRule):
    """Base of rules about the SMPs of one attribute; one finding per port, or what `flow_of` names.

    `when` is the fault, judged SMP by SMP: `previous(field)` is what the port showed before, of the same attribute in its previous
    answer, of NodeInfo, SwitchInfo or PortInfo as known when the SMP is sent. What the node answered before may be outdated or
    another's: the gate of `LearntFactRule` says so.
    """

    holds_ns = CONFIGURED_NS
    by_answers = True
    refusable: ClassVar[bool] = False
    """Whether the finding says that the node refuses the SMP or has no such thing, so that a good answer refutes it."""
    taken: ClassVar[tuple[Field[Any], ...]] = ()
    """Components that the finding says the node does not take: a good answer that repeats what was written refutes it."""
    evidence = (
        "The SMP, and what the same port or node answered before it. Silent where the capture does not show that; an `info` where it may "
        "have missed a change in between."
    )
    among: ClassVar[Field[Any] | None] = None
    """The mask of what the port has, which lacks what is written into `at`: an answer to the Set that shows it refutes the finding."""
    source: ClassVar[type[AttributeHistory]] = AttributeHistory
    """The SMPs that are judged; by default those of the attribute to which `at` belongs."""
    records: ClassVar[type[NodesRecorded] | None] = None
    """Records of the SA that count like an earlier answer until the node answers itself."""
    why: ClassVar[str] = "said otherwise"
    """Why the frame of the first `previous` in `when` is cited; it may quote what the message quotes."""
    says: ClassVar[Mapping[str, Value]] = {}
    """What the message quotes, by placeholder: fields of the SMP, `previous(field)`, arithmetic. `{now}` is `at`, `{before}` its previous
    value."""
    faults: ClassVar[tuple[Fault, ...]] = ()
    """Forms of the fault, if there are several, each with its condition beside `when`."""
    by_entry: ClassVar[bool] = False
    """Whether a finding is about the port through which the SMP arrived."""
    _fault: ClassVar[Expr | None] = None
    """`when` and `faults` as one condition."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "code" not in vars(cls):
            return
        forms = Or(tuple(fault.when for fault in cls.faults)) if cls.faults else None
        both = [one for one in (cls.when, forms) if one is not None]  # a comparison has no truth value
        cls._fault = And(tuple(both)) if len(both) > 1 else next(iter(both), None)
        if cls.source is AttributeHistory and cls.at is not None:
            cls.source = history_of(cls.at.owner, kept=any(one.owner is cls.at.owner for one in all_compared(cls._fault)))
        owners = {field.owner for field in all_compared(cls._fault)}
        if "of_size" not in vars(cls):
            cls.of_size = cls.of_size or not owners.isdisjoint((NodeInfo, SwitchInfo))
        if cls.refusable and "read" not in vars(cls):  # who sends it may know better than the capture
            rests_on = {one for owner in owners for one in attributes_of(owner)}
            cls.read = tuple(sorted(rests_on - {*cls.source.attributes}))
        if cls._fault is not None:
            check(cls.__name__, cls._fault, cls.source.attributes)
            cls.source.asked |= asked_of_others(cls._fault, cls.source.attributes)
            if (cls.judge, cls.quoted) == (AttributeRule.judge, AttributeRule.quoted):
                cls.message_words = frozenset({"port", "method", "now", "before", *cls.says, *(("what",) if cls.faults else ())})

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        return (self.refusable or self._took(reply)) and super().refutes(hit, reply, context)

    def _took(self, reply: Reply) -> bool:
        """Whether an answer shows that the port has, or took, what the finding says that it does not."""
        took = bool(self.taken) and all(reply.repeats(field) for field in self.taken)
        return took or (self.among is not None and self.at is not None and reply.offers(self.at, self.among))

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if nobody answered a Set of PortInfo, and what the port shows next proves as much as an answer would."""
        written = context.get(RepliesToFindings).written(hit) if self.taken or self.among is not None else b""
        port = context.get(FabricFollower).subnet.by_key(hit.key) if written and isinstance(hit.key, int) else None
        if port is not None and self.source is PortInfos:
            if port.infos.forgets(hit.frame):
                return INFO
            body, frame = next(((body, frame) for body, frame in port.infos.values() if body is not None and frame > hit.frame), (b"", 0))
            soon = frame > 0 and context.get(CaptureLoss).nanoseconds_between(hit.frame, frame) <= AGES_NS
            if soon and self._took(Reply(frame, True, True, written=written, shown=body)):
                return INFO
        return super().severity_at_end(hit, context)

    def suspicious(self, smps: AttributeSmps) -> Mask:
        """SMPs that are wrong, or may be: where `when` and one of `faults` hold."""
        assert self._fault is not None
        return suspects(smps, self._fault)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        """Further arguments of the message about an SMP, and the frames that prove it; None if it is in order after all."""
        form = next((one for one in self.faults if holds_in(smp, one.when)), None)
        return ({"what": self._filled(form.what, smp)} if form is not None else {}), self.earlier(smp, form)

    def earlier(self, smp: AttributeSmp, form: Fault | None = None) -> list[tuple[int, str]]:
        """What was shown before, as a proof: the first `previous` of a form of the fault or of `when`, else the previous answer."""
        words = *(all_compared(form.when) if form is not None else ()), *all_compared(self.when)
        if not words and form is not None:
            return []
        since = int(shown(smp.columns, words[0]).since[smp.i]) if words else smp.since
        why = self._filled((form.why if form is not None else "") or self.why, smp)
        return [(since, f"{why}, in a NodeRecord" if smp.columns.recorded else why)] if since else []

    def _filled(self, text: str, smp: AttributeSmp) -> str:
        return text.format_map(self.quoted(smp)) if "{" in text else text

    def flow_of(self, smp: AttributeSmp) -> Any:
        """Hits with an equal value become one finding; None: each is one."""
        if self.by_entry:
            return smp.slot, smp.entered
        return smp.key if smp.key != -1 else None

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit | DeferredHit]:
        smps = context.get(self.source).of(event)
        found = [*self._concerned(smps)] if len(smps) else []
        if self.records is not None and len(first := context.get(self.records).first(event, smps)):
            found = sorted((*self._concerned(first), *found), key=lambda smp: smp.frame)
        for smp in found:
            judged = self.judge(smp)
            if judged is not None:
                yield DeferredHit(frame=smp.frame, key=self.flow_of(smp), make=partial(self._placed, smp, *judged), proof=judged[1])

    def _placed(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        hit = self.made(smp, arguments, proof)
        hit.by_lid = not smp.directed
        return hit

    def _concerned(self, smps: AttributeSmps) -> Iterator[AttributeSmp]:
        """Suspicious SMPs of ports that have the component at all."""
        suspicious = self.suspicious(smps)
        return smps.each(suspicious & smps.have(self.at) if self.at is not None and suspicious.any() else suspicious)

    def quoted(self, smp: AttributeSmp) -> dict[str, Any]:
        """What the message may quote of an SMP."""
        about: dict[str, Any] = {"port": smp.name, "method": METHODS[smp.method]}
        if (at := self._number()) is not None:
            about |= {"now": smp.now(at), "before": smp.was(at)}
        return about | self.told(smp)

    def told(self, smp: AttributeSmp) -> dict[str, int]:
        """The values of `says`."""
        return {word: value_in(smp, operand) for word, operand in self.says.items()}

    def _number(self) -> Field[Any] | None:
        """The faulty field if it is one number."""
        return self.at if self.at is not None and self.at.count == 1 and self.at.kind in INT_KINDS else None

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        """The full hit."""
        at, about = self._number(), {**self.quoted(smp), **arguments}
        value = value_of(at, smp.now(at)) if at is not None else None
        return fault(smp, about, self.at, value, start=smp.body_at, proof=proof, key=self.flow_of(smp), about=(smp.slot,))


GUIDS = history_of(GUIDInfo, kept=True)
GUID_BLOCKS, GUIDS_OF_BLOCK, GUID_SIZE = 32, 8, 8
"""Blocks of GUIDs of a port, GUIDs of a block, and bytes of a GUID."""
OF_ORGANISATION = 40
"""Bits of a GUID behind those that say which organisation assigned it."""


class AgainstPortGuid(AttributeRule):
    """Base of rules that compare a GUID with the port's own. Silent where NodeInfo showed several, or GUIDInfo that one."""

    by_entry = True
    compared: ClassVar = "now"
    """What the message calls the GUID."""

    @on_event(ChunkFollowed)
    def note_guids(self, event: ChunkFollowed, context: Context) -> None:
        context.get(GUIDS).of(event)

    def stands(self, hit: Hit, context: Context) -> bool:
        node, port = _port_of(hit, context)
        if node is None or port is None:
            return True
        shown = extract(_blocks(hit.key, node, context)[0].reshape(-1, GUID_SIZE), 0, 8 * GUID_SIZE)
        return not port.renamed and hit.arguments[self.compared] not in shown

    def may_be_alias(self, hit: Hit, guid: int, own: int, context: Context) -> bool:
        """Whether a GUID, of another organisation than the port's own, may be in a block of GUIDInfo that the capture does not show."""
        node, port = _port_of(hit, context)
        if node is None or port is None or guid >> OF_ORGANISATION == own >> OF_ORGANISATION:
            return False
        blocks = -(-port.info.guid_cap // GUIDS_OF_BLOCK) if port.info is not None else GUID_BLOCKS
        return not (_blocks(hit.key, node, context)[1][:blocks] > 0).all()


def _port_of(hit: Hit, context: Context) -> tuple[Node | None, Port | None]:
    """The node and the port that a hit is about, as far as they are known."""
    slot, entered = hit.key
    node = context.get(FabricFollower).subnet.by_slot(slot)
    return node, node.manager(entered) if node is not None else None


def _blocks(port: tuple[int, int], node: Node, context: Context) -> tuple[Any, Any]:
    """The blocks of GUIDInfo that a port (slot of its node, port that was entered) showed, and the frames that did; 0: it did not."""
    slot, entered = port
    key = port_key(np.array([slot]), np.array([0 if node.kind == SWITCH else entered])) << 32 | np.arange(GUID_BLOCKS)
    return context.get(GUIDS).at(key, np.full(GUID_BLOCKS, AFTER_ALL))


MAX_WRITTEN = 2048
"""Counts that were written to ports; who wrote a further one is unknown: no finding."""
READ_ONLY = (PortInfo.guid_cap, PortInfo.vl_cap, PortInfo.mtu_cap, PortInfo.link_width_supported)
"""Components of PortInfo that a port does not change."""
SAME_PORT = And(
    (*(one == previous(one) for one in READ_ONLY), Or(tuple(one == previous(one) for one in (PortInfo.lid, PortInfo.master_sm_lid))))
)
"""Neither these differ, nor both its own LID and its manager's: then it is a port of another subnet at the same directed route."""


class ViolationCounted(AttributeRule):
    """Base of rules about violation counters."""

    evidence = (
        "Two answers of the port, the later one with a higher count. Silent if a Set wrote that count, if components that a port never "
        "changes differ, or its LID and its manager's; an `info` if its LID turns out to be another node's, or the directed routes of two "
        "hosts look alike: then another port answered."
    )
    ages = False
    why = "showed a lower count"

    def __init__(self) -> None:
        self.counts = KeptDict[tuple[PortId, Code], int](MAX_WRITTEN, "violation counters that were written")
        """The first Set that wrote a count to a port, by port and count."""

    def __init_subclass__(cls, **kw: Any) -> None:
        if cls.at is not None:
            cls.when = ANSWERED & (cls.at > previous(cls.at)) & SAME_PORT
        super().__init_subclass__(**kw)

    def suspicious(self, smps: AttributeSmps) -> Mask:
        assert self.at is not None
        for smp in smps.each(smps.sets & (smps.now(self.at) > 0)):
            self.counts.get_or_make((PortId.of(smp.key), smp.now(self.at)), partial(int, smp.frame), smp.frame, smp.time_ns)
        return super().suspicious(smps)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        assert self.at is not None
        known = not self.counts.dropped.count and smp.frame <= self.counts.get((PortId.of(smp.key), smp.now(self.at)), smp.frame)
        return super().judge(smp) if known else None

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO, too, where either of two hosts may have asked: they may ask two ports."""
        frames = {hit.frame, *(one.frame for one in hit.related)}
        return super().severity_at_end(hit, context) if context.get(Vantage).ambiguous.isdisjoint(frames) else Severity.INFO


def adapters(smps: AttributeSmps) -> Mask:
    """Which SMPs are about channel adapters or routers."""
    return (smps.kind == CA) | (smps.kind == ROUTER)


def switches(smps: AttributeSmps) -> Mask:
    return smps.kind == SWITCH


def of_node(smps: AttributeSmps, fact: Callable[[Node], int]) -> Mask:
    """A number of the node of each SMP as known at the chunk's end, int64[n]; 0 if the node is unknown."""
    return np.array([*map(fact, smps.nodes)], np.int64)[smps.which]


def of_switch(smps: AttributeSmps, fact: Callable[[SwitchFacts], int]) -> Mask:
    """A number from the SwitchInfo of the node of each SMP as known at the chunk's end, int64[n]; 0 if it has shown none."""
    return of_node(smps, lambda node: fact(node.switch.now) if node.switch.now is not None else 0)


def beyond(smps: AttributeSmps, entry: Mask, size: Mask) -> Mask:
    """SMPs that name an entry behind the end of a table of `size` entries (0: unknown), and those for which that size may have changed."""
    return (size > 0) & (entry >= size) | smps.changed


def node_info(smp: AttributeSmp) -> list[tuple[int, str]]:
    """The NodeInfo of the node as a proof."""
    return [(smp.node.frame, "NodeInfo")]
