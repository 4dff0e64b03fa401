"""The way of a packet from switch to switch, as linear forwarding tables say."""

from __future__ import annotations

from collections.abc import Iterator

from .nodes import SWITCH, Port
from .switch_tables import UNREACHABLE


def forwarding_path(start: Port, goal: Port) -> Iterator[tuple[Port, int]]:
    """The ports through which packets from one port to another's LID leave each node, each with the frame that showed the table entry.

    Ends at the node of `goal`, or where nothing is known. Another thread may change the subnet meanwhile.
    """
    node, seen = start.node, set[int]()
    while node is not goal.node and node.slot not in seen and (node.kind == SWITCH or not seen):
        seen.add(node.slot)
        out: Port | None = start
        frame = 0
        if node.kind == SWITCH:
            number, frame = node.forwarding.linear.port(goal.lid) if node.forwarding is not None else (UNREACHABLE, 0)
            out = node.ports.get(number)
        peer = out.peer if out is not None else None
        if out is None or peer is None:
            return
        yield out, frame
        node = peer.node
