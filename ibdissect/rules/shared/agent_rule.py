"""Which agent is meant: does a LID still belong to the node that announced something, and to no port behind a router?"""

from __future__ import annotations

from typing import Any

from ibdissect.fabric import FabricFollower, Subnet
from ibdissect.fabric.vantage import CONFIGURED_NS
from ibdissect.flow.datagrams import NETWORK_AT
from ibdissect.lint.finding import Severity
from ibdissect.rules.shared.silence import LearntFactRule
from ibdissect.table import Bool, ChunkTable, Int
from ibdissect.wire.numbers import FIRST_MULTICAST


class AgentFacts(LearntFactRule):
    """Base of rules that compare requests with what the agent at their LID announced before."""

    needs = (*LearntFactRule.needs, FabricFollower)
    holds_ns = CONFIGURED_NS

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "code" in vars(cls):
            cls.waits = cls.severity is not Severity.INFO  # nothing could lower it


def nodes_at(subnet: Subnet, address: int, frame: int) -> tuple[int, ...]:
    """Slots of the node whose agent has an address, as in `Queries`; empty if it is not known."""
    lid = address & (1 << NETWORK_AT) - 1
    port = subnet.owner(lid, frame)[0] if 0 < lid < FIRST_MULTICAST else None
    return (port.node.slot,) if port is not None else ()


def same_agent(subnet: Subnet, address: int, since: int, frame: int) -> bool:
    """Whether an address, as in `Queries`, was the same node's at two frames, as far as the capture shows."""
    lid = address & (1 << NETWORK_AT) - 1
    if not 0 < lid < FIRST_MULTICAST:
        return True
    then, now = subnet.owner(lid, since)[0], subnet.owner(lid, frame)[0]
    return then is None or now is then


def in_subnet(table: ChunkTable, rows: Int) -> Bool:
    """Which packets go to the port that has their DLID, bool[n]: not those with a GRH, which may go to a router or a virtual port."""
    found: Bool = (table.located.at("lrh")[rows] < 0) | (table.located.at("grh")[rows] < 0)
    return found

