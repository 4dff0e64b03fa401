"""Which requests may have a modifier that does not suit the node they address? Base of the rules with state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.fabric.earlier_answers import AttributeSmps
from ibdissect.fabric.nodes import CA, NOBODY, ROUTER, SWITCH, Node, Port, SwitchFacts
from ibdissect.lint.rule import Context, Hit, Judged, fault
from ibdissect.rules.shared.attribute_rule import AttributeRule, Mask, adapters, manager_name, seen_of
from ibdissect.wire.mad import MAD, METHODS
from ibdissect.wire.numbers import GET, LID_ROUTED, SET

ADAPTERS = frozenset({CA, ROUTER})
KINDS = {CA: "channel adapter", SWITCH: "switch", ROUTER: "router"}


class Asked(Record, frozen=True):
    """A request that a rule judges."""

    node: Node
    entered: int
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


class TargetRule(AttributeRule):
    """Base of rules about the modifier of Gets and Sets; one finding per node, attribute and modifier."""

    evidence = (
        "The request, and the NodeInfo, SwitchInfo or PortInfo that its target answered before. Silent for targets that the "
        "capture has not shown."
    )
    bits = 0xFFFFFFFF
    """Only a request with one of these bits in its modifier may be wrong; 0: any request."""
    wrong_at: frozenset[int] = frozenset()
    """The kinds of nodes at which such a request is always wrong; empty: `wrong` decides."""
    at = MAD.attribute_modifier

    def candidates(self, smps: AttributeSmps) -> Mask:
        """Gets and Sets that may be wrong, whatever other SMPs are."""
        some = (smps.modifier & self.bits != 0) | (self.bits == 0)
        return some & adapters(smps) if self.wrong_at == ADAPTERS else some

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return ((smps.method == GET) | (smps.method == SET)) & self.candidates(smps)

    def wrong(self, asked: Asked) -> Judged | None:
        """Further arguments of the message, and the frames that prove it; None if the request is in order."""
        return ({}, kind_of(asked.node)) if asked.node.kind in self.wrong_at else None

    def judge(self, smps: AttributeSmps, i: int, context: Context) -> Judged | None:
        columns = (smps.entered, smps.attribute, smps.modifier, smps.frames)
        return self.wrong(Asked(smps.node(i), *(int(column[i]) for column in columns)))

    def flow_of(self, smps: AttributeSmps, i: int) -> Any:
        known = smps.node(i) is not NOBODY
        return (int(smps.slot[i]), int(smps.attribute[i]), int(smps.modifier[i])) if known else None

    def made(self, smps: AttributeSmps, i: int, arguments: dict[str, Any], proof: Any) -> Hit:
        modifier, method = int(smps.modifier[i]), int(smps.method[i])
        name = smps.event.table.catalog.attribute_name(LID_ROUTED, int(smps.attribute[i]), method)
        about = {"method": METHODS[method], "attribute": name, "modifier": modifier, "node": manager_name(smps, i), **arguments}
        return fault(seen_of(smps, i), about, self.at, modifier, start=int(smps.mad[i]), proof=proof, key=self.flow_of(smps, i))


def kind_of(node: Node) -> list[tuple[int, str]]:
    """The NodeInfo that told what kind of node it is."""
    return [(node.frame, f"NodeInfo: {KINDS.get(node.kind, 'unknown')}")]


def of_node(smps: AttributeSmps, fact: Callable[[Node], int]) -> Mask:
    """A number of the node of each SMP as known at the chunk's end, int64[n]; 0 if the node is unknown."""
    return np.array([*map(fact, smps.nodes)], np.int64)[smps.which]
