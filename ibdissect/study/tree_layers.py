"""Which layers of a frame matter, which field of a frame proves a finding, and what does it say?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.dissect.tree import Node, Tree
from ibdissect.lint.finding import Finding

AROUND = frozenset({"ERF", "Ethernet", "VLAN", "SLL", "SLL2", "IPv4", "IPv6", "UDP", "LRH", "GRH", "Trailer", "VCRC", "ICRC"})
"""Structures around what a frame is about."""
HEADERS = frozenset({"BTH", "DETH", "MAD", "SMP", "SMPDirected", "RMPP", "SAFormat"})
"""Structures in front of what a management datagram carries."""
VALUES = 6
"""Values of a proof that are shown."""


def name_of(layer: Node) -> str:
    """The name of a layer's structure, else its label."""
    return layer.struct.__name__ if layer.struct is not None else layer.label


def closed_layers(tree: Tree) -> set[str]:
    """Names of the layers that need not be seen: all around the attribute of a management datagram, or around BTH and data."""
    names = [name_of(layer) for layer in tree.layers if layer.name or layer.children]
    inside = [name for name in names if name not in AROUND]
    if "MAD" not in inside:
        return set(AROUND)
    headers = [name for name in inside if name in HEADERS]
    return {*AROUND, *(headers if len(headers) < len(inside) else headers[:-1])}


def _content(tree: Tree) -> list[Node]:
    closed = closed_layers(tree)
    return [layer for layer in tree.layers if layer.children and name_of(layer) not in closed]


def _attribute(tree: Tree) -> list[Node]:
    """The layers of what a management datagram carries."""
    there = "MAD" in map(name_of, tree.layers)
    return [layer for layer in _content(tree) if name_of(layer) not in HEADERS] if there else []


def _values(layers: list[Node]) -> Iterator[Node]:
    """What layers say, field by field: a field that has parts counts as one."""
    rest = [*reversed(layers)]
    while rest:
        node = rest.pop()
        if node.field is not None and node.value is not None and node.field.kind not in ("pad", "raw", "rest"):
            yield node
        else:
            rest += reversed(node.children)


def _same(values: list[Node], finding: Finding) -> list[Node]:
    """Those with the finding's field, best those with its value, or else with its value only."""
    named = [node for node in values if node.name and node.name == finding.field]
    equal = [node for node in named or values if finding.value and node.value == finding.value]
    return equal or named


def proof_node(tree: Tree, finding: Finding) -> Node | None:
    """The field of a frame that proves a finding: one of the same name or value; else the first that says something."""
    values = [*_values(_content(tree))]
    anywhere = [] if _attribute(tree) else [node for node in tree.walk() if node.name and node.name == finding.field]
    found = _same(values, finding) or _same(anywhere, finding) or [node for node in values if node.value] or values
    return next(iter(found), None)


def proof_text(tree: Tree, finding: Finding) -> str:
    """What a frame of management that proves a finding says about it, in a few values; empty for other frames."""
    layers = _attribute(tree)
    values = [node for node in _values(layers) if node.value and not node.masked]
    found = _same(values, finding) or values
    alike = len({node.name for node in found}) == 1
    said = [*dict.fromkeys(node.text.partition(" (")[0] if alike else f"{node.label} {node.text}" for node in found)]
    if not said:
        return ""
    label = layers[0].label + (f" {found[0].label}" if alike and layers[0].label != found[0].label else "")
    return f"{label}: {', '.join(said[:VALUES])}{' …' if len(said) > VALUES else ''}"
