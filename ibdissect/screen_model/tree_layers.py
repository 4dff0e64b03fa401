"""Layers of a frame that matter, and the field of a frame that proves a finding, with its text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ibdissect.dissect.tree import Node, Tree
from ibdissect.lint.finding import Finding

AROUND = frozenset({"ERF", "Ethernet", "VLAN", "SLL", "SLL2", "IPv4", "IPv6", "UDP", "LRH", "GRH", "Trailer", "VCRC", "ICRC"})
"""Structures around what a frame is about."""
HEADERS = frozenset({"BTH", "DETH", "MAD", "SMP", "SMPDirected", "RMPP", "SAFormat"})
"""Structures in front of what a management datagram carries."""
VALUES = 6
"""Values of a proof that are shown."""
SHORT = 5
"""Characters of texts that may stand in a message by chance."""


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
        if node.field is not None and (node.value is not None or node.masked) and node.field.kind not in ("pad", "raw", "rest"):
            yield node
        else:
            rest += reversed(node.children)


def _proving(values: list[Node], finding: Finding, frame: int) -> list[Node]:
    """Those of a frame's values that prove a finding: what the finding is about, or what the frame is said to show."""
    named = [node for node in values if node.name and node.name == finding.field]
    equal = [node for node in named or values if finding.value and node.value == finding.value]
    why = " ".join(one.why for one in finding.related if one.frame == frame)
    said = [node for node in values if not node.masked and node.value in map(int, re.findall(r"\b\d+\b", why)) and node.value]
    shown = [node for node in values if re.search(rf"(?<![\w-]){re.escape(node.label)}(?![\w-])", why)]
    alike = _plain(finding.field.rpartition(".")[2]) if finding.field else ""
    meant = [node for node in values if node.field is not None and alike in (node.field.holds, _plain(node.label))]
    quoted = [node for node in values if len(node.text) > SHORT and re.search(rf"(?<!\w){re.escape(node.text)}(?!\w)", finding.message)]
    found = equal or named or said or shown or meant or quoted
    return [node for node in found if node.value or node.masked] or found  # a table's empty entries say nothing beside others


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _in_frame(tree: Tree, finding: Finding) -> tuple[list[Node], list[Node]]:
    """The values of a frame that prove a finding, and all that it carries; those of headers where nothing else does."""
    carried = _attribute(tree)
    values = [*_values(carried or _content(tree))]
    named = [node for node in tree.walk() if node.name and node.name == finding.field and (node.value is not None or node.masked)]
    same = [node for node in named if tree.frame == finding.frame or not carried or (finding.value and node.value == finding.value)]
    return _proving(values, finding, tree.frame) or same, values


def proof_node(tree: Tree, finding: Finding) -> Node | None:
    """The field of a frame that proves a finding; else the first that says something."""
    found, values = _in_frame(tree, finding)
    return next(iter(found or [node for node in values if node.value] or values), None)


def proof_text(tree: Tree, finding: Finding) -> str:
    """What a frame of management that proves a finding says about it, in a few values; empty for other frames."""
    layers = _attribute(tree)
    if not layers:
        return ""
    proving, values = _in_frame(tree, finding)
    found = proving or [node for node in values if node.value and not node.masked]
    alike = len({node.name for node in found}) == 1
    said = [*dict.fromkeys(node.text.partition(" (")[0] if alike else f"{node.label} {node.text}" for node in found)]
    if not said:
        return ""
    home = layers[0].label if not proving or found[0] in values else ""
    label = " ".join(dict.fromkeys(part for part in (home, found[0].label if alike else "") if part))
    return f"{label}: {', '.join(said[:VALUES])}{' …' if len(said) > VALUES else ''}"
