"""Management packets that do not fit the node they reach (SMP, PM, MKY)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric import Follower
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import CA, ROUTER
from ibdissect.fabric.told import PortInfos
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span, value_of
from ibdissect.lint.rule import INFO, WARNING, Hit, Rule, on_event
from ibdissect.table.locate import u16
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.pm import PortCounters, PortCountersExtended
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.sm_port import PortInfo

from .learnt import DATA_AT, name_of
from .site import foreign_keys_held

PERMISSIVE = 0xFFFF
MAX_KEYS = 65536
"""Ports whose writers are remembered."""


class EndsAtLid(Rule):
    """A directed route ends at an adapter or router and still names a LID to go on to.

    ## Why it matters
    Behind the last hop only a switch passes the packet on by DrDLID; an adapter or router drops it.

    ## What to do
    Let the sender use the permissive LID for DrDLID when the route ends at the node it means.
    """

    code, name, severity = "SMP005", "dr-outbound-end-dlid", WARNING
    reference = "IBA 14.2.2.2 (C14-9); kernel smi.c"
    message = "directed route of {hops} hops ends at {node}, DrDLID is {dr_dlid}"
    example = "a sweep, then a SubnGet to a channel adapter by directed route with HopPointer = HopCount and DrDLID 5"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        found = event.table.occurrences(SMPDirected)
        if not len(found):
            return
        values = event.table.values
        far = (values(SMPDirected.dr_dlid) != PERMISSIVE) & (values(SMPDirected.dr_slid) == PERMISSIVE)
        if not far.any():
            return
        out = (values(SMPDirected.smp_status) & 0x8000) == 0
        ended = values(SMPDirected.hop_pointer) == values(SMPDirected.hop_count)
        follower: Follower = context.get(Follower)
        for i in np.flatnonzero(out & ended & far & (values(SMPDirected.hop_count) < 64)).tolist():
            view: Any = event.table.view(SMPDirected, i)
            tid = MAD(view.buffer, view.offset).transaction_id
            path = bytes(view.initial_path[1 : view.hop_count + 1])
            origin = follower.routes.origins.get(tid >> 32)
            hop = follower.routes.directed(origin, path) if origin is not None else None
            row = int(found.rows[i])
            frame = event.table.chunk.first + row
            if hop is None or hop.node.kind not in (CA, ROUTER) or hop.frame >= frame:
                continue
            low, high = SMPDirected.dr_dlid.span
            yield Hit(
                frame=frame,
                time_ns=int(event.table.chunk.time_ns[row]),
                arguments={"hops": len(path), "node": f"0x{hop.node.guid:016x}", "dr_dlid": view.dr_dlid},
                spans=(Span(frame, view.offset + low, high - low),),
                field=SMPDirected.dr_dlid,
                value=view.dr_dlid,
                related=(Related(hop.frame, "NodeInfo from the end of the route"),),
                evidence=Evidence.LEARNT,
                key=(tid >> 32, path),
            )


class NoReturnPath(Rule):
    """A returning directed SMP has a hole in the path that leads it back.

    ## Why it matters
    Every node on the way out writes the port the packet came in by; ports count from 1. The switch with the hole drops the answer.

    ## What to do
    Update the firmware of the switch that left the entry empty.
    """

    code, name, severity = "SMP010", "dr-return-path-port", INFO
    reference = "IBA 14.2.2.2; kernel smi.c"
    on = SMPDirected
    message = "directed SMP on its way back at hop {hop} of {hops}: ReturnPath[{hop}] is 0"
    example = "a directed GetResp with HopPointer 2, HopCount 2 and ReturnPath 0"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        found = event.table.occurrences(SMPDirected)
        if not len(found):
            return
        values = event.table.values
        pointer = values(SMPDirected.hop_pointer)
        back = ((values(SMPDirected.smp_status) & 0x8000) != 0) & (pointer > 0) & (pointer < 64)
        back &= pointer <= values(SMPDirected.hop_count)
        index = np.flatnonzero(back)
        if not len(index):
            return
        hops = np.arange(int(pointer[index].max()) + 1, dtype=np.uint8)
        path = values(SMPDirected.return_path)[index, : len(hops)]
        ahead = (hops >= 1) & (hops <= pointer[index][:, None])
        for j in np.flatnonzero(((path == 0) & ahead).any(axis=1)).tolist():
            i, row = int(index[j]), int(found.rows[index[j]])
            frame = event.table.chunk.first + row
            hop = int(np.flatnonzero((path[j] == 0) & ahead[j])[0])
            start = int(found.at[i] - event.table.chunk.offset[row]) + SMPDirected.return_path.bit // 8
            yield Hit(
                frame=frame,
                time_ns=int(event.table.chunk.time_ns[row]),
                arguments={"hop": hop, "hops": int(values(SMPDirected.hop_count)[i])},
                spans=(Span(frame, start + hop, 1),),
                field=SMPDirected.return_path,
                key=hop,
            )


class PortSelectZero(Rule):
    """Counters of port 0 are asked of an adapter or router.

    ## Why it matters
    Only switches have a port 0; the agent answers with an error or with nothing useful.

    ## What to do
    Ask for port 1, or 255 for all ports.
    """

    code, name, severity = "PM001", "portselect-zero", WARNING
    reference = "IBA 16.1.3.5; seed004; kernel ib_pma.h"
    message = "{attribute} of port 0 is asked of {port}, which is no switch"
    example = "NodeInfo of a channel adapter with LID 5, then PerfGet(PortCounters) to LID 5 with PortSelect 0"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table = event.table
        for struct in (PortCounters, PortCountersExtended):
            found = table.occurrences(struct)
            if not len(found):
                continue
            method = table.chunk.data[table.located.at("mad")[found.rows] + MAD.method.bit // 8]
            lrh = table.located.at("lrh")[found.rows]
            asked = np.isin(method, (0x01, 0x02)) & (table.values(struct.port_select) == 0) & (lrh >= 0)
            index = np.flatnonzero(asked)
            dlid = u16(table.chunk.data, lrh[index] + LRH.dlid.bit // 8)
            for i, lid in zip(index.tolist(), dlid.tolist(), strict=True):
                row = int(found.rows[i])
                frame = table.chunk.first + row
                port, _ = event.subnet.owner(lid, frame)
                if port is None or port.node.kind not in (CA, ROUTER) or port.node.frame >= frame:
                    continue
                low, high = struct.port_select.span
                start = int(found.at[i] - table.chunk.offset[row])
                yield Hit(
                    frame=frame,
                    time_ns=int(table.chunk.time_ns[row]),
                    arguments={"attribute": struct.title, "port": str(port)},
                    spans=(Span(frame, start + low, high - low),),
                    field=struct.port_select,
                    value=0,
                    related=(Related(port.node.frame, "NodeInfo"),),
                    evidence=Evidence.LEARNT,
                    key=(port.node.slot, struct.title),
                )


class TwoWriters(Rule):
    """Two senders give a port different M_Keys.

    ## Why it matters
    Two subnet managers that do not know of each other fight for the port; the one whose key is in force locks the other out.

    ## What to do
    Give all subnet managers the same key (opensm: `m_key`), or keep the second one out of the subnet. Where a site policy names
    M_Keys, any other is reported, whoever wrote it.
    """

    code, name, severity = "MKY013", "mkey-changed-by-second-sm", WARNING
    reference = "IBA 14.2.4; seed000 M_Key"
    message = "Set(PortInfo) of {port} writes {key}, another sender wrote {before}"
    example = "SubnSet(PortInfo) of a port from LID 1 with an M_Key, then from LID 2 with another one"

    def __init__(self) -> None:
        self.written: dict[int, tuple[int, int, int]] = {}
        """Key, sender and frame by port."""
        self.dropped = Dropped("ports whose M_Key was written")

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        yield from foreign_keys_held(event, context, zero=False)
        infos: PortInfos = context.get(PortInfos)
        told = infos.of(event)
        if not len(told):
            return
        keyed = told.bodies[:, :8].any(axis=1) & told.sets & (told.key != -1)
        for i in np.flatnonzero(keyed).tolist():
            row, port = int(told.rows[i]), int(told.key[i])
            key = int(told.now(PortInfo.m_key)[i])
            frame = event.table.chunk.first + row
            at = int(event.table.chunk.offset[row] + told.mad[i])
            header = event.table.chunk.data[at : at + MAD.size].tobytes()
            directed = header[1] == 0x81
            lrh = int(event.table.located.at("lrh")[row])
            slid = int.from_bytes(event.table.chunk.data[lrh + 6 : lrh + 8].tobytes(), "big")
            sender = (1 << 32 | int.from_bytes(header[8:12], "big")) if directed else slid
            known = self.written.get(port)
            if known is None or known[0] == key or known[1] == sender:
                if known is not None or len(self.written) < MAX_KEYS:
                    self.written[port] = (key, sender, frame)
                else:
                    self.dropped.add(frame, int(event.table.chunk.time_ns[row]))
                continue
            low, high = PortInfo.m_key.span
            yield Hit(
                frame=frame,
                time_ns=int(event.table.chunk.time_ns[row]),
                arguments={"port": name_of(told, i), "key": value_of(PortInfo.m_key, key), "before": value_of(PortInfo.m_key, known[0])},
                spans=(Span(frame, int(told.mad[i]) + DATA_AT + low, high - low),),
                field=PortInfo.m_key,
                value=value_of(PortInfo.m_key, key),
                related=(Related(known[2], "the other sender's Set"),),
                evidence=Evidence.LEARNT,
                key=port,
            )
