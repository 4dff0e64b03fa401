"""Which directed routes do not fit the nodes they pass?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.fabric import Follower
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import CA, ROUTER
from ibdissect.lint.finding import Span
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Rule, Seen, fault, on_event
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import PERMISSIVE
from ibdissect.wire.sm import SMPDirected


class EndsAtLid(Rule):
    """A directed route ends at an adapter or router but still names a LID to go on to.

    After the last hop only a switch passes the packet on by DrDLID; an adapter or router drops it.

    Let the sender use the permissive LID as DrDLID if the route ends at the intended node.

    The SMP at its last hop, and a NodeInfo from the end of that route before it.
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
            yield Seen(event.table, row).found(
                {"hops": len(path), "node": f"0x{hop.node.guid:016x}", "dr_dlid": view.dr_dlid}, SMPDirected.dr_dlid, view.dr_dlid,
                start=view.offset, proof=[(hop.frame, "NodeInfo from the end of the route")], key=(tid >> 32, path),
            )  # fmt: skip


class NoReturnPath(Rule):
    """A returning directed-route SMP has a gap in its return path.

    On the way out, every node writes the port through which the packet came in; ports count from 1. The switch at the gap drops the
    answer.

    Update the firmware of the switch that left the entry empty.

    One returning SMP is enough; hops that it has already passed on its way back are not judged.
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
            yield fault(
                frame, int(event.table.chunk.time_ns[row]), {"hop": hop, "hops": int(values(SMPDirected.hop_count)[i])},
                SMPDirected.return_path, spans=(Span(frame, start + hop, 1),), key=hop,
            )  # fmt: skip
