"""Names of nodes on the screen: the address that means no node, and the state that changes when names may have changed."""

from __future__ import annotations

from ibdissect.subnet import FabricFollower
from ibdissect.wire import numbers

PERMISSIVE = f"LID {numbers.PERMISSIVE}"


def state_of(follower: FabricFollower) -> tuple[int, ...]:
    """Changes whenever names may have changed."""
    subnet = follower.subnet
    return len(subnet.lids), len(subnet.nodes), sum(bool(node.name) for node in subnet.slots.values()), subnet.port_count
