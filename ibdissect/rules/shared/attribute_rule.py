"""How does a rule judge one subnet management attribute by what the same port or node said before?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ibdissect.fabric.earlier_answers import Tellings, Told
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import CA, ROUTER, SWITCH
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import Again, Context, Hit, Rule, fault, on_event
from ibdissect.wire.mad import METHODS
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import INT_KINDS, Field

DATA_AT = SMPDirected.data.bit // 8
VLS = np.array([0, 1, 2, 4, 8, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
"""Data VLs by OperationalVLs; 0 where it says nothing."""
Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""


class TellingRule(Rule):
    """Judges the SMPs of one attribute; one finding per port, or what `flow_of` names."""

    evidence = "The SMP, and what the same port or node answered before it. Silent where the capture does not show that."
    source: ClassVar[type[Tellings]] = Tellings
    why = "said otherwise"
    """What the earlier frame has to do with it."""
    says: ClassVar[dict[str, Field[Any]]] = {}
    """Fields of the SMP that the message quotes, by placeholder; `{now}` is `at`."""
    said: ClassVar[dict[str, Field[Any]]] = {}
    """Fields of the answer before; `{before}` is `at`."""
    by_entry = False
    """Whether a finding is about the port that the SMP came in by."""
    by_node = False
    """Whether the NodeInfo proves it, not an earlier answer."""

    def suspicious(self, told: Told, context: Context) -> Mask:
        """SMPs that are wrong, or may be."""
        raise NotImplementedError

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        """What else the message says of SMP `i`; None when it is in order after all."""
        return {}

    def flow_of(self, told: Told, i: int) -> Any:
        """Hits that agree in this are one finding."""
        if self.by_entry:
            return int(told.slot[i]), int(told.entered[i])
        return int(told.key[i]) if told.key[i] != -1 else None

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        """Frames that prove it, and why."""
        if self.by_node:
            node = told.node(i)
            return ((node.frame, "NodeInfo"),) if node is not None else ()
        return ((int(told.since[i]), self.why),) if told.since[i] else ()

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit | Again]:
        told = context.get(self.source).of(event)
        if not len(told):
            return
        for i in np.flatnonzero(self.suspicious(told, context)).tolist():
            arguments = self.arguments(told, i, context)
            if arguments is None:
                continue
            flow = self.flow_of(told, i)
            if flow is None:
                yield self.made(told, i, arguments)
            else:
                yield Again(frame=int(told.frames[i]), key=flow, made=partial(self.made, told, i, arguments))

    def made(self, told: Told, i: int, arguments: dict[str, Any]) -> Hit:
        """The finding of SMP `i`."""
        row = int(told.rows[i])
        frame = told.event.table.chunk.first + row
        says, said, value = self.says, self.said, None
        if self.at is not None and self.at.count == 1 and self.at.kind in INT_KINDS:
            value = value_of(self.at, int(told.now(self.at)[i]))
            says, said = {"now": self.at, **says}, {"before": self.at, **said}
        quoted = {word: int(told.now(field)[i]) for word, field in says.items()}
        quoted |= {word: int(told.was(field)[i]) for word, field in said.items()}
        return fault(
            frame, int(told.event.table.chunk.time_ns[row]),
            {"port": name_of(told, i), "method": METHODS[int(told.method[i])], **quoted, **arguments},
            self.at, value, start=int(told.mad[i]) + DATA_AT, proof=self.proof(told, i), key=self.flow_of(told, i),
        )  # fmt: skip


class Changed(TellingRule):
    """A field of an answer differs from what the same port said before."""

    def suspicious(self, told: Told, context: Context) -> Mask:
        assert self.at is not None
        return told.answers & (told.since > 0) & (told.now(self.at) != told.was(self.at))


def adapters(told: Told) -> Mask:
    """Which SMPs are about channel adapters or routers."""
    return (told.kind == CA) | (told.kind == ROUTER)


def switches(told: Told) -> Mask:
    """Which SMPs are about switches."""
    return told.kind == SWITCH


def name_of(told: Told, i: int) -> str:
    """The port that an SMP is about, as a person would name it."""
    node = told.node(i)
    if node is None:
        return "an unknown node"
    number = int(told.number[i]) if told.about_ports else int(told.entered[i])
    port = node.ports.get(number) if told.about_ports else node.manager(number)
    return port.name_at(int(told.frames[i])) if port is not None else f"0x{node.guid:016x}"
