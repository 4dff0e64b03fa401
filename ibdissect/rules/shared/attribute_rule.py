"""How does a rule judge a subnet management attribute by earlier answers of the same port or node?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ibdissect.fabric.earlier_answers import AttributeHistory, AttributeSmps
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.nodes import CA, NOBODY, ROUTER, SWITCH
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import Again, Context, Hit, Rule, Seen, fault, on_event
from ibdissect.wire.mad import METHODS
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import INT_KINDS, Field

DATA_AT = SMPDirected.data.bit // 8
VLS = np.array([0, 1, 2, 4, 8, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
"""Data VLs by OperationalVLs; 0 for reserved codes."""
Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""


class AttributeRule(Rule):
    """Judges the SMPs of one attribute; one finding per port, or what `flow_of` names."""

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
    by_node = False
    """Whether the NodeInfo proves it, not an earlier answer."""

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        """SMPs that are wrong, or may be."""
        raise NotImplementedError

    def arguments(self, smps: AttributeSmps, i: int, context: Context) -> dict[str, Any] | None:
        """Further arguments of the message about SMP `i`; None if it is in order after all."""
        return {}

    def flow_of(self, smps: AttributeSmps, i: int) -> Any:
        """Hits with an equal value become one finding."""
        if self.by_entry:
            return int(smps.slot[i]), int(smps.entered[i])
        return int(smps.key[i]) if smps.key[i] != -1 else None

    def proof(self, smps: AttributeSmps, i: int) -> tuple[tuple[int, str], ...]:
        """Frames that prove it, and why."""
        if self.by_node:
            return ((smps.node(i).frame, "NodeInfo"),)
        return ((int(smps.since[i]), self.why),) if smps.since[i] else ()

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit | Again]:
        smps = context.get(self.source).of(event)
        if not len(smps):
            return
        for i in np.flatnonzero(self.suspicious(smps, context)).tolist():
            arguments = self.arguments(smps, i, context)
            if arguments is None:
                continue
            flow = self.flow_of(smps, i)
            if flow is None:
                yield self.made(smps, i, arguments)
            else:
                yield Again(frame=int(smps.frames[i]), key=flow, made=partial(self.made, smps, i, arguments))

    def made(self, smps: AttributeSmps, i: int, arguments: dict[str, Any]) -> Hit:
        says, said, value = self.says, self.said, None
        if self.at is not None and self.at.count == 1 and self.at.kind in INT_KINDS:
            value = value_of(self.at, int(smps.now(self.at)[i]))
            says, said = {"now": self.at, **says}, {"before": self.at, **said}
        quoted = {word: int(smps.now(field)[i]) for word, field in says.items()}
        quoted |= {word: int(smps.was(field)[i]) for word, field in said.items()}
        return fault(
            Seen(smps.event.table, int(smps.rows[i])),
            {"port": name_of(smps, i), "method": METHODS[int(smps.method[i])], **quoted, **arguments}, self.at, value,
            start=int(smps.mad[i]) + DATA_AT, proof=self.proof(smps, i), key=self.flow_of(smps, i),
        )  # fmt: skip


class Changed(AttributeRule):
    """Base of rules about a field that differs from the port's previous answer."""

    differs: ClassVar[np.ufunc] = np.not_equal
    """How the field, and its previous value, are compared."""

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        assert self.at is not None
        return smps.answers & (smps.since > 0) & self.differs(smps.now(self.at), smps.was(self.at))


def adapters(smps: AttributeSmps) -> Mask:
    """Which SMPs are about channel adapters or routers."""
    return (smps.kind == CA) | (smps.kind == ROUTER)


def switches(smps: AttributeSmps) -> Mask:
    return smps.kind == SWITCH


def name_of(smps: AttributeSmps, i: int) -> str:
    node = smps.node(i)
    if node is NOBODY:
        return "an unknown node"
    number = int(smps.number[i]) if smps.about_ports else int(smps.entered[i])
    port = node.ports.get(number) if smps.about_ports else node.manager(number)
    return port.name_at(int(smps.frames[i])) if port is not None else f"0x{node.guid:016x}"
