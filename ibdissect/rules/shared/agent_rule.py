"""The agent that a rule means: whether a LID still belongs to the node that announced something, and to no port behind a router."""

from __future__ import annotations

from typing import Any, ClassVar

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.identity import Side
from ibdissect.lint.rule import Context
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import FabricFollower, Subnet
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.numbers import FIRST_MULTICAST, PORT_INFO


class AgentFacts(LearntFactRule):
    """Base of rules that compare requests with what the agent at their LID announced before."""

    needs: ClassVar[tuple[type[Any], ...]] = (FabricFollower, LidWrites)
    holds_ns = CONFIGURED_NS
    written = (PORT_INFO,)  # it gives the LID


def nodes_at(subnet: Subnet, agent: Side, frame: int) -> tuple[int, ...] | None:
    """Slots of the node with an agent; None if it is not known: it may be any node."""
    lid = agent.end.lid or 0
    port = subnet.owner(lid, frame)[0] if 0 < lid < FIRST_MULTICAST else None
    return (port.node.slot,) if port is not None else None


def same_agent(context: Context, agent: Side, since: int, frame: int) -> bool:
    """Whether an agent was the same node's at two frames, as far as the capture shows."""
    lid, subnet = agent.end.lid or 0, context.get(FabricFollower).subnet
    if not 0 < lid < FIRST_MULTICAST:
        return True
    port = subnet.owner(lid, frame)[0]
    given = port is not None and subnet.owner(lid, since)[0] is None and context.get(LidWrites).gained(port, since)
    return subnet.kept(lid, since, frame) and not given


def in_subnet(table: ChunkTable, rows: Int) -> Bool:
    """Which packets go to the port that has their DLID, bool[n]: not those with a GRH, which may go to a router or a virtual port."""
    found: Bool = (table.located.at("lrh")[rows] < 0) | (table.located.at("grh")[rows] < 0)
    return found
