"""Levels of switches, the hosts below each, and the cables between nodes. For all pictures of a subnet.

A switch with hosts is on the lowest level. The level of any other is its shortest distance to such a switch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct as Record

from .describe import name_of
from .model import Subnet
from .nodes import SWITCH, Node, Port
from .topology import links


class Levels(Record):
    """Nodes are known by their slots."""

    nodes: dict[int, Node]
    """Switches first, then by name."""
    switches: list[list[int]]
    """By level, the highest first."""
    hosts: dict[int, list[int]]
    """All other nodes by the switch that they are connected to; -1: no cable to a switch is known."""
    cables: dict[tuple[int, int], list[tuple[Port, Port]]]
    """By their two nodes, the lower slot first."""
    left_out: int
    """Nodes beyond the number asked for."""


def levels(subnet: Subnet, most: int) -> Levels:
    """The levels of a subnet, with at most `most` nodes."""
    every = sorted(subnet.slots.values(), key=lambda node: (node.kind != SWITCH, natural(name_of(node) or f"0x{node.guid:016x}")))
    nodes = {node.slot: node for node in every[:most]}
    cables: dict[tuple[int, int], list[tuple[Port, Port]]] = {}
    near: dict[int, set[int]] = {}
    for pair in links(subnet):
        one, other = sorted(port.node.slot for port in pair)
        if one in nodes and other in nodes:
            cables.setdefault((one, other), []).append(pair)
            near.setdefault(one, set()).add(other)
            near.setdefault(other, set()).add(one)
    level, hosts = _levels(list(nodes.values()), near), dict[int, list[int]]()
    for slot in nodes:
        if slot not in level:
            hosts.setdefault(min((other for other in near.get(slot, ()) if other in level), default=-1), []).append(slot)
    rows = [[slot for slot in nodes if level.get(slot) == height] for height in range(max(level.values(), default=0), 0, -1)]
    return Levels(nodes, rows, hosts, cables, len(every) - len(nodes))


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts `leaf2` before `leaf10`."""
    return [(0, int(part), "") if part.isdecimal() and len(part) < 20 else (1, 0, part) for part in re.split(r"(\d+)", text)]


def _levels(nodes: Sequence[Node], near: Mapping[int, set[int]]) -> dict[int, int]:
    """Level of each switch by slot, from 1."""
    switches = {node.slot for node in nodes if node.kind == SWITCH}
    fresh = {slot for slot in switches if near.get(slot, set()) - switches} or switches
    levels, level = dict[int, int](), 1
    while fresh:
        levels |= dict.fromkeys(fresh, level)
        fresh = {other for slot in fresh for other in near.get(slot, ()) if other in switches and other not in levels}
        level += 1
    return levels | {slot: 1 for slot in switches if slot not in levels}
