"""Native packets that do not fit the ports and switches they pass, as the capture showed them (LNK, GRH)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import DOWN, FIRST_MULTICAST, ROUTER, SWITCH, Port, Subnet
from ibdissect.fabric.told import PortInfos, SwitchInfos
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import ERROR, INFO, WARNING, Hit, Rule, on_event
from ibdissect.table.distinct import common
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable, extract
from ibdissect.wire.link import LRH
from ibdissect.wire.network import GRH
from ibdissect.wire.sm import SwitchInfo
from ibdissect.wire.sm_port import PortInfo

from .learnt import VLS
from .pkey_columns import Native
from .site import foreign_lids

MANAGEMENT_VL = 15
LINK_LOCAL = 0xFE80 << 48
KEPT = 64
"""Suspicious flows of a chunk that are looked at alone, per rule."""
LIDS = 1 << 16
VLS_AT, MTU_AT = PortInfo.operational_vls.bit // 8, PortInfo.neighbor_mtu.bit // 8
NO_LIMIT = 1 << 30


class Ends:
    """What is known of the ports of the LIDs in a chunk, by LID; worked out once for all rules that ask."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.mtu: npt.NDArray[np.int32] = np.full(LIDS, NO_LIMIT, np.int32)
        """Most payload that a packet over the port's link may have."""
        self.vls: npt.NDArray[np.int32] = np.full(LIDS, NO_LIMIT, np.int32)
        """Data VLs of the port's link."""
        self.top: npt.NDArray[np.int32] = np.full(LIDS, NO_LIMIT, np.int32)
        """LinearFDBTop of the first switch behind the port."""
        self.prefix = np.zeros(LIDS, np.uint64)
        """GidPrefix of the port, 0 where it is not known."""
        self.unicast: Int = np.empty(0, np.int64)
        """The unicast LIDs that packets go to."""
        self.filled: list[int] = []
        self.smallest_mtu = self.fewest_vls = self.lowest_top = NO_LIMIT

    def of(self, table: ChunkTable, subnet: Subnet, native: Native) -> Ends:
        """The facts as known at the end of a chunk: rules look up what held before they speak."""
        if self._of is not table:
            self._of = table
            for column in (self.mtu, self.vls, self.top):
                column[self.filled] = NO_LIMIT
            self.prefix[self.filled] = 0
            self.filled = []
            if subnet.lids:
                self.unicast = native.dlids[native.dlids < FIRST_MULTICAST]
                for lid in sorted({*self.unicast.tolist(), *native.slids[native.slids < FIRST_MULTICAST].tolist()}):
                    port = subnet.by_lid(lid)
                    if port is not None:
                        self._fill(lid, port)
            self.smallest_mtu = int(self.mtu[self.filled].min(initial=NO_LIMIT))
            self.lowest_top = int(self.top[self.filled].min(initial=NO_LIMIT))
            self.fewest_vls = int(self.vls[self.filled].min(initial=NO_LIMIT))
        return self

    def _fill(self, lid: int, port: Port) -> None:
        self.filled.append(lid)
        switch = port.node if port.node.kind == SWITCH else port.peer.node if port.peer is not None else None
        if switch is not None and switch.switch is not None and switch.switch.linear_fdb_cap:
            self.top[lid] = switch.switch.linear_fdb_top
        if port.body is None:
            return
        self.prefix[lid] = int.from_bytes(port.body[8:16], "big")
        if port.node.kind != SWITCH:  # port 0 of a switch has no link
            self.mtu[lid] = 128 << (port.body[MTU_AT] >> 4) if port.body[MTU_AT] >> 4 else NO_LIMIT
            self.vls[lid] = int(VLS[port.body[VLS_AT] >> 4]) or NO_LIMIT


class _LinkRule(Rule):
    """What the rules share: suspicious packets, one per source, destination and value, then looked at alone."""

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        """Indices into `native` of suspicious packets, and a small number (the value at fault) for each."""
        raise NotImplementedError

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        """Arguments of the message and frames that prove it; None when the packet is in order."""
        raise NotImplementedError

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        if not event.subnet.lids:
            return
        native: Native = context.get(Native).of(event.table)
        if not len(native.rows):
            return
        ends: Ends = context.get(Ends).of(event.table, event.subnet, native)
        index, value = self.suspicious(event, native, ends)
        if not len(index):
            return
        ways = native.slid[index] << 48 | native.dlid[index] << 32 | np.minimum(value, 0xFFFFFFFF)
        _, first, counts = np.unique(ways, return_index=True, return_counts=True)
        for i in np.argsort(first, kind="stable")[:KEPT].tolist():
            at = int(index[first[i]])
            row = int(native.rows[at])
            frame = event.table.chunk.first + row
            slid, dlid = int(native.slid[at]), int(native.dlid[at])
            judged = self.judge(event, context, slid, dlid, int(value[first[i]]), frame)
            if judged is None:
                continue
            arguments, proof = judged
            low, high = LRH.dlid.span
            start = int(event.table.located.at("lrh")[row] - event.table.chunk.offset[row])
            yield Hit(
                frame=frame,
                time_ns=int(event.table.chunk.time_ns[row]),
                arguments={"slid": slid, "dlid": dlid, **arguments},
                spans=(Span(frame, start + low, high - low),),
                field=LRH.dlid,
                value=dlid,
                related=tuple(Related(number, why) for number, why in proof),
                evidence=Evidence.LEARNT,
                count=int(counts[i]),
                key=(slid, dlid, int(value[first[i]])),
            )


def _port_info(event: ChunkFollowed, context: Context, port: Port, frame: int) -> tuple[PortInfo, int] | None:
    """PortInfo of a port as shown last before a frame, and when; None when it was not."""
    infos: PortInfos = context.get(PortInfos)
    infos.of(event)
    bodies, since = infos.at(np.array([port.node.slot << 8 | port.number]), np.array([frame]))
    return (PortInfo(bodies[0].tobytes()), int(since[0])) if since[0] else None


class MtuExceeded(_LinkRule):
    """A packet's payload is larger than the MTU of a link that it passes.

    ## Why it matters
    The port drops it. Connections stand still as soon as they send large messages, while small ones pass.

    ## What to do
    Compare the path MTU of the connection (PathRecord, CM REQ) with NeighborMTU of both ports.
    """

    code, name, severity = "LNK022", "mtu-exceeded", ERROR
    reference = "IBA 7.7.9; seed000 NeighborMTU"
    message = "{size} bytes of payload from LID {slid} to LID {dlid}; NeighborMTU of {port} is {mtu}"
    example = "GetResp(PortInfo) with NeighborMTU 1 (256), then a packet with 512 bytes of payload to that port"

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        located = event.table.located
        payload = located.at("payload").take(native.rows)
        size = np.where(payload >= 0, located.payload_end.take(native.rows) - payload, 0)
        index = np.flatnonzero(size > ends.smallest_mtu)
        limit = np.minimum(ends.mtu[native.slid[index]], ends.mtu[native.dlid[index]])
        index = index[(size[index] > limit) & (native.dest_qp[index] > 0)]
        return index, size[index]

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        for lid in (slid, dlid):
            port = event.subnet.owner(lid, frame)[0]
            told = _port_info(event, context, port, frame) if port is not None and port.node.kind != SWITCH else None
            if told is not None and told[0].neighbor_mtu and value > 128 << told[0].neighbor_mtu:
                return {"size": value, "port": str(port), "mtu": 128 << told[0].neighbor_mtu}, ((told[1], "NeighborMTU"),)
        return None


class VlNotOperational(_LinkRule):
    """A packet uses a virtual lane that no link of the subnet has.

    ## Why it matters
    The receiver has no buffer for that lane and drops the packet.

    ## What to do
    Compare OperationalVLs of the ports with the SL to VL tables on the way.
    """

    code, name, severity = "LNK016", "vl-beyond-operational", ERROR
    reference = "IBA 7.6.2; seed000 OperationalVLs"
    message = "VL {vl} from LID {slid} to LID {dlid}; no known port of the subnet uses more than {vls} data VLs"
    example = "GetResp(PortInfo) of two ports with OperationalVLs 1 (VL0), then a packet between them on VL 3"

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        vl = native.vl
        index = np.flatnonzero((vl >= min(ends.fewest_vls, MANAGEMENT_VL)) & (vl != MANAGEMENT_VL))
        lane = vl[index].astype(np.int64)
        few = (lane >= ends.vls[native.slid[index]]) & (lane >= ends.vls[native.dlid[index]])
        return index[few], lane[few]

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        most = 0
        for port in event.subnet.ports():
            if port.body is not None and port.state != DOWN and (port.number or port.node.kind != SWITCH):
                most = max(most, int(VLS[port.body[VLS_AT] >> 4]) or NO_LIMIT)
        proof = []
        for lid in (slid, dlid):
            end = event.subnet.owner(lid, frame)[0]
            told = _port_info(event, context, end, frame) if end is not None else None
            if told is None or value < (int(VLS[told[0].operational_vls]) or NO_LIMIT):
                return None
            proof.append((told[1], "OperationalVLs"))
        return ({"vl": value, "vls": most}, tuple(proof)) if value >= most else None


class UnassignedLid(_LinkRule):
    """A packet goes to a LID that nobody in the subnet has.

    ## Why it matters
    A switch drops it. A stale LID (after a restart of the subnet manager with other LIDs) or a wrong configuration does this.

    ## What to do
    Let the sender ask for the path again. With a site policy, LIDs outside of its ranges are reported as well.
    """

    code, name, severity = "LNK020", "lid-not-assigned", WARNING
    reference = "IBA 4.1.3; seed000 LID"
    message = "LID {slid} sends to LID {dlid}, which no port of the swept subnet has"
    example = "a complete sweep of a subnet, then a packet to LID 0x7777"

    def __init__(self) -> None:
        self.swept: tuple[ChunkFollowed, int] | None = None
        """The present chunk, and when the sweep of its subnet was complete."""

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        unknown = [lid for lid in ends.unicast.tolist() if lid and lid not in event.subnet.lids]
        if not unknown:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        nobodys = np.zeros(LIDS, np.bool_)
        nobodys[unknown] = True
        index = np.flatnonzero(nobodys[native.dlid])
        return index, np.zeros(len(index), np.int64)

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        if self.swept is None or self.swept[0] is not event:
            self.swept = (event, swept(event.subnet))
        last = self.swept[1]
        return ({}, ((last, "the last port of the sweep"),)) if 0 < last < frame else None

    @on_event(ChunkFollowed)
    def site(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Also LIDs that the site policy has nobody assign."""
        yield from foreign_lids(event, context)


def swept(subnet: Subnet) -> int:
    """Frame by which all of the subnet was read: every link leads to a known port, every end port has a LID; 0 when not."""
    latest = 0
    if not any(node.kind == SWITCH for node in subnet.slots.values()):
        return 0
    for port in subnet.ports():
        node = port.node
        if not node.guid or node.kind == ROUTER:
            return 0
        if node.kind == SWITCH and len(node.ports) <= node.num_ports:
            return 0
        if port.body is None:
            return 0
        if port.state == DOWN:
            continue
        external = node.kind != SWITCH or port.number
        if (external and port.peer is None) or (not (external and node.kind == SWITCH) and not port.lid):
            return 0
        latest = max(latest, port.info_frame, port.peer_frame, port.lids.since)
    return latest


class LidAboveTop(_LinkRule):
    """A packet goes to a LID above the top of the forwarding table of the first switch.

    ## Why it matters
    The switch drops packets to LIDs above LinearFDBTop, whatever its table says.

    ## What to do
    Look at the subnet manager: it assigned the LID and did not raise the top, or the sender has a stale LID.
    """

    code, name, severity = "LNK021", "dlid-above-lft-top", WARNING
    reference = "IBA 14.2.5.4, 18.2.4.3; seed003 LinearFDBTop"
    message = "LID {slid} sends to LID {dlid}; LinearFDBTop of {switch} is {top}"
    example = "a sweep with SwitchInfo.LinearFDBTop 10, then a packet to LID 11"

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        if not len(ends.unicast) or ends.unicast[-1] <= ends.lowest_top:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        above = (native.dlid > ends.top[native.slid]) & (native.dlid < FIRST_MULTICAST) & (native.slid != native.dlid)
        index = np.flatnonzero(above)
        return index, np.zeros(len(index), np.int64)

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        port = event.subnet.owner(slid, frame)[0]
        if port is None:
            return None
        node = port.node if port.node.kind == SWITCH else port.peer.node if port.peer is not None else None
        if node is None:
            return None
        infos: SwitchInfos = context.get(SwitchInfos)
        infos.of(event)
        bodies, since = infos.at(np.array([node.slot << 8]), np.array([frame]))
        top = SwitchInfo(bodies[0].tobytes()).linear_fdb_top
        if not since[0] or dlid <= top or not top:
            return None
        return {"switch": f"0x{node.guid:016x}", "top": top}, ((int(since[0]), "SwitchInfo"),)


class OtherPrefix(_LinkRule):
    """A packet's source GID has another subnet prefix than the port that sends it.

    ## Why it matters
    Answers to that GID are routed to the other subnet, or nowhere.

    ## What to do
    Compare `subnet_prefix` of the subnet manager with what the sender still uses: it was changed while the host was up.
    """

    code, name, severity = "GRH013", "grh-unicast-loopback-gid", INFO
    reference = "IBA 4.1.1; seed000 GidPrefix"
    message = "LID {slid} sends with subnet prefix 0x{prefix:016x}, its port has 0x{own:016x}"
    example = "GetResp(PortInfo) with GidPrefix fe80::, then a packet of that port with SGID prefix fe81::"

    def __init__(self) -> None:
        self.prefixes: list[int] = []
        """Prefixes that the values of the present chunk stand for."""

    def suspicious(self, event: ChunkFollowed, native: Native, ends: Ends) -> tuple[Int, Int]:
        _, routed, index = common(event.table.occurrences(GRH).rows, native.rows)
        known = ends.prefix[native.slid[index]] != 0
        routed, index = routed[known], index[known]
        if not len(index):
            return index, index
        sgid = extract(event.table.matrix(GRH)[routed], GRH.sgid.bit, 64)
        own = ends.prefix[native.slid[index]]
        other = np.flatnonzero((sgid != own) & (sgid != LINK_LOCAL))
        prefixes, which = np.unique(sgid[other], return_inverse=True)
        self.prefixes = prefixes.tolist()
        return index[other], which.ravel().astype(np.int64)

    def judge(self, event: ChunkFollowed, context: Context, slid: int, dlid: int, value: int, frame: int) -> Any:
        port = event.subnet.owner(slid, frame)[0]
        told = _port_info(event, context, port, frame) if port is not None and port.node.kind != ROUTER else None
        if told is None or told[0].gid_prefix == self.prefixes[value]:
            return None
        return {"prefix": self.prefixes[value], "own": told[0].gid_prefix}, ((told[1], "GidPrefix"),)
