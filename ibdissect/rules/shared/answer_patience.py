"""The time that an agent may take for an answer, as its port and its class announced before, the time that agents took, and who has one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode.addresses import End
from ibdissect.decode.equal_rows import mix
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import AgentId, Side
from ibdissect.mad.agents import Agents
from ibdissect.mad.request_outcomes import AnsweredMany
from ibdissect.subnet import Subnet
from ibdissect.wire.convert import timeout_ns
from ibdissect.wire.numbers import ASKED_OF_ALL, SMP_CLASSES

LIFETIME = 18
"""Code of a subnet's packet lifetime if unknown: 1.07 s, the default of managers."""
MAX_SLOW, MAX_OPTIONAL = 1024, 4096


class SlowAnswers:
    """The longest time that agents took for an answer, if it was more than a second, since the latest try. One per capture."""

    learns_from: ClassVar = AnsweredMany

    def __init__(self) -> None:
        self.longest = KeptDict[AgentId, int](MAX_SLOW, "agents that answer slowly")

    def take(self, event: AnsweredMany) -> None:
        """Note slow answers: usually there are none."""
        for one in event.some(event.latency_ns > SECOND_NS):
            agent = AgentId(Side.of(one.request.target), one.request.mgmt_class)
            if one.latency_ns > self.longest.get(agent, 0):
                self.longest.keep(agent, one.latency_ns, one.frame, one.time_ns)

    def of(self, mgmt_class: int, target: End) -> int:
        """How long an agent took at most, in ns; 0: never more than a second."""
        return AFTER_ALL if self.longest.dropped.count else self.longest.get(AgentId(Side.of(target), mgmt_class), 0)


class OptionalAgents:
    """The nodes that answered requests of a class which not every node has. Others may lack its agent, and drop them. One per capture."""

    learns_from: ClassVar = AnsweredMany

    def __init__(self) -> None:
        self.seen = KeptDict[AgentId, None](MAX_OPTIONAL, "agents of classes that not every node has")

    def take(self, event: AnsweredMany) -> None:
        """Note who answered, once a chunk."""
        wanted = np.isin(event.mgmt_class, [*ASKED_OF_ALL], invert=True)
        if not wanted.any():
            return
        index = event.by_columns[wanted[event.by_columns]]
        to = event.mads.destination.take(event.asked[index])
        _, first = np.unique(mix([to.high, to.low, to.network, event.mgmt_class[index]]), return_index=True)
        wanted[np.delete(index, first)] = False
        for one in event.some(wanted):
            self.seen.keep(AgentId(Side.of(one.request.target), one.request.mgmt_class), None, one.frame, one.time_ns)

    def may_lack(self, mgmt_class: int, target: End) -> bool:
        """Whether a node may have no agent of a class: it never answered there."""
        return mgmt_class not in ASKED_OF_ALL and self.seen.surely_lacks(AgentId(Side.of(target), mgmt_class))


def announced(agents: Agents, subnet: Subnet, mgmt_class: int, target: End, frame: int) -> tuple[int, int]:
    """The longest time until an agent's answer, in ns, as known at a frame, and the frame that announced it; 0 and AFTER_ALL if none did.

    It is the RespTimeValue of the port (subnet management) or of the class, plus twice the packet lifetime of the subnet (IBA 13.4.6.2).
    `target`: where the request goes.
    """
    lid = target.lid
    port = subnet.owner(lid, frame)[0] if lid is not None else None
    info, shown = port.info_at(frame) if port is not None else (None, 0)
    agent, since = (info, shown) if mgmt_class in SMP_CLASSES else agents.at(AgentId(Side.of(target), mgmt_class), frame)
    if agent is None:
        return 0, AFTER_ALL
    return timeout_ns(agent.resp_time_value) + 2 * lifetime_ns(subnet, lid, frame), since


def lifetime_ns(subnet: Subnet, lid: int | None, frame: int, unknown: int = LIFETIME) -> int:
    """The packet lifetime of the subnet as a port knew it at a frame, in ns; that of the code `unknown` if its PortInfo was not seen."""
    port = subnet.owner(lid, frame)[0] if lid is not None else None
    info = port.info_at(frame)[0] if port is not None else None
    return timeout_ns(info.subnet_time_out if info is not None else unknown)
