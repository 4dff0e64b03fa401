"""Directed routes that are wrong by themselves, or do not fit the nodes they pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, each, fault, on_chunk, on_event
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import CA, ROUTER, ChunkFollowed, FabricFollower
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET, GET_RESP, NODE_INFO, PERMISSIVE, SET
from ibdissect.wire.sm import DR_MAX_HOPS, SMPDirected


class InitialPathZero(Rule):
    """Byte 0 of a directed route's InitialPath is not zero.

    The path begins at index 1; byte 0 must be zero. The sender has most likely shifted the route by one, so the packet leaves by the wrong
    ports.

    Check how the sender builds its paths: the first output port belongs in byte 1.

    One packet is enough.
    """

    code, name, severity = "SMP003", "dr-initialpath0-nonzero", ERROR
    reference = "IBA 14.2.2.2; opensm path_out[0]; kernel core/smi.c"
    at = SMPDirected.initial_path
    message = "InitialPath[0] is {port}, the path starts at index 1"
    example = "a directed-route SubnGet with InitialPath 1,2 instead of 0,1,2"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """The first byte of the path, without reading the SMPs whole."""
        first = table.occurrences(SMPDirected).at + SMPDirected.initial_path.span[0]
        for _, seen, view in each(table, SMPDirected, table.chunk.data[first]):
            hit = fault(seen, {"port": view.initial_path[0]}, self.at, of=view)
            hit.spans = (replace(hit.spans[0], length=1),)
            yield hit


class HopPointerRange(Rule):
    """The hop pointer of a directed-route SMP is more than one above the hop count.

    The pointer walks from 0 to HopCount+1 and back; beyond that the next node discards the packet. It looks as if the node were dead.

    Look for a sender or a switch that miscounts hops; compare the packet before and after the last switch.
    """

    code, name, severity = "SMP004", "dr-hoppointer-range", ERROR
    reference = "IBA 14.2.2.2, C14-9, C14-13; kernel core/smi.c"
    when = SMPDirected.hop_pointer > SMPDirected.hop_count + 1
    message = "hop pointer {hop_pointer} lies outside a route of {hop_count:hop}"
    example = "a directed-route SMP with HopPointer 9 and HopCount 2"


class HopCountTooLarge(Rule):
    """A directed-route SMP has a hop count above 63.

    The path has room for 63 hops; what follows would be read from the return path. Nodes discard such packets.

    Correct the sender. If the whole header looks odd, the MAD may have been built for another format (Omni-Path, vendor).
    """

    code, name, severity = "SMP007", "dr-hopcount-63", ERROR
    reference = "IBA 14.2.1.2; opensm IB_SUBNET_PATH_HOPS_MAX"
    when = SMPDirected.hop_count > DR_MAX_HOPS
    message = "hop count {hop_count}, a directed route has at most 63 hops"
    example = "a directed-route SMP with HopCount 200"


class DirectionBit(Rule):
    """The direction bit of a directed-route SMP contradicts its method.

    Requests travel outbound (D = 0), responses return (D = 1). With the wrong bit the switches walk the path the wrong way and the packet
    gets lost.

    Correct the sender: a responder has to set bit 15 of the status in every directed-route response, a requester never.
    """

    code, name, severity = "SMP008", "dr-direction-vs-response", ERROR
    reference = "IBA 14.2.1.2, 14.2.2; opensm osm_resp"
    when = ((SMPDirected.d == 0) & (MAD.method == GET_RESP)) | ((SMPDirected.d == 1) & MAD.method.isin({GET, SET}))
    message = "direction bit {d:d} in an SMP with method 0x{MAD.method:02x}"
    example = "a directed-route SubnGetResp with status 0x0000 instead of 0x8000"


class CombinedRoute(Rule):
    """A directed-route SMP travels partly by LID: DrSLID or DrDLID is not the permissive LID.

    Such routes are legal but rare, and few SMAs are tested with them. Unlike a purely directed route they need working forwarding tables.

    Nothing, if a diagnostic tool was started with a combined route (`smpquery -c`); otherwise look at who sends it.
    """

    code, name, severity = "SMP011", "dr-lid-fields-nonpermissive", INFO
    reference = "IBA 14.2.2; kernel ib_smi.h"
    when = (SMPDirected.dr_slid != PERMISSIVE) | (SMPDirected.dr_dlid != PERMISSIVE)
    flow = (SMPDirected.dr_slid, SMPDirected.dr_dlid)
    message = "DrSLID {dr_slid}, DrDLID {dr_dlid}: part of the way is routed by LID"
    example = "a directed-route SubnGet with DrSLID 1 that a tool sends through LID 1"


class DirectedRouteByLID(Rule):
    """A purely directed-route SMP goes to a real LID.

    With DrSLID and DrDLID permissive the whole route is directed, and each hop sends with permissive LIDs. A switch that sees a unicast
    DLID forwards the packet by its table, past the SMA that should have handled it.

    Correct the sender, or set DrSLID/DrDLID to the LIDs if a combined route was meant.

    One packet is enough. Its SLID is not judged: some adapters always write their own (kernel qib_ud.c), and nobody forwards by it.
    """

    code, name, severity = "SMP012", "dr-sent-to-lid", WARNING
    reference = "IBA 14.2.2; real capture: all permissive"
    on = SMPDirected
    when = (LRH.dlid != PERMISSIVE) & (SMPDirected.dr_slid == PERMISSIVE) & (SMPDirected.dr_dlid == PERMISSIVE)
    at = LRH.dlid
    flow = (LRH.slid, LRH.dlid)
    message = "directed route all the way, but the LRH goes from LID {LRH.slid} to {LRH.dlid}"
    example = "a directed-route SubnGet with permissive DrSLID and DrDLID, LRH 5 -> 7"


class EndsAtLid(LearntFactRule):
    """A directed route ends at an adapter or router but still names a LID to go on to.

    After the last hop only a switch passes the packet on by DrDLID; an adapter or router drops it.

    Let the sender use the permissive LID as DrDLID if the route ends at the intended node.

    The SMP at its last hop, and a NodeInfo from the end of that route before it.
    """

    code, name, severity = "SMP005", "dr-outbound-end-dlid", WARNING
    reference = "IBA 14.2.2.2 (C14-9); kernel smi.c"
    message = "directed route of {hops:hop} ends at {node}, DrDLID is {dr_dlid}"
    example = "a sweep, then a SubnGet to a channel adapter by directed route with HopPointer = HopCount and DrDLID 5"
    holds_ns, read = CONFIGURED_NS, (NODE_INFO,)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        values = event.table.values
        far = (values(SMPDirected.dr_dlid) != PERMISSIVE) & (values(SMPDirected.dr_slid) == PERMISSIVE)
        out = (values(SMPDirected.smp_status) & 0x8000) == 0
        ended = values(SMPDirected.hop_pointer) == values(SMPDirected.hop_count)
        follower: FabricFollower = context.get(FabricFollower)
        for _, seen, view in each(event.table, SMPDirected, out & ended & far & (values(SMPDirected.hop_count) < 64)):
            path = bytes(view.initial_path[1 : view.hop_count + 1])
            hop = follower.onward.get(seen.frame)
            if hop is not None and hop.node.kind in (CA, ROUTER) and hop.frame < seen.frame:
                yield fault(
                    seen, {"hops": len(path), "node": f"0x{hop.node.guid:016x}", "dr_dlid": view.dr_dlid}, SMPDirected.dr_dlid, of=view,
                    proof=[(hop.frame, "NodeInfo from the end of the route")], key=(hop.node.slot, path),
                    about=(hop.node.slot,),
                )  # fmt: skip


class NoReturnPath(Rule):
    """A returning directed-route SMP has a gap in its return path.

    On the way out, every node writes the port through which the packet came in. The switch at the gap drops the answer.

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
        found, values = event.table.occurrences(SMPDirected), event.table.values
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
            seen, hop = Seen(event.table, int(found.rows[index[j]])), int(np.flatnonzero((path[j] == 0) & ahead[j])[0])
            hit = fault(seen, {"hop": hop, "hops": seen.value(SMPDirected.hop_count)}, SMPDirected.return_path, key=hop)
            hit.spans = (replace(hit.spans[0], offset=hit.spans[0].offset + hop, length=1),)
            yield hit
