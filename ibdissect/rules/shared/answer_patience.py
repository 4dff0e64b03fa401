"""The time that an agent may take for an answer, as its port and its class announced before."""

from __future__ import annotations

from ibdissect.decode.addresses import End
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import AgentId, Side
from ibdissect.mad.agents import Agents
from ibdissect.subnet import Subnet
from ibdissect.wire.convert import timeout_ns
from ibdissect.wire.numbers import SMP_CLASSES

LIFETIME = 18
"""Code of a subnet's packet lifetime if unknown: 1.07 s, the default of managers."""


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
