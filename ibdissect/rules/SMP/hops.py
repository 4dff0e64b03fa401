"""Directed routes that leave by a port that no node, or not that switch, has; status bits that an SMP does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.capture.gather import gather
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import groups, members
from ibdissect.decode.identity import RouteId, SenderId
from ibdissect.engine.ports import Hop
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Rule, Seen, fault, on_event
from ibdissect.rules.shared.mad_conditions import BY_SMP
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Node
from ibdissect.subnet.smp_columns import Smps
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.expr import Where
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_IB, MAD
from ibdissect.wire.numbers import FIRST_VENDOR, GET_RESP, NODE_INFO, SM_INFO
from ibdissect.wire.sm import DR_MAX_HOPS, SMPDirected

SWAPPED = 0x0700
"""OpenSM's status 7 of SMInfo, in the wrong byte order (smi_rcv_check_set_req_legality)."""
MAX_WAYS = 4096
"""Distinct routes of a chunk that are compared with the ports of their switches."""


def _zero_hop(table: ChunkTable) -> Bool:
    """Outbound directed SMPs with a 0 among the hops of their path."""
    at = table.occurrences(SMPDirected).at
    hops = value_at(table.chunk.data, at, SMPDirected.hop_count)
    zero: Bool = (hops > 0) & (hops <= DR_MAX_HOPS)
    some = np.flatnonzero(zero)
    zero[some] = value_at(table.chunk.data, at[some], SMPDirected.d) == 0
    some = np.flatnonzero(zero)
    longest = int(hops[some].max(initial=0))
    path = gather(table.chunk.data, at[some] + SMPDirected.initial_path.span[0] + 1, longest)
    zero[some] = ((path == 0) & (np.arange(longest, dtype=np.uint8) < hops[some, None])).any(axis=1)
    return zero


class ZeroHop(Rule):
    """A directed route leaves a node by port 0.

    Each byte of the path is the number of an output port, from 1 on. Port 0 of a switch has no cable: the packet ends there.

    Correct the sender: a hop was cleared, or the hop count is too large for the path.
    """

    code, name, severity = "SMP026", "dr-zero-hop", ERROR
    reference = "IBA 14.2.2.2"
    when = Where(SMPDirected.initial_path, _zero_hop, of_content=True)
    flow = (LRH.slid, SMPDirected.initial_path)
    message = "the route of {hop_count:hop} leaves a node by port 0 at hop {hop}"
    example = "a directed-route SubnGet with HopCount 3 and InitialPath 0,1,0,2"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        view: SMPDirected = seen.table.view(SMPDirected, i)
        return {"hop": view.initial_path.index(0, 1)}


class HopBeyondPorts(LearntFactRule):
    """A directed route leaves a switch by a port that the switch does not have.

    The switch discards the packet: it looks as if the node behind were dead.

    Compare the path with NodeInfo.NumPorts of the switches on it.

    The request, and NodeInfo of the switch at that hop, which answered by the first part of the route.
    """

    code, name, severity = "SMP027", "dr-hop-beyond-ports", WARNING
    reference = "IBA 14.2.2.2, 14.2.5.3"
    message = "the route {route} leaves {node} by port {number}, which has {ports:port}"
    example = "NodeInfo of a switch with 8 ports at route 0,1, then a SubnGet along 0,1,9"
    at = SMPDirected.initial_path
    holds_ns, read, of_size = CONFIGURED_NS, (NODE_INFO,), True

    def stands(self, hit: Hit, context: Context) -> bool:
        """Whether no route of the capture ever changed its end: then none is known."""
        return not context.get(FabricFollower).routes.turned

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        smps: Smps = event.smps.smps
        routes = context.get(FabricFollower).routes
        switches = (node for node in event.subnet.slots.values() if node.kind == SWITCH)
        least = min((_ports_since(node, event.table.chunk.first) for node in switches), default=0xFF)  # most routes stay below it
        asks = np.flatnonzero(smps.pure & (smps.method != GET_RESP) & (smps.paths[:, 1:] > least).any(axis=1))
        starts, which = groups([smps.senders[asks], *smps.paths[asks].view(np.uint64).T])
        ways = members(which, len(starts))
        good = set[RouteId]()
        """Routes that leave no switch by a port that it may lack: most routes are one of them and a further hop."""
        for way in np.argsort(starts)[:MAX_WAYS].tolist() if not routes.turned else ():
            index = asks[ways[way]]
            sender, path = SenderId(smps.sender(index[0])), smps.path(index[0])
            so_far = True
            for length in range(len(path) - 1 if RouteId(sender, path[:-1]) in good else 0, len(path)):
                hop = routes.end_of(sender, path[:length])
                if hop is None or hop.node.kind != SWITCH or path[length] <= _ports_since(hop.node, event.table.chunk.first):
                    if so_far:
                        good.add(RouteId(sender, path[: length + 1]))
                    continue
                so_far = False
                first = next((i for i in index.tolist() if _beyond(hop, path[length], event.table.chunk.first + int(smps.rows[i]))), None)
                if first is None:
                    continue
                seen, node = Seen(event.table, int(smps.rows[first])), hop.node
                facts, since = node.facts_at(seen.frame)
                route, name = ",".join(map(str, (0, *path))), f"0x{node.guid:016x}"
                about = {"route": route, "node": name, "number": path[length], "ports": facts.num_ports}
                yield fault(
                    seen, about, self.at, start=int(smps.mad[first]), proof=[(since, f"NodeInfo: {facts.num_ports} ports")],
                    rows=smps.rows[index[index >= first]], key=(sender, path), about=(node.slot,),
                )  # fmt: skip
                break


def _ports_since(node: Node, frame: int) -> int:
    """How many ports a switch has, as is known now and since before a frame; 0 if that is not known."""
    return node.num_ports if node.changed < frame else 0


def _beyond(hop: Hop, number: int, frame: int) -> bool:
    """Whether the switch at the end of a route was known to have fewer ports when a frame was sent."""
    node: Node = hop.node
    facts, since = node.facts_at(frame)
    return 0 < facts.num_ports < number and max(since, hop.frame) < frame


class ClassStatusUndefined(Rule):
    """The answer to an SMP has class-specific status bits.

    Subnet management defines none: bits 14-8 of its status are 0 (bit 15 is the direction of a directed route). A receiver that compares
    the whole status with 0 takes a good answer for a refusal.

    Update the firmware of the port.

    One answer is enough. What answers about vendors' attributes (0xff00 and above) say is their vendors'. OpenSM refuses a Set(SMInfo) with
    0x0700, 7 in the wrong byte; that is not reported.
    """

    code, name, severity = "SMP028", "smp-class-status", WARNING
    reference = "IBA 14.2.1.1, 13.4.7"
    when = (
        ((MAD.status & 0x7F00) != 0) & ~((MAD.attribute_id == SM_INFO) & ((MAD.status & 0x7FFF) == SWAPPED))
        & (MAD.method == GET_RESP) & BY_SMP & (MAD.base_version == BASE_VERSION_IB) & (MAD.attribute_id < FIRST_VENDOR)
    )  # fmt: skip
    at = MAD.status
    flow = (LRH.slid, LRH.dlid, MAD.status)
    message = "status 0x{status:04x} has class-specific bits (14-8), of which subnet management has none"
    example = "a SubnGetResp with status 0x0100"
