"""The way of packets by linear forwarding tables, also where a table is unknown, or leads back."""

from __future__ import annotations

from ibdissect.subnet.forwarding_path import forwarding_path
from ibdissect.subnet.switch_tables import Forwarding
from tests.pictures.looks import fat_tree


def test_the_way_of_a_lid_ends_at_its_node_at_a_gap_and_in_a_loop() -> None:
    nodes = {node.name.decode().partition(" ")[0]: node for node in fat_tree(2, 2, 1).nodes.values()}
    start, goal = nodes["host0-0"].ports[1], nodes["host1-0"].ports[1]

    def forward(name: str, port: int, frame: int) -> None:
        tables = nodes[name].forwarding = Forwarding()
        tables.linear.learn(0, bytes([port] * 64), frame)

    def names() -> list[tuple[str, int]]:
        return [(port.node.name.decode().partition(" ")[0], frame) for port, frame in forwarding_path(start, goal)]

    assert names() == [("host0-0", 0)], "no table is known"
    forward("leaf0", 2, 7)
    forward("spine1", 2, 8)
    forward("leaf1", 3, 9)
    assert names() == [("host0-0", 0), ("leaf0", 7), ("spine1", 8), ("leaf1", 9)]
    forward("spine1", 1, 10)
    assert names() == [("host0-0", 0), ("leaf0", 7), ("spine1", 10)], "back to where it was"
    forward("leaf0", 3, 11)
    assert [name for name, _ in names()] == ["host0-0", "leaf0"] and not list(forwarding_path(goal, goal)), "an adapter forwards nothing"
