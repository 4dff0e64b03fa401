"""Which agent is meant: does a LID still belong to the node that announced something, and to no port behind a router?"""

from __future__ import annotations

from typing import Any

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.identity import Side
from ibdissect.lint.finding import Severity
from ibdissect.rules.shared.unanswered import LearntFactRule
from ibdissect.subnet import FabricFollower, Subnet
from ibdissect.subnet.vantage import CONFIGURED_NS
from ibdissect.wire.numbers import FIRST_MULTICAST


class AgentFacts(LearntFactRule):
    """Base of rules that compare requests with what the agent at their LID announced before."""

    needs = (*LearntFactRule.needs, FabricFollower)
    holds_ns = CONFIGURED_NS

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "code" in vars(cls):
            cls.waits = cls.severity is not Severity.INFO  # nothing could lower it


def nodes_at(subnet: Subnet, agent: Side, frame: int) -> tuple[int, ...]:
    """Slots of the node with an agent; empty if it is not known."""
    lid = agent.end.lid or 0
    port = subnet.owner(lid, frame)[0] if 0 < lid < FIRST_MULTICAST else None
    return (port.node.slot,) if port is not None else ()


def same_agent(subnet: Subnet, agent: Side, since: int, frame: int) -> bool:
    """Whether an agent was the same node's at two frames, as far as the capture shows."""
    lid = agent.end.lid or 0
    return subnet.kept(lid, since, frame) if 0 < lid < FIRST_MULTICAST else True


def in_subnet(table: ChunkTable, rows: Int) -> Bool:
    """Which packets go to the port that has their DLID, bool[n]: not those with a GRH, which may go to a router or a virtual port."""
    found: Bool = (table.located.at("lrh")[rows] < 0) | (table.located.at("grh")[rows] < 0)
    return found
