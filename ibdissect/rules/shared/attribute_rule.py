"""How does a rule judge a subnet management attribute by earlier answers of the same port or node?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ibdissect.fabric import CA, ROUTER, SWITCH, ChunkFollowed, FabricFollower, Node
from ibdissect.fabric.earlier_answers import AttributeHistory, AttributeSmp, AttributeSmps, NodesRecorded, history_of
from ibdissect.fabric.nodes import SwitchFacts
from ibdissect.fabric.vantage import CONFIGURED_NS
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import Context, FaultDetails, Hit, LazyHit, fault, on_event
from ibdissect.rules.shared.answered import Reply
from ibdissect.rules.shared.silence import LearntFactRule
from ibdissect.wire.mad import METHODS
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import INT_KINDS, Field

VLS = np.array([0, 1, 2, 4, 8, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
"""Data VLs by OperationalVLs; 0 for reserved codes."""
Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""


class AttributeRule(LearntFactRule):
    """Base of rules about the SMPs of one attribute; one finding per port, or what `flow_of` names.

    What the node answered before may be outdated or another's: the gate of `LearntFactRule` says so.
    """

    holds_ns = CONFIGURED_NS
    refusable: ClassVar[bool] = False
    """Whether the finding says that the node refuses the SMP or has no such thing, so that a good answer refutes it."""
    taken: ClassVar[tuple[Field[Any], ...]] = ()
    """Components that the finding says the node does not take: a good answer that repeats what was written refutes it."""
    evidence = (
        "The SMP, and what the same port or node answered before it. Silent where the capture does not show that; an `info` where it may "
        "have missed a change in between."
    )
    source: ClassVar[type[AttributeHistory]] = AttributeHistory
    """The SMPs that are judged; by default those of the attribute to which `at` belongs."""
    records: ClassVar[type[NodesRecorded] | None] = None
    """Records of the SA that count like an earlier answer until the node answers itself."""
    why = "said otherwise"
    """Why the earlier frame is cited."""
    says: ClassVar[dict[str, Field[Any]]] = {}
    """Fields of the SMP that the message quotes, by placeholder; `{now}` is `at`."""
    said: ClassVar[dict[str, Field[Any]]] = {}
    """Fields of the previous answer that the message quotes; `{before}` is `at`."""
    by_entry = False
    """Whether a finding is about the port through which the SMP arrived."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "code" not in vars(cls):
            return
        cls.waits = cls.severity is not Severity.INFO  # nothing could lower it
        if cls.source is AttributeHistory and cls.at is not None:
            cls.source = history_of(cls.at.owner)

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        took = bool(self.taken) and all(reply.repeats(field) for field in self.taken)
        return (self.refusable or took) and super().refutes(hit, reply, context)

    def suspicious(self, smps: AttributeSmps) -> Mask:
        """SMPs that are wrong, or may be."""
        raise NotImplementedError

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        """Further arguments of the message about an SMP, and the frames that prove it; None if it is in order after all."""
        return {}, self.earlier(smp)

    def earlier(self, smp: AttributeSmp) -> list[tuple[int, str]]:
        """The previous answer as a proof."""
        return [(smp.since, f"{self.why}, in a NodeRecord" if smp.columns.recorded else self.why)] if smp.since else []

    def flow_of(self, smp: AttributeSmp) -> Any:
        """Hits with an equal value become one finding; None: each is one."""
        if self.by_entry:
            return smp.slot, smp.entered
        return smp.key if smp.key != -1 else None

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit | LazyHit]:
        smps = context.get(self.source).of(event)
        found = [*self._concerned(smps)] if len(smps) else []
        if self.records is not None and len(first := context.get(self.records).first(event, smps)):
            found = sorted((*self._concerned(first), *found), key=lambda smp: smp.frame)
        for smp in found:
            judged = self.judge(smp)
            if judged is not None:
                yield LazyHit(frame=smp.frame, key=self.flow_of(smp), make=partial(self.made, smp, *judged), proof=judged[1])

    def _concerned(self, smps: AttributeSmps) -> Iterator[AttributeSmp]:
        """Suspicious SMPs of ports that have the component at all."""
        suspicious = self.suspicious(smps)
        return smps.each(suspicious & smps.have(self.at) if self.at is not None and suspicious.any() else suspicious)

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        """The full hit."""
        says, said, value = self.says, self.said, None
        if self.at is not None and self.at.count == 1 and self.at.kind in INT_KINDS:
            value = value_of(self.at, smp.now(self.at))
            says, said = {"now": self.at, **says}, {"before": self.at, **said}
        quoted = {word: smp.now(field) for word, field in says.items()}
        quoted |= {word: smp.was(field) for word, field in said.items()}
        about = {"port": smp.name, "method": METHODS[smp.method], **quoted, **arguments}
        return fault(smp, about, self.at, value, start=smp.body_at, proof=proof, key=self.flow_of(smp), about=(smp.slot,))


class AgainstPortGuid(AttributeRule):
    """Base of rules that compare a GUID with the port's own. Silent where the port showed several."""

    by_entry = True

    def stands(self, hit: Hit, context: Context) -> bool:
        slot, entered = hit.key
        node = context.get(FabricFollower).subnet.by_slot(slot)
        port = node.manager(entered) if node is not None else None
        return port is None or not port.renamed


class Changed(AttributeRule):
    """Base of rules about a field that differs from the port's previous answer."""

    differs: ClassVar[np.ufunc] = np.not_equal
    """How the field, and its previous value, are compared."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        assert self.at is not None
        return smps.answers & (smps.since > 0) & self.differs(smps.now(self.at), smps.was(self.at))


READ_ONLY = (PortInfo.guid_cap, PortInfo.vl_cap, PortInfo.mtu_cap, PortInfo.link_width_supported)
"""Components of PortInfo that a port does not change."""


class ViolationCounted(Changed):
    """Base of rules about violation counters."""

    evidence = (
        "Two answers of the port, the later one with a higher count. Silent if components that a port never changes differ, an `info` if "
        "its LID turns out to be another node's: then another port answered."
    )
    ages = False
    why = "showed a lower count"
    differs = np.greater

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        same = all(smp.now(field) == smp.was(field) for field in READ_ONLY)
        return super().judge(smp) if same else None


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
