"""Which directed routes are wrong by themselves?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, each, on_chunk
from ibdissect.table.table import ChunkTable
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET, GET_RESP, PERMISSIVE, SET
from ibdissect.wire.sm import DR_MAX_HOPS, SMPDirected


class InitialPathZero(Rule):
    """Byte 0 of a directed route's InitialPath is not zero.

    The path is indexed from 1; byte 0 is not used and must be zero. A sender that fills it has most likely shifted the whole route
    by one, so the packet leaves by the wrong ports.

    Check how the sender builds its paths: the first output port belongs in byte 1.

    One packet is enough.
    """

    code, name, severity = "SMP003", "dr-initialpath0", ERROR
    reference = "IBA 14.2.2.2; opensm path_out[0]; kernel core/smi.c"
    at = SMPDirected.initial_path
    message = "InitialPath[0] is {port}, the path starts at index 1"
    example = "a directed-route SubnGet with InitialPath 1,2 instead of 0,1,2"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """Byte 128 of each SMP, without reading the SMPs whole."""
        for _, seen, view in each(table, SMPDirected, table.chunk.data[table.occurrences(SMPDirected).at + 128]):
            hit = seen.found({"port": view.initial_path[0]}, self.at, of=view)
            hit.spans = (replace(hit.spans[0], length=1),)
            yield hit


class HopPointerRange(Rule):
    """The hop pointer of a directed-route SMP is more than one above the hop count.

    The pointer walks from 0 to HopCount+1 and back; anything beyond points outside the route, and the next node discards the
    packet. The request then looks as if the node were dead.

    Look for a sender or a switch that miscounts hops; compare the packet before and after the last switch.
    """

    code, name, severity = "SMP004", "dr-hoppointer-range", ERROR
    reference = "IBA 14.2.2.2, C14-9, C14-13; kernel core/smi.c"
    when = SMPDirected.hop_pointer > SMPDirected.hop_count + 1
    message = "hop pointer {hop_pointer} lies outside a route of {hop_count} hops"
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

    Requests travel outbound (D = 0), responses return (D = 1). With the wrong bit the switches walk the path in the wrong
    direction and the packet gets lost on its way.

    Correct the sender: a responder has to set bit 15 of the status in every directed-route response, a requester never.
    """

    code, name, severity = "SMP008", "dr-direction-vs-response", ERROR
    reference = "IBA 14.2.1.2, 14.2.2; opensm osm_resp"
    when = ((SMPDirected.d == 0) & (MAD.method == GET_RESP)) | ((SMPDirected.d == 1) & MAD.method.isin({GET, SET}))
    message = "direction bit {d:d} in an SMP with method 0x{MAD.method:02x}"
    example = "a directed-route SubnGetResp with status 0x0000 instead of 0x8000"


class CombinedRoute(Rule):
    """A directed-route SMP travels partly by LID: DrSLID or DrDLID is not the permissive LID.

    Such routes are legal, but few tools make them and few SMAs are tested with them. They depend on working forwarding
    tables, which a purely directed route does not.

    Nothing, if a diagnostic tool was started with a combined route (`smpquery -c`). Otherwise look at who sends it.
    """

    code, name, severity = "SMP011", "dr-lid-fields-nonpermissive", INFO
    reference = "IBA 14.2.2; kernel ib_smi.h"
    when = (SMPDirected.dr_slid != PERMISSIVE) | (SMPDirected.dr_dlid != PERMISSIVE)
    flow = (SMPDirected.dr_slid, SMPDirected.dr_dlid)
    message = "DrSLID {dr_slid}, DrDLID {dr_dlid}: part of the way is routed by LID"
    example = "a directed-route SubnGet with DrSLID 1 that a tool sends through LID 1"


class DirectedRouteByLID(Rule):
    """A purely directed-route SMP carries real LIDs in its LRH.

    With DrSLID and DrDLID permissive the whole route is directed, and each hop sends with permissive LIDs. A switch that sees a
    unicast DLID forwards the packet by its table instead, past the SMA that should have handled it.

    Correct the sender, or set DrSLID/DrDLID to the LIDs if a combined route was meant.
    """

    code, name, severity = "SMP012", "dr-lid-segment-lrh", WARNING
    reference = "IBA 14.2.2; real capture: all permissive"
    on = SMPDirected
    when = ((LRH.slid != PERMISSIVE) | (LRH.dlid != PERMISSIVE)) & (SMPDirected.dr_slid == PERMISSIVE) & (SMPDirected.dr_dlid == PERMISSIVE)
    at = LRH.dlid
    flow = (LRH.slid, LRH.dlid)
    message = "directed route all the way, but the LRH goes from LID {LRH.slid} to {LRH.dlid}"
    example = "a directed-route SubnGet with permissive DrSLID and DrDLID, LRH 5 -> 7"
