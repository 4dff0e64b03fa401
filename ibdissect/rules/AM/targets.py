"""Base of the rules with state about attribute modifiers of requests that do not suit the node they address."""

from __future__ import annotations

from typing import Any

from ibdissect.lint.rule import Hit, fault
from ibdissect.rules.shared.attribute_rule import AttributeRule, Mask
from ibdissect.subnet import CA, ROUTER, Node
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.describe import KINDS
from ibdissect.subnet.nodes import NOBODY
from ibdissect.wire.mad import MAD, METHODS
from ibdissect.wire.numbers import GET, LID_ROUTED, SET

ADAPTERS = frozenset({CA, ROUTER})


class TargetRule(AttributeRule):
    """Base of rules about the modifier of Gets and Sets; one finding per node, attribute and modifier."""

    evidence = (
        "The request, and the NodeInfo, SwitchInfo or PortInfo that its target answered before. Silent for targets that the "
        "capture has not shown. An `info` if the request was answered with status 0, if another node may be there by now, or if the "
        "capture lacks the answer to a later Get of that attribute."
    )
    refusable = True
    why = "NodeInfo: {kind}"
    at = MAD.attribute_modifier

    def candidates(self, smps: AttributeSmps) -> Mask:
        """Gets and Sets that may be wrong, whatever other SMPs are."""
        return super().suspicious(smps)

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return ((smps.method == GET) | (smps.method == SET)) & self.candidates(smps)

    def flow_of(self, smp: AttributeSmp) -> Any:
        return (smp.slot, smp.attribute, smp.modifier) if smp.node is not NOBODY else None

    def _filled(self, text: str, smp: AttributeSmp) -> str:
        return f"NodeInfo: {KINDS.get(smp.kind, 'unknown')}" if text == TargetRule.why else super()._filled(text, smp)

    def quoted(self, smp: AttributeSmp) -> dict[str, Any]:
        name = smp.columns.event.table.catalog.attribute_name(LID_ROUTED, smp.attribute, smp.method)
        about = {"method": METHODS[smp.method], "attribute": name, "modifier": smp.modifier, "node": smp.node_name}
        return {**about, "kind": KINDS.get(smp.kind, "unknown"), **self.told(smp)}

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        about = {**self.quoted(smp), **arguments}
        return fault(smp, about, self.at, smp.modifier, start=smp.mad, proof=proof, key=self.flow_of(smp), about=(smp.slot,))


def kind_of(node: Node) -> list[tuple[int, str]]:
    """The NodeInfo that showed what kind of node it is."""
    return [(node.frame, f"NodeInfo: {KINDS.get(node.kind, 'unknown')}")]
