"""Performance management requests to agents that do not support them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import ends_at
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import AgentId, Code, LidId, NodeId, Side
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Seen, fault, on_chunk, on_event
from ibdissect.mad.agents import Agents
from ibdissect.mad.datagrams import Queries
from ibdissect.rules.shared.agent_rule import AgentFacts, in_subnet, nodes_at, same_agent
from ibdissect.rules.shared.answered_packets import Reply
from ibdissect.rules.shared.link_rule import flows
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower
from ibdissect.subnet.earlier_answers import NodeInfos
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET, GET_RESP, PM_CLASS, PORT_INFO, SET
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.spec import Field, field_named
from ibdissect.wire.text import counted

ALL_PORT_SELECT, XMIT_WAIT = 1 << 8, 1 << 12
"""Bits of ClassPortInfo.CapabilityMask of performance management (Linux ib_pma.h)."""
ALL_PORTS = 255
SEVERAL = 2
"""An agent may answer for one port that its node lacks; one that answers for so many is another node's."""
MAX_NODES = 65536


class AgentRule(AgentFacts):
    """Base of rules about requests to agents that announced their capabilities."""

    evidence = (
        "The ClassPortInfo that the agent answered before the request. Silent for agents without one, where it was asked for again and the "
        "capture does not show the answer, where the LID is another node's by then, and for requests with a GRH."
    )
    needs = (Agents,)
    lacks = 0
    """The missing capability."""
    asks: ClassVar[tuple[Field[int], ...]] = ()
    """Fields of which one, in a request, needs the capability; empty: PortSelect, wherever an attribute has it."""

    def suspicious(self, table: ChunkTable, rows: Int) -> Bool:
        """Which requests need the capability; `rows` are those of performance management."""
        raise NotImplementedError

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Agents are known from their answer on."""
        if not any(mgmt_class == PM_CLASS for mgmt_class, _ in table.attributes()):
            return
        asked = table.once(Queries)
        agents = context.get(Agents)
        mine = np.flatnonzero((asked.mgmt_class == PM_CLASS) & asked.asks & in_subnet(table, asked.rows))
        subnet = context.get(FabricFollower).subnet
        if not len(mine) or not agents.known:
            return
        for one in asked.each(mine[self.suspicious(table, asked.rows[mine])]):
            seen = Seen(table, one.rows)
            side = Side.of(ends_at(table, one.rows)[1])
            who = AgentId(side, PM_CLASS)
            agent, since = agents.at(who, seen.frame)
            if agent is None or agent.capability_mask & self.lacks or agents.asked_again(who, seen.frame):
                continue
            if not same_agent(context, side, since, seen.frame):
                continue
            at, view = next((at, view) for at in self.asks or port_selects(table) if (view := seen.first(at.owner)) is not None)
            yield fault(
                seen, {"mask": agent.capability_mask}, at, of=view, proof=[(since, "ClassPortInfo")], key=side,
                about=nodes_at(subnet, side, seen.frame),
            )  # fmt: skip


def _held(table: ChunkTable, field: Field[Any], rows: Int) -> Int:
    """A field of the first structure in each of some rows, int64[n]; 0 where there is none."""
    if not len(table.occurrences(field.owner)):
        return np.zeros(len(rows), np.int64)
    index = table.first(field.owner)[rows]
    return np.where(index >= 0, table.values(field)[index].astype(np.int64), 0)


def port_selects(table: ChunkTable) -> list[Field[int]]:
    """The field PortSelect of each performance management attribute in the chunk that has one."""
    structs = [table.catalog.attribute(PM_CLASS, attribute, GET) for mgmt_class, attribute in table.attributes() if mgmt_class == PM_CLASS]
    fields = [field_named(struct, "port_select") for struct in structs if struct is not None]
    return [field for field in fields if field is not None]


class AllPortsUnsupported(AgentRule):
    """A request for all ports at once goes to an agent that cannot add them up.

    Such an agent refuses port 255 or answers for a port of its choice: the numbers mean something else than the reader thinks.

    Read the ports one by one; the agent's ClassPortInfo (bit 8 of CapabilityMask) says what it can do.
    """

    code, name, severity = "PM002", "allportselect-unsupported", WARNING
    reference = "IBA 16.1.2.1, 16.1.3.5; kernel ib_pma.h"
    message = "PortSelect 255 to an agent without AllPortSelect (CapabilityMask 0x{mask:04x})"
    example = "GetResp(ClassPortInfo) with CapabilityMask 0, then PerformanceGet(PortCounters) with PortSelect 255"
    lacks = ALL_PORT_SELECT

    def suspicious(self, table: ChunkTable, rows: Int) -> Bool:
        asks: Bool = reduce(or_, (_held(table, field, rows) == ALL_PORTS for field in port_selects(table)), np.zeros(len(rows), np.bool_))
        return asks


class XmitWaitUnsupported(AgentRule):
    """A request clears PortXmitWait at an agent that does not count it.

    Nothing is lost, but zeros read from such an agent do not mean that there was no congestion.

    Do not rely on PortXmitWait of this port; the agent's ClassPortInfo (bit 12 of CapabilityMask) says what it can do.
    """

    code, name, severity = "PM007", "xmitwait-unsupported", INFO
    reference = "IBA 16.1.3.5; kernel ib_pma.h; python-rdma portCountersXmitWaitSupported"
    message = "PortXmitWait selected at an agent that does not count it (CapabilityMask 0x{mask:04x})"
    example = "GetResp(ClassPortInfo) with CapabilityMask 0, then PerformanceSet(PortCounters) with CounterSelect2 1"
    lacks, asks = XMIT_WAIT, (PortCounters.counter_select2,)

    def suspicious(self, table: ChunkTable, rows: Int) -> Bool:
        clears: Bool = (_held(table, PortCounters.select_port_xmit_wait, rows) != 0) & (_held(table, MAD.method, rows) == SET)
        return clears


class NoSuchPort(LearntFactRule):
    """A request is for counters of a port that the node does not have.

    Ports are numbered from 1 to NumPorts, and only switches have a port 0; the agent answers with an error or with nothing useful.

    Ask for a port that NodeInfo counts, or for 255 (all ports).

    The NodeInfo that the node answered before the request. Silent for LIDs whose node is not known, for requests with a GRH, and for nodes
    to which another agent redirected its requests. An `info` for a Get of port 0, for which perfquery asks where nobody names a port; where
    that LID answers for several such ports: it belongs to another node by now; and where a switch answers for one, or showed its ports long
    ago and the capture does not show its manager: it may have been restarted with its ports split.
    """

    code, name, severity = "PM001", "portselect-zero", WARNING
    reference = "IBA 16.1.3.5; python-rdma; kernel ib_pma.h"
    message = "request for {attribute} of port {number} to {port}, {why}"
    example = "NodeInfo of a channel adapter with LID 5, then PerfGet(PortCounters) to LID 5 with PortSelect 0"

    needs = (Agents,)
    holds_ns, of_size, written = CONFIGURED_NS, True, (PORT_INFO,)  # it gives the LID

    def __init__(self) -> None:
        self.served = KeptDict[NodeId, set[Code]](MAX_NODES, "nodes that answer for ports that they lack")
        """Numbers of such ports by the node with the LID, up to `SEVERAL` of them."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        slot, _, number, only_asks = hit.key
        node, served = context.get(FabricFollower).subnet.by_slot(slot), self.served.get(slot, set())
        split = node is not None and node.kind == SWITCH and number in served
        return INFO if only_asks or split or len(served) >= SEVERAL else super().severity_at_end(hit, context)

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        """An agent may answer for one port that its node lacks."""
        return False

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table = event.table
        infos: NodeInfos = context.get(NodeInfos)
        agents = context.get(Agents)
        infos.of(event)
        for field in port_selects(table):
            struct, found = field.owner, table.occurrences(field.owner)
            if not len(found):
                continue
            method = table.values_at(MAD.method, found.rows)
            lrh = table.located.at("lrh")[found.rows]
            numbers = table.values(field)
            good = (method == GET_RESP) & (table.values_at(MAD.status, found.rows) == 0)
            suspicious = (numbers != 1) & (numbers != ALL_PORTS)  # every node has a port 1
            index = np.flatnonzero((np.isin(method, (GET, SET)) | good) & suspicious & (lrh >= 0) & in_subnet(table, found.rows))
            slid, dlid = (value_at(table.chunk.data, lrh[index], lid) for lid in (LRH.slid, LRH.dlid))
            columns = np.where(good[index], slid, dlid), numbers[index], method[index]
            parts = [
                (seen, rows, port, lid, number, by)
                for (lid, number, by), seen, rows in flows(event, found.rows[index], columns, lids=1)
                if (port := event.subnet.owner(lid, seen.frame)[0]) is not None and port.node.guid
            ]
            parts.sort(key=lambda part: part[0].row)
            guids = np.array([port.node.guid for _, _, port, *_ in parts], np.uint64)
            answers = infos.at(guids.view(np.int64), np.array([seen.frame for seen, *_ in parts], np.int64))
            for (seen, rows, port, lid, number, by), body, since in zip(parts, *answers, strict=True):
                node = NodeInfo(body.tobytes())
                if not since or not node.num_ports or 0 < number <= node.num_ports or (number == 0 and node.node_type == SWITCH):
                    continue
                if by == GET_RESP:
                    served = self.served.get_or_make(NodeId(port.node.slot), set, seen.frame, seen.time_ns)
                    if served is not None and len(served) < SEVERAL:
                        served.add(number)
                    continue
                if agents.redirects.dropped.count or 0 < agents.redirects.get((PM_CLASS, LidId(lid)), AFTER_ALL) < seen.frame:
                    continue
                why = f"which has {counted(node.num_ports, 'port')}" if number else "which is no switch"
                hit = fault(
                    seen, {"lid": lid, "attribute": struct.title, "number": number, "port": port.name_at(seen.frame), "why": why},
                    field, number, proof=[(int(since), "NodeInfo")], rows=rows,
                    key=(port.node.slot, struct.title, number, not number and by == GET), about=(port.node.slot,),
                )  # fmt: skip
                hit.by_lid = True
                yield hit
