"""Packets on a virtual lane that their service level never maps to, or with a service level that is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.identity import Content
from ibdissect.decode.native_packets import Native
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Rule, Seen, fault, on_event
from ibdissect.rules.LNK.path_through_ports import complete_since
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.stretches import stretches
from ibdissect.subnet import SWITCH, ChunkFollowed, Port, Subnet
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.headers import LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, LID_COUNT, MANAGEMENT_VL, SL_TO_VL

SLS, VLS = 16, 16
DROPPED = MANAGEMENT_VL
"""Tables map an SL to the lane of management where its packets are to be dropped (IBA 7.6.6)."""
LATEST = "the latest SL to VL table"
OPERATIONAL = (15, 7, 3, 1, 0)
"""The lanes that ports with fewer lanes than their table names may use instead; opensm masks tables like this (osm_qos.c)."""
MAX_KEPT = 256
"""Most suspicious flows that are judged one by one per chunk."""


class MappedToNothing(Rule):
    """A packet has a service level that its sender's own table drops.

    A port drops packets of an SL that is mapped to VL 15 before they leave. If it still sends one, it uses another table than the subnet
    manager wrote, or the packet carries another port's LID.

    Compare the SL of the path (PathRecord) with the SL to VL table of the port (smpquery sl2vl); opensm's `qos_*_sl2vl` options
    may have switched the SL off while the connection was open.

    The packet, and the latest SL to VL table of the adapter or router with its source LID. Silent for ports that have one data VL, or no
    such table (IsSLMappingSupported).
    """

    code, name, severity = "LNK018", "sl-mapped-to-vl15", INFO
    reference = "IBA 7.6.6; opensm osm_qos.c"
    message = "LID {slid} sends with SL {sl}, which {port} maps to VL 15: it is dropped"
    example = "SLtoVLMappingTable of an adapter with SL 5 to VL 15, then a packet of it with SL 5"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        subnet = event.subnet
        if not subnet.mapped:
            return
        native = event.table.once(Native)
        suspects = [lid for lid in native.slids[native.slids < FIRST_MULTICAST].tolist() if _drops(subnet, lid)]
        if not suspects:
            return
        suspicious = np.zeros(LID_COUNT, np.bool_)
        suspicious[suspects] = True
        index = np.flatnonzero(suspicious[native.slid] & (native.vl != MANAGEMENT_VL))
        for flow, where in by_value(native.slid[index] * SLS + native.sl[index]):
            lid, sl = divmod(flow, SLS)
            lanes = (port.qos.changes() for port in subnet.owners(lid) if port.qos is not None)
            changes = subnet.changes(lid, after=event.table.chunk.first).union(*lanes)
            for seen, mine in stretches(event.table, native.rows[index[where]], changes):
                frame = seen.frame
                port, since = subnet.owner(lid, frame)
                if port is None or port.qos is None or not port.drops(sl, frame):
                    continue
                yield fault(
                    seen, {"slid": lid, "sl": sl, "port": port.name_at(frame)}, LRH.sl, sl, rows=mine, key=flow,
                    proof=[(max(port.qos.maps_frame(frame), since), LATEST)],
                )  # fmt: skip


def _drops(subnet: Subnet, lid: int) -> bool:
    """Whether an owner of a LID maps, or mapped lately, an SL to VL 15."""
    tables = (port.qos.tables() for port in subnet.owners(lid) if port.qos is not None and port.node.kind != SWITCH)
    return any(pair >> 4 == DROPPED or pair & 15 == DROPPED for some in tables for entries in some for pair in entries)


class UnmappedLane(LearntFactRule):
    """A packet uses a virtual lane that no port of the subnet maps its service level to.

    It travels in a lane with other credits and another share than the subnet manager planned, which may end in a deadlock.

    Compare the SL to VL tables along the path (smpquery sl2vl): one of the ports does not use the table it was given.

    The packet; all ports of the subnet, and the SL to VL tables of all that are cabled. Silent while any of them is unknown; a
    Set of the optimised form makes those that it selects unknown. An `info` where the capture would not have shown a change.
    """

    code, name, severity = "LNK017", "sl-vl-mapping-mismatch", WARNING
    reference = "IBA 7.6.6"
    message = "SL {sl} on VL {vl} from LID {slid} to LID {dlid}; no port of the subnet maps that SL to that VL"
    example = "SL to VL tables of all ports of a subnet that map SL 0 to VL 0, then a packet with SL 0 on VL 1"
    written = (SL_TO_VL,)
    holds_ns = CONFIGURED_NS
    of_all_ports = True

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        subnet = event.subnet
        native = event.table.once(Native)
        if not subnet.mapped or not len(native.rows):
            return
        nodes = (*subnet.slots.values(), *subnet.gone.values())
        known = [port.qos for node in nodes for port in node.ports.values() if port.qos is not None]
        used = _mapped({table for qos in known for table in qos.tables()})
        steady = not subnet.gone and not any(qos.replaced for qos in known)
        index = np.flatnonzero((~used[native.sl, native.vl] if steady else native.sl < SLS) & (native.vl != MANAGEMENT_VL))
        frames = native.rows[index] + event.table.chunk.first
        complete = complete_since(frames, lambda frame: _complete(subnet, frame)) if used.any() else np.zeros(len(index), np.int64)
        for since in sorted(set(complete[complete > 0].tolist())):
            some = index[complete == since]
            if not steady:
                used = _mapped(_tables(subnet, since))
                some = some[~used[native.sl[some], native.vl[some]]]
            yield from self._found(event, native, some, since)

    def _found(self, event: ChunkFollowed, native: Native, index: Int, since: int) -> Iterator[Hit]:
        lane = native.sl[index] << 4 | native.vl[index]
        ways = native.slid[index] << 24 | native.dlid[index] << 8 | lane
        for flow, where in islice(by_value(ways), MAX_KEPT):
            sl, vl = flow >> 4 & 15, flow & 15
            row = int(native.rows[index[where[0]]])
            sender = event.subnet.owner(flow >> 24, event.table.chunk.first + row)[0]
            if sender is None or sender.node.kind == SWITCH:  # the table for input port 0 is not known
                continue
            yield fault(
                Seen(event.table, row), {"sl": sl, "vl": vl, "slid": flow >> 24, "dlid": flow >> 8 & 0xFFFF}, LRH.sl, sl,
                proof=[(since, LATEST)], rows=native.rows[index[where]], key=flow,
            )  # fmt: skip


def _mapped(tables: Iterable[bytes]) -> Bool:
    """Which VL some table maps each SL to, bool[16, 16]."""
    used = np.zeros((SLS, VLS), np.bool_)
    for table in tables:
        if len(table) == SLS // 2:
            lanes = np.frombuffer(table, np.uint8)
            for mask in OPERATIONAL:
                used[np.arange(0, SLS, 2), lanes >> 4 & mask] = True
                used[np.arange(1, SLS, 2), lanes & mask] = True
    return used


def _tables(subnet: Subnet, frame: int) -> set[Content]:
    """The SL to VL tables in force when `frame` was sent."""
    qos = [port.qos for port in subnet.ports_at(frame) if port.qos is not None]
    return {table for one in qos for number in one.numbers() if (table := one.map_at(number, frame)) is not None}


def _complete(subnet: Subnet, frame: int) -> tuple[bool, int]:
    """Whether all of the subnet and the tables of all cabled ports were known when `frame` was sent, and since when that was so."""
    whole, latest = subnet.swept(frame)
    if not whole:
        return False, latest
    for node in subnet.nodes_at(frame):
        cabled = [port for port in node.ports.values() if port.facing_at(frame)[0] is not None]
        inputs = [port.number for port in cabled]
        for port in cabled:
            if port.qos is None or not _known(port, inputs) or frame < port.qos.since:
                return False, max(port.facing_at(frame)[1] for port in cabled)
            latest = max(latest, port.qos.maps_frame(frame))
    return True, latest


def _known(port: Port, inputs: list[int]) -> bool:
    assert port.qos is not None
    if port.node.kind != SWITCH:
        return port.qos.map(0) is not None
    return all(port.qos.map(number) is not None for number in inputs if number != port.number)
