"""How does a rule judge one subnet management attribute by what the same port or node said before?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import CA, ROUTER, SWITCH
from ibdissect.fabric.told import Tellings, Told
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import Again, Context, Hit, Rule, fault, on_event
from ibdissect.wire.mad import METHODS
from ibdissect.wire.sm import SMPDirected

DATA_AT = SMPDirected.data.bit // 8
VLS = np.array([0, 1, 2, 4, 8, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
"""Data VLs by OperationalVLs; 0 where it says nothing."""
Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""


class TellingRule(Rule):
    """Judges the SMPs of one attribute; one finding per port, or what `flow_of` names."""

    source: ClassVar[type[Tellings]] = Tellings
    why = "said otherwise"
    """What the earlier frame has to do with it."""

    def suspicious(self, told: Told, context: Context) -> Mask:
        """SMPs that are wrong, or may be."""
        raise NotImplementedError

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        """What the message says of SMP `i`; None when it is in order after all."""
        return {}

    def flow_of(self, told: Told, i: int) -> Any:
        """Hits that agree in this are one finding."""
        return int(told.key[i]) if told.key[i] != -1 else None

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        """Frames that prove it, and why."""
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
        value = None
        if self.at is not None and self.at.count == 1 and self.at.kind in ("uint", "flag", "enum"):
            value = value_of(self.at, int(told.now(self.at)[i]))
        return fault(
            frame, int(told.event.table.chunk.time_ns[row]),
            {"port": name_of(told, i), "method": METHODS[int(told.method[i])], **arguments},
            self.at, value, start=int(told.mad[i]) + DATA_AT, proof=self.proof(told, i), key=self.flow_of(told, i),
        )  # fmt: skip


class Changed(TellingRule):
    """A field of an answer differs from what the same port said before."""

    def suspicious(self, told: Told, context: Context) -> Mask:
        assert self.at is not None
        return told.answers & (told.since > 0) & (told.now(self.at) != told.was(self.at))

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        assert self.at is not None
        return {"before": int(told.was(self.at)[i]), "now": int(told.now(self.at)[i])}


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
