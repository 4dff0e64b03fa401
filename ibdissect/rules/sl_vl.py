"""Virtual lanes that no table of the subnet maps a service level to, and service levels that are dropped (LNK)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import FIRST_MULTICAST, SWITCH, Port, Subnet
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import INFO, WARNING, Hit, Rule, on_event
from ibdissect.table.locate import Bool
from ibdissect.table.table import ChunkTable
from ibdissect.wire.link import LRH

from .link_state import swept
from .pkey_columns import Native

LIDS, SLS, VLS = 1 << 16, 16, 16
MANAGEMENT_VL = DROPPED = 15
OPERATIONAL = (15, 7, 3, 1, 0)
"""What ports with fewer lanes than their table names may leave of a lane; opensm masks tables so (osm_qos.c)."""
MAX_KEPT = 256
"""Suspicious flows of a chunk that are looked at alone."""


class MappedToNothing(Rule):
    """A packet has a service level that its sender's own table drops.

    ## Why it matters
    An SL mapped to VL 15 is switched off: the port drops such packets before they leave. Who sends one uses another table than
    the subnet manager wrote, or another port's LID.

    ## What to do
    Compare the SL of the path (PathRecord) with the SL to VL table of the port (smpquery sl2vl); opensm's `qos_*_sl2vl` options
    may have switched the SL off while the connection was open.
    """

    code, name, severity = "LNK018", "sl-mapped-to-vl15", INFO
    reference = "IBA 7.6.6; opensm osm_qos.c"
    message = "LID {slid} sends with SL {sl}, which {port} maps to VL 15: it is dropped"
    example = "SLtoVLMappingTable of an adapter with SL 5 to VL 15, then a packet of it with SL 5"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        subnet = event.subnet
        if not subnet.lids:
            return
        native: Native = context.get(Native).of(event.table)
        drops: dict[int, tuple[list[bool], int]] = {}
        for lid in native.slids[native.slids < FIRST_MULTICAST].tolist():
            port = subnet.by_lid(lid)
            if port is not None and port.qos is not None and port.node.kind != SWITCH:
                entries = port.qos.map(0)
                if entries is not None and any(pair >> 4 == DROPPED or pair & 15 == DROPPED for pair in entries):
                    drops[lid] = [port.qos.vl(0, sl) == DROPPED for sl in range(SLS)], max(port.qos.frame, port.lids.since)
        if not drops:
            return
        dropped, since = np.zeros((LIDS, SLS), np.bool_), np.zeros(LIDS, np.int64)
        for lid, (lanes, frame) in drops.items():
            dropped[lid], since[lid] = lanes, frame
        index = np.flatnonzero(dropped[native.slid, native.sl] & (native.vl != MANAGEMENT_VL))
        index = index[native.rows[index] + event.table.chunk.first > since[native.slid[index]]]
        flows, first, counts = np.unique(native.slid[index] * SLS + native.sl[index], return_index=True, return_counts=True)
        for flow, at, count in zip(flows.tolist(), first.tolist(), counts.tolist(), strict=True):
            lid, sl = divmod(flow, SLS)
            port = subnet.by_lid(lid)
            assert port is not None
            arguments = {"slid": lid, "sl": sl, "port": str(port)}
            yield _hit(event.table, int(native.rows[index[at]]), arguments, (int(since[lid]),), count, flow, sl)


class UnmappedLane(Rule):
    """A packet uses a virtual lane that no port of the subnet maps its service level to.

    ## Why it matters
    It travels in a lane with other credits and another share than the subnet manager planned, which may end in a deadlock.

    ## What to do
    Compare the SL to VL tables on the way (smpquery sl2vl): one of the ports does not use what it was given. Judged only when
    all ports of the subnet and the tables of all cabled ones are known.
    """

    code, name, severity = "LNK017", "sl-vl-mapping-mismatch", WARNING
    reference = "IBA 7.6.6; seed000 SLtoVLMappingTable"
    message = "SL {sl} on VL {vl} from LID {slid} to LID {dlid}; no port of the subnet maps that SL to that VL"
    example = "SL to VL tables of all ports of a subnet that map SL 0 to VL 0, then a packet with SL 0 on VL 1"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        subnet = event.subnet
        native: Native = context.get(Native).of(event.table)
        if not subnet.lids or not len(native.rows):
            return
        used = _mapped(subnet)
        if used is None:
            return
        index = np.flatnonzero(~used[native.sl, native.vl] & (native.vl != MANAGEMENT_VL))
        if not len(index):
            return
        complete = _complete(subnet)
        index = index[native.rows[index] + event.table.chunk.first > complete] if complete else index[:0]
        lane = native.sl[index] << 4 | native.vl[index]
        flows, first, counts = np.unique(native.slid[index] << 24 | native.dlid[index] << 8 | lane, return_index=True, return_counts=True)
        for flow, at, count in list(zip(flows.tolist(), first.tolist(), counts.tolist(), strict=True))[:MAX_KEPT]:
            sl, vl = flow >> 4 & 15, flow & 15
            sender = subnet.by_lid(flow >> 24)
            if sender is None or sender.node.kind == SWITCH:  # the table for port 0 as input is not looked for
                continue
            arguments = {"sl": sl, "vl": vl, "slid": flow >> 24, "dlid": flow >> 8 & 0xFFFF}
            yield _hit(event.table, int(native.rows[index[at]]), arguments, (complete,), count, flow, sl)


def _mapped(subnet: Subnet) -> Bool | None:
    """Which VL some port maps each SL to, bool[16, 16]; None when no table is known."""
    used = np.zeros((SLS, VLS), np.bool_)
    tables = {table for port in subnet.ports() if port.qos is not None for table in (port.qos.first, *(port.qos.others or {}).values())}
    for table in tables:
        if len(table) == SLS // 2:
            lanes = np.frombuffer(table, np.uint8)
            for mask in OPERATIONAL:
                used[np.arange(0, SLS, 2), lanes >> 4 & mask] = True
                used[np.arange(1, SLS, 2), lanes & mask] = True
    return used if used.any() else None


def _complete(subnet: Subnet) -> int:
    """Frame by which all of the subnet and the tables of all cabled ports were known, and since which none changed; 0 when some are not."""
    latest = swept(subnet)
    if not latest:
        return 0
    for node in subnet.slots.values():
        cabled = [port for port in node.ports.values() if port.peer is not None]
        inputs = [port.number for port in cabled]
        for port in cabled:
            if port.qos is None or not _known(port, inputs):
                return 0
            latest = max(latest, port.qos.frame, port.peer_frame)
    return latest


def _known(port: Port, inputs: list[int]) -> bool:
    assert port.qos is not None
    if port.node.kind != SWITCH:
        return port.qos.map(0) is not None
    return all(port.qos.map(number) is not None for number in inputs if number != port.number)


def _hit(table: ChunkTable, row: int, arguments: dict[str, object], taught: tuple[int, ...], count: int, key: int, sl: int) -> Hit:
    low, high = LRH.sl.span
    frame, start = table.chunk.first + row, int(table.located.at("lrh")[row] - table.chunk.offset[row])
    return Hit(
        frame=frame,
        time_ns=int(table.chunk.time_ns[row]),
        arguments=arguments,
        spans=(Span(frame, start + low, high - low),),
        field=LRH.sl,
        value=sl,
        related=tuple(Related(one, "the latest SL to VL table") for one in taught),
        evidence=Evidence.LEARNT,
        count=count,
        key=key,
    )
