"""Which node belongs to an address or a directed route, as far as the capture or files show it?"""

from __future__ import annotations

from ibdissect.fabric import FabricFollower, Node
from ibdissect.fabric.describe import name_of
from ibdissect.fabric.routes import Routes
from ibdissect.fabric.smps import Smps
from ibdissect.table import ChunkTable
from ibdissect.wire import numbers

PERMISSIVE = f"LID {numbers.PERMISSIVE}"


def state_of(follower: FabricFollower) -> tuple[int, ...]:
    """Changes whenever names may have changed."""
    subnet = follower.subnet
    return len(subnet.lids), len(subnet.nodes), sum(bool(node.name) for node in subnet.slots.values()), subnet.port_count


def route_ends(table: ChunkTable, routes: Routes) -> dict[int, tuple[str, str]]:
    """Sender and receiver of each directed SMP by row, where they are known: empty for an end that is not.

    Called while another thread learns routes: they are only looked up.
    """
    smps, found = Smps(table, keyed=False), {}
    for i, row in enumerate(smps.rows.tolist()):
        if not smps.directed[i]:
            continue
        origin = routes.origins.get(smps.sender(i))
        if origin is None:
            continue
        hop = routes.directed(origin, smps.path(i))
        here = _name(origin.home.now[0] if origin.home.now is not None else None)
        there = _name(hop.node if hop is not None else None)
        found[row] = (there, here) if smps.answers[i] or smps.method[i] == numbers.TRAP else (here, there)
    return found


def _name(node: Node | None) -> str:
    return name_of(node) if node is not None else ""
