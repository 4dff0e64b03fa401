"""Agents of management classes, as their ClassPortInfo announces them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import ends_at
from ibdissect.decode.history import History
from ibdissect.decode.identity import AgentId, Code, Frame, LidId, Side
from ibdissect.wire.classport import ClassPortInfo
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CLASS_PORT_INFO, GET, GET_RESP

from .datagrams import Queries

MAX_AGENTS, MAX_WAITS, MAX_REDIRECTS = 65536, 16384, 4096
"""Agents remembered; the oldest is evicted first."""


class Agent(Record, frozen=True):
    """What an agent last announced."""

    capability_mask: int
    resp_time_value: int
    """Code of its longest response time: 4.096 us * 2^code."""


class Agents:
    """All agents of a capture. One per capture; feed chunks in order."""

    def __init__(self) -> None:
        self.redirects = KeptDict[tuple[Code, LidId], Frame](MAX_REDIRECTS, "agents that speak for others")
        """Management class and LID to which another agent sends its requests (IBA 13.5.2), and the frame of the first such answer."""
        self.known = BoundedDict[AgentId, History[Agent]](MAX_AGENTS, "management agents")
        """Announcements over time."""
        self.waits = BoundedDict[AgentId, History[bool]](MAX_WAITS, "management agents that were asked again")
        """Whether an agent that announced something was asked for it again, and did not answer, over time."""

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process a chunk; emits no events."""
        asked = table.once(Queries)
        about = asked.attribute == CLASS_PORT_INFO
        infos = np.flatnonzero(about & (asked.method == GET_RESP))
        rows = asked.rows[infos]
        for one in asked.each(infos[table.first(ClassPortInfo)[rows] >= 0]):
            to = table.view(ClassPortInfo, int(table.first(ClassPortInfo)[one.rows])).redirect_lid
            if to:
                frame = table.chunk.first + one.rows
                self.redirects.keep((one.mgmt_class, LidId(to)), frame, frame, int(table.chunk.time_ns[one.rows]))
        for one in asked.each(infos[(table.values_at(MAD.status, rows) == 0) & (table.first(ClassPortInfo)[rows] >= 0)]):
            view: ClassPortInfo = table.view(ClassPortInfo, int(table.first(ClassPortInfo)[one.rows]))
            agent = AgentId(Side.of(ends_at(table, one.rows)[0]), one.mgmt_class)
            frame, time_ns = table.chunk.first + one.rows, int(table.chunk.time_ns[one.rows])
            known = self.known.get(agent)
            if known is None:
                known = History()
                self.known.put(agent, known, frame, time_ns)
            known.learn(Agent(view.capability_mask, view.resp_time_value), frame)
        for one in asked.each(np.flatnonzero(about & np.isin(asked.method, (GET, GET_RESP)))) if self.known else ():
            source, target = ends_at(table, one.rows)
            agent = AgentId(Side.of(source if one.method == GET_RESP else target), one.mgmt_class)
            if agent in self.known:
                frame, time_ns = table.chunk.first + one.rows, int(table.chunk.time_ns[one.rows])
                if agent not in self.waits:
                    self.waits.put(agent, History(), frame, time_ns)
                self.waits[agent].learn(one.method == GET, frame)
        return ()

    def at(self, agent: AgentId, frame: int) -> tuple[Agent | None, int]:
        """What an agent had announced when `frame` was sent, and the frame that announced it first."""
        known = self.known.get(agent)
        return known.at(frame) if known is not None else (None, 0)

    def asked_again(self, agent: AgentId, frame: int) -> bool:
        """Whether an agent was asked again before `frame`, without an answer: it may have told something else."""
        known = self.waits.get(agent)
        return known is not None and bool(known.at(frame)[0])
