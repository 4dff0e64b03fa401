"""How does a rule judge a subnet management attribute by earlier answers of the same port or node?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ibdissect.fabric.earlier_answers import AttributeHistory, AttributeSmps, PortInfos
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.nodes import CA, NOBODY, ROUTER, SWITCH
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import Again, Context, Hit, Judged, Rule, Seen, fault, on_event
from ibdissect.wire.mad import METHODS
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import INT_KINDS, Field

DATA_AT = SMPDirected.data.bit // 8
VLS = np.array([0, 1, 2, 4, 8, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
"""Data VLs by OperationalVLs; 0 for reserved codes."""
Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""


class AttributeRule(Rule):
    """Base of rules about the SMPs of one attribute; one finding per port, or what `flow_of` names."""

    evidence = "The SMP, and what the same port or node answered before it. Silent where the capture does not show that."
    source: ClassVar[type[AttributeHistory]] = AttributeHistory
    why = "said otherwise"
    """Why the earlier frame is cited."""
    says: ClassVar[dict[str, Field[Any]]] = {}
    """Fields of the SMP that the message quotes, by placeholder; `{now}` is `at`."""
    said: ClassVar[dict[str, Field[Any]]] = {}
    """Fields of the previous answer that the message quotes; `{before}` is `at`."""
    by_entry = False
    """Whether a finding is about the port through which the SMP arrived."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        """SMPs that are wrong, or may be."""
        raise NotImplementedError

    def judge(self, smps: AttributeSmps, i: int, context: Context) -> Judged | None:
        """Further arguments of the message about SMP `i`, and the frames that prove it; None if it is in order after all."""
        return {}, self.earlier(smps, i)

    def earlier(self, smps: AttributeSmps, i: int) -> list[tuple[int, str]]:
        """The previous answer as a proof."""
        return [(int(smps.since[i]), self.why)] if smps.since[i] else []

    def flow_of(self, smps: AttributeSmps, i: int) -> Any:
        """Hits with an equal value become one finding; None: each is one."""
        if self.by_entry:
            return int(smps.slot[i]), int(smps.entered[i])
        return int(smps.key[i]) if smps.key[i] != -1 else None

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit | Again]:
        smps = context.get(self.source).of(event)
        if not len(smps):
            return
        for i in np.flatnonzero(self.suspicious(smps)).tolist():
            judged = self.judge(smps, i, context)
            if judged is not None:
                yield Again(frame=int(smps.frames[i]), key=self.flow_of(smps, i), made=partial(self.made, smps, i, *judged))

    def made(self, smps: AttributeSmps, i: int, arguments: dict[str, Any], proof: Any) -> Hit:
        """The full hit about SMP `i`."""
        says, said, value = self.says, self.said, None
        if self.at is not None and self.at.count == 1 and self.at.kind in INT_KINDS:
            value = value_of(self.at, int(smps.now(self.at)[i]))
            says, said = {"now": self.at, **says}, {"before": self.at, **said}
        quoted = {word: int(smps.now(field)[i]) for word, field in says.items()}
        quoted |= {word: int(smps.was(field)[i]) for word, field in said.items()}
        about = {"port": name_of(smps, i), "method": METHODS[int(smps.method[i])], **quoted, **arguments}
        start = int(smps.mad[i]) + DATA_AT
        return fault(seen_of(smps, i), about, self.at, value, start=start, proof=proof, key=self.flow_of(smps, i))


class Changed(AttributeRule):
    """Base of rules about a field that differs from the port's previous answer."""

    differs: ClassVar[np.ufunc] = np.not_equal
    """How the field, and its previous value, are compared."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        assert self.at is not None
        return smps.answers & (smps.since > 0) & self.differs(smps.now(self.at), smps.was(self.at))


class ViolationCounted(Changed):
    """Base of rules about violation counters."""

    evidence = "Two answers of the port, the later one with a higher count."
    source = PortInfos
    why = "showed a lower count"
    differs = np.greater


def seen_of(smps: AttributeSmps, i: int) -> Seen:
    """The frame of SMP `i`."""
    return Seen(smps.event.table, int(smps.rows[i]))


def adapters(smps: AttributeSmps) -> Mask:
    """Which SMPs are about channel adapters or routers."""
    return (smps.kind == CA) | (smps.kind == ROUTER)


def switches(smps: AttributeSmps) -> Mask:
    return smps.kind == SWITCH


def node_info(smps: AttributeSmps, i: int, why: str = "NodeInfo") -> list[tuple[int, str]]:
    """The NodeInfo of the node of SMP `i` as a proof."""
    return [(smps.node(i).frame, why)]


def name_of(smps: AttributeSmps, i: int) -> str:
    """The port concerned by SMP `i`: the one that a PortInfo selects, otherwise that through which the SMP arrived."""
    node = smps.node(i)
    if not smps.about_ports or node is NOBODY:
        return manager_name(smps, i)
    port = node.ports.get(int(smps.number[i]))
    return port.name_at(int(smps.frames[i])) if port is not None else f"0x{node.guid:016x}"


def manager_name(smps: AttributeSmps, i: int) -> str:
    """The port through which SMP `i` arrived, port 0 of a switch."""
    node = smps.node(i)
    port = node.manager(int(smps.entered[i]))
    return "an unknown node" if node is NOBODY else port.name_at(int(smps.frames[i])) if port is not None else f"0x{node.guid:016x}"
