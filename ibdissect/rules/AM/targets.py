"""Which requests of a chunk may have a wrong attribute modifier, and which node do they address? Base of the rules with state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.nodes import CA, NOBODY, ROUTER, SWITCH, Node, Port, SwitchFacts
from ibdissect.fabric.smps import PlacedSmps
from ibdissect.lint.rule import Context, Hit, Rule, Seen, fault, on_event
from ibdissect.table.locate import Int
from ibdissect.wire.mad import MAD, METHODS
from ibdissect.wire.numbers import GET, SET

NAMES = {
    0x12: "SwitchInfo", 0x14: "GUIDInfo", 0x15: "PortInfo", 0x16: "P_KeyTable", 0x17: "SLtoVLMappingTable", 0x18: "VLArbitrationTable",
    0x19: "LinearForwardingTable", 0x1A: "RandomForwardingTable", 0x1B: "MulticastForwardingTable", 0x30: "VendorDiag",
}  # fmt: skip
ADAPTERS = frozenset({CA, ROUTER})


class Asked(Record, frozen=True):
    """A request that a rule judges."""

    node: Node
    entered: int
    method: int
    attribute: int
    modifier: int
    frame: int

    @property
    def switch(self) -> tuple[SwitchFacts | None, int]:
        """The node's capabilities as a switch at the request, and the frame that first showed them."""
        return self.node.switch.at(self.frame)

    @property
    def port(self) -> Port | None:
        """The port addressed: port 0 of a switch."""
        return self.node.manager(self.entered)


class Many:
    """Requests as columns, to exclude most of them before any is judged alone."""

    def __init__(self, requests: PlacedSmps, index: Int) -> None:
        self.requests, self.index = requests, index
        self.modifier: Int = requests.modifier[index]
        self.entered: Int = requests.entered[index]
        self.attribute = requests.attribute[index]

        self.num_ports: Int = requests.ports[index]
        self.changed = requests.changed[index]
        """The known facts of the target changed in this chunk, so those at the request must be looked up, bool[n]."""

    def of_node(self, fact: Callable[[Node], int]) -> Int:
        """A number of each request's target as known at the chunk's end, int64[n]; 0 if the target is unknown."""
        facts = np.array([*map(fact, self.requests.nodes)], np.int64)
        return facts[self.requests.which[self.index]]

    @property
    def adapter(self) -> Mask:
        """Whether the target is known as a channel adapter or router, bool[n]."""
        kind = self.requests.kind[self.index]
        return (kind == CA) | (kind == ROUTER)


Mask = Any
"""bool[n]; NumPy's stubs have no type for the result of a comparison."""
Proof = tuple[dict[str, Any], tuple[tuple[int, str], ...]]
"""Arguments of the message, and the frames that prove it as (frame, why)."""


class TargetRule(Rule):
    """Base of rules about requests of some attributes: those that are `suspicious` are judged one by one; one finding per node and
    modifier.
    """

    evidence = (
        "The request, and the NodeInfo, SwitchInfo or PortInfo that its target answered before. Silent for targets that the "
        "capture has not shown."
    )
    attributes: frozenset[int] = frozenset()
    methods: frozenset[int] = frozenset({GET, SET})
    bits = 0xFFFFFFFF
    """Only a request with one of these bits in its modifier may be wrong; 0: any request."""
    wrong_at: frozenset[int] = frozenset()
    """The kinds of nodes at which such a request is always wrong; empty: `wrong` decides."""
    at = MAD.attribute_modifier

    def suspicious(self, many: Many) -> Mask:
        """Requests that may be wrong, bool[n]."""
        some = (many.modifier & self.bits != 0) | (self.bits == 0)
        return some & many.adapter if self.wrong_at == ADAPTERS else some

    def wrong(self, asked: Asked) -> Proof | None:
        """The finding's arguments and proof; None if the request is in order."""
        return ({}, (kind_of(asked.node),)) if asked.node.kind in self.wrong_at else None

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        requests = event.requests
        index = np.flatnonzero(_among(requests.attribute, self.attributes) & _among(requests.method, self.methods))
        for i in index[self.suspicious(Many(requests, index))].tolist():
            seen, node = Seen(event.table, int(requests.rows[i])), requests.nodes[int(requests.which[i])]
            columns = (requests.entered, requests.method, requests.attribute, requests.modifier)
            entered, method, attribute, modifier = (int(column[i]) for column in columns)
            asked = Asked(node, entered, method, attribute, modifier, seen.frame)
            found = self.wrong(asked)
            if found is None:
                continue
            arguments, proof = found
            about = {"method": METHODS[method], "attribute": NAMES.get(attribute, ""), "modifier": modifier, "node": _name(asked)}
            yield fault(
                seen, {**about, **arguments}, self.at, modifier, start=int(requests.mad[i]), proof=proof,
                key=(node.slot, attribute, modifier) if node is not NOBODY else None,
            )  # fmt: skip


def _among(values: Any, choices: frozenset[int]) -> Mask:
    """Whether values are among a few choices, bool[n]; np.isin takes ten times as long for the few requests of a chunk."""
    hits: Mask = np.zeros(len(values), np.bool_)
    for choice in choices:
        hits |= values == choice
    return hits


def _name(asked: Asked) -> str:
    if asked.node is NOBODY:
        return "an unknown node"
    return asked.port.name_at(asked.frame) if asked.port is not None else f"0x{asked.node.guid:016x}"


def kind_of(node: Node) -> tuple[int, str]:
    return node.frame, f"NodeInfo: {({CA: 'channel adapter', SWITCH: 'switch', ROUTER: 'router'}).get(node.kind, 'unknown')}"
