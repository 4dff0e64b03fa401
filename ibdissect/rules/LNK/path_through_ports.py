"""Packets that do not fit the ports and switches that they pass, or go to a LID that nobody has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ibdissect.decode import Int
from ibdissect.decode.equal_rows import is_in
from ibdissect.decode.history import History
from ibdissect.decode.identity import Content
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit, fault, on_event
from ibdissect.rules.LNK.header_fields import LOCAL
from ibdissect.rules.shared.attribute_rule import VLS
from ibdissect.rules.shared.lids_in_path_records import NamedByPaths
from ibdissect.rules.shared.link_rule import MTU_AT, NO_LIMIT, VLS_AT, LinkRule, PortLimits, flows
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.site_forbids import also, foreign_lids
from ibdissect.subnet import ROUTER, SWITCH, ChunkFollowed, FabricFollower, Port, Subnet
from ibdissect.subnet.nodes import ACTIVE, ARMED, DOWN, STATE_AT
from ibdissect.subnet.visible_managers import CONFIGURED_NS, Vantage
from ibdissect.wire.headers import LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, LID_COUNT, MANAGEMENT_VL, PORT_INFO
from ibdissect.wire.opcodes import MANUFACTURER
from ibdissect.wire.sm_port import PortInfo

MAX_PAIRS = 4096
"""Most pairs of ends whose raw packets are judged per chunk."""


class MtuExceeded(LinkRule):
    """A packet's payload is larger than the MTU of a link that it passes.

    The port drops it. Connections hang as soon as they send large messages, while small ones pass.

    Compare the path MTU of the connection (PathRecord, CM REQ) with NeighborMTU of both ports.
    """

    code, name, severity = "LNK022", "mtu-exceeded", ERROR
    reference = "IBA 7.7.9"
    message = "{size:byte} of payload from LID {slid} to LID {dlid}; NeighborMTU of {port} is {mtu}"
    example = "GetResp(PortInfo) with NeighborMTU 1 (256), then a packet with 512 bytes of payload to that port"
    evidence = (
        f"{LinkRule.evidence} And an `info` where some other port got another NeighborMTU meanwhile, and the capture does not show the "
        "manager at these."
    )
    holds_ns = CONFIGURED_NS

    def __init__(self) -> None:
        super().__init__()
        self.changing: list[History[bytes]] | None = None
        """PortInfo of the ports that ever showed another NeighborMTU, known at the end of the capture."""

    def suspicious(self, event: ChunkFollowed, native: Native, ends: PortLimits) -> tuple[Int, Int]:
        located = event.table.located
        payload = located.at("payload").take(native.rows)
        payload = np.where(located.opcode.take(native.rows) < MANUFACTURER, payload, -1)  # their headers are not known
        size = np.where(payload >= 0, located.payload_end.take(native.rows) - payload, 0)
        index = np.flatnonzero(size > ends.smallest_mtu)
        limit = np.minimum(ends.mtu[native.slid[index]], ends.mtu[native.dlid[index]])
        index = index[(size[index] > limit) & (native.dest_qp[index] > 0)]
        return index, size[index]

    def judge(self, subnet: Subnet, slid: int, dlid: int, value: int, frame: int) -> FaultDetails | None:
        for lid in (slid, dlid):
            port = subnet.owner(lid, frame)[0]
            info, since = port.info_at(frame) if port is not None and port.node.kind != SWITCH else (None, 0)
            if port is not None and info is not None and info.neighbor_mtu and value > 128 << info.neighbor_mtu:
                return {"size": value, "port": port.name_at(frame), "mtu": 128 << info.neighbor_mtu}, ((since, "NeighborMTU"),)
        return None

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where the manager seems to give all ports another MTU, and the capture shows that of some."""
        managed = context.get(Vantage).manages(self.facts_used_of(hit, context), hit.frame)
        if self.changing is None:
            self.changing = [port.infos for port in context.get(FabricFollower).subnet.ports() if _several_mtus(port)]
        shown = hit.related[0].frame
        changed = not managed and any(_other_mtu(infos.at(shown)[0], infos.at(hit.frame)[0]) for infos in self.changing)
        return INFO if changed else super().severity_at_end(hit, context)


def _several_mtus(port: Port) -> bool:
    """Whether a port ever showed another NeighborMTU than before: hardly any does, of which each finding asks."""
    return len({info[MTU_AT] >> 4 for info, _ in port.infos.values() if info is not None}) > 1


def _other_mtu(before: Content | None, now: Content | None) -> bool:
    """Whether a port that carried data, and does, has another NeighborMTU than it had."""
    if before is None or now is None or not {before[STATE_AT] & 15, now[STATE_AT] & 15} <= {ARMED, ACTIVE}:
        return False
    return before[MTU_AT] >> 4 != now[MTU_AT] >> 4


class VlNotOperational(LinkRule):
    """A packet uses a virtual lane that no link of the subnet has.

    The receiver has no buffer for that lane and drops the packet.

    Compare OperationalVLs of the ports with the SL to VL tables on the way.

    The packet, and OperationalVLs in PortInfo of all ports of the subnet, of which a sweep read every link and port before.
    """

    code, name, severity = "LNK016", "vl-beyond-operational", ERROR
    reference = "IBA 7.6.2"
    message = "VL {vl} from LID {slid} to LID {dlid}; no known port of the subnet uses more than {vls:data VL}"
    example = "GetResp(PortInfo) of two ports with OperationalVLs 1 (VL0), then a packet between them on VL 3"
    holds_ns = CONFIGURED_NS
    of_all_ports = True

    def suspicious(self, event: ChunkFollowed, native: Native, ends: PortLimits) -> tuple[Int, Int]:
        vl = native.vl
        index = np.flatnonzero((vl >= min(ends.fewest_vls, MANAGEMENT_VL)) & (vl != MANAGEMENT_VL))
        lane = vl[index].astype(np.int64)
        few = (lane >= ends.vls[native.slid[index]]) & (lane >= ends.vls[native.dlid[index]])
        return index[few], lane[few]

    def judge(self, subnet: Subnet, slid: int, dlid: int, value: int, frame: int) -> FaultDetails | None:
        whole, swept = subnet.swept(frame)
        if not whole:
            return None
        proof = [(swept, "the last port of the sweep")]
        for lid in (slid, dlid):
            end = subnet.owner(lid, frame)[0]
            info, since = end.info_at(frame) if end is not None else (None, 0)
            if info is None or value < (int(VLS[info.operational_vls]) or NO_LIMIT):
                return None
            proof.append((since, "OperationalVLs"))
        most = 0
        for port in subnet.ports_at(frame):
            body = port.infos.at(frame)[0]
            if body is not None and body[STATE_AT] & 15 != DOWN and (port.number or port.node.kind != SWITCH):
                most = max(most, int(VLS[body[VLS_AT] >> 4]) or NO_LIMIT)
                if most > value:
                    return None
        return {"vl": value, "vls": most}, tuple(proof)

    @on_event(ChunkFollowed)
    def raw(self, event: ChunkFollowed, _context: Context) -> Iterator[Hit]:
        """Also judge raw packets, which have no BTH."""
        table = event.table
        vl = table.values(LRH.vl)
        index = np.flatnonzero((table.values(LRH.lnh) < LOCAL) & (vl > 0) & (vl != MANAGEMENT_VL))
        if len(index):
            columns = table.values(LRH.slid)[index], table.values(LRH.dlid)[index], vl[index]
            yield from self.report(event, table.occurrences(LRH).rows[index], columns, "raw")


class UnassignedLid(LinkRule):
    """A packet goes to a LID that nobody in the subnet has.

    A switch drops it. Usually the LID is outdated (the subnet manager restarted with other LIDs) or misconfigured.

    Let the sender query the path again.

    Before the packet, a sweep that read every link and port. Or files given with --subnet that list all ports, such as the output of
    ibnetdiscover, PortInfoRecords of all ports that are up, or a capture with such a sweep, if no port shows the LID; then a source LID
    that nobody has is reported as well. Silent in subnets with routers or with virtual ports (IsVirtualizationSupported), whose LIDs appear
    in no PortInfo, and for a LID that a later PortInfo names as the manager's (MasterSMLID). An `info` where that LID may have been
    assigned unseen: it sends packets itself (and is sent to, where only a file says that nobody has it), a PathRecord names it after the
    sweep, a PortInfo names another LID as the manager's that may be of the same port (LMC), the sender's LID is not assigned either, the
    capture missed packets since the sweep, or mastership moved and the capture does not show that manager at all nodes. With a site policy,
    LIDs outside its ranges are reported too.
    """

    code, name, severity = "LNK020", "lid-not-assigned", WARNING
    explains = ("LNK021", "TXN001")
    by_value = False
    reference = "IBA 4.1.3"
    of_all_ports = True
    message = "LID {slid} sends to LID {dlid}, which no port of the swept subnet has"
    example = "a complete sweep of a subnet, then a packet to LID 0x7777"

    def suspicious(self, event: ChunkFollowed, native: Native, ends: PortLimits) -> tuple[Int, Int]:
        """Packets to LIDs without an owner, sent after a complete sweep; the value is the frame that completed it."""
        lids, none = event.subnet.lids, np.empty(0, np.int64)
        first = event.table.chunk.first
        owned_since = {lid: lids[lid].changes()[0] if lid in lids else NO_LIMIT for lid in ends.unicast.tolist() if lid}
        unowned = [lid for lid, since in owned_since.items() if since > first]  # at the first frame of the chunk
        if not unowned:
            return none, none
        since = np.zeros(LID_COUNT, np.int64)
        since[unowned] = [owned_since[lid] for lid in unowned]
        index = np.flatnonzero(native.rows + first < since[native.dlid])
        complete = swept_since(event, native.rows[index])
        return index[complete > 0], complete[complete > 0]

    def judge(self, subnet: Subnet, slid: int, dlid: int, value: int, frame: int) -> FaultDetails | None:
        return {}, ((value, "the last port of the sweep"),)

    def __init__(self) -> None:
        self.senders = np.zeros(LID_COUNT, np.bool_)
        """LIDs that packets came from, bool[65536]."""
        self.managers = np.zeros(LID_COUNT, np.int64)
        """The last frame whose PortInfo names a LID as that of the port's manager, by LID; 0: none. Nobody but itself may read its port."""
        self.targets = np.zeros(LID_COUNT, np.bool_)
        """LIDs that packets go to."""
        self.most: int | None = None
        """How many LIDs a port has at most, known at the end of the capture."""
        self.unlisted: bool | None = None
        """Whether the capture shows virtual ports or routers, known at its end."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where the sweep proves less."""
        if "verb" in hit.arguments:  # of a file: a host may have come since
            return INFO if self.senders[hit.arguments["lid"]] and self.targets[hit.arguments["lid"]] else None
        if hit.message:  # findings from the site policy need no sweep
            return None
        foreign = hit.arguments["slid"] not in context.get(FabricFollower).subnet.lids  # perhaps a packet of another subnet
        shown, dlid = hit.related[0].frame, hit.arguments["dlid"]
        named = context.get(NamedByPaths).since(dlid, shown) or self._named_since(shown, dlid, context)
        return INFO if foreign or named or self.senders[dlid] else super().severity_at_end(hit, context)

    def stands(self, hit: Hit, context: Context) -> bool:
        """Ports may show later that their manager has the LID, that they have it though no file lists it, or that they may be virtual."""
        if "lid" not in hit.arguments:
            return "dlid" not in hit.arguments or self.managers[hit.arguments["dlid"]] < hit.related[0].frame
        subnet = context.get(FabricFollower).subnet
        if self.unlisted is None:
            self.unlisted = has_unlisted_lids(subnet)
        return not self.unlisted and hit.arguments["lid"] not in subnet.lids

    def _named_since(self, frame: int, lid: int, context: Context) -> bool:
        """Whether a PortInfo names since a frame, as the manager's, a LID that nobody is known to have and that may be of the same port."""
        subnet = context.get(FabricFollower).subnet
        if self.most is None:
            lids = (port.lids.now for port in subnet.ports())
            self.most = max((1 << lmc for _, lmc in (one for one in lids if one is not None)), default=1)
        return any(self.managers[one] >= frame and one not in subnet.lids for one in range(lid - lid % self.most, lid + 1))

    site = also(foreign_lids)

    @on_event(ChunkFollowed)
    def files(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Also report LIDs, of senders too, that neither a subnet file with all ports nor the capture has."""
        subnet, native = event.subnet, event.table.once(Native)
        event.table.once(context.get(NamedByPaths).take)
        self.senders[native.slids] = True
        self.targets[native.dlids] = True
        infos = event.table.occurrences(PortInfo).rows
        self.managers[event.table.values(PortInfo.master_sm_lid)] = infos + event.table.chunk.first  # ascending: the last one stays
        if not subnet.listed:
            return
        for end, distinct, field, verb in (
            (0, native.slids, LRH.slid, "comes from"), (1, native.dlids, LRH.dlid, "goes to"),
        ):  # fmt: skip
            strange = [lid for lid in distinct.tolist() if 0 < lid < FIRST_MULTICAST and lid not in subnet.lids]
            if strange and has_unlisted_lids(subnet):
                return
            own = (native.slid, native.dlid)[end]
            index = np.flatnonzero(is_in(own, np.array(strange, np.int64)))
            above = end * (native.dlid[index] > event.once(PortLimits).top[native.slid[index]])  # by sender, as LNK021 reports them
            complete = swept_since(event, native.rows[index])
            columns = own[index], above * native.slid[index], above * complete
            for (lid, *_), seen, rows in flows(event, native.rows[index], columns):
                yield fault(
                    seen, {"lid": lid, "verb": verb}, field, lid, proof=[(subnet.listed, "lists all ports of the subnet")],
                    rows=rows, key=("files", lid, verb), explains=end == 1,
                    message="a packet {verb} LID {lid}, which no port of the subnet has",
                )  # fmt: skip


class RawFiltered(LearntFactRule):
    """A raw packet goes over a switch port that filters raw packets.

    The port drops it, so it never arrives. If the packet was captured after passing that port, the filter does not work.

    Stop the sender, or switch the filter off (FilterRawInbound, FilterRawOutbound in PortInfo of the port).

    The switch port next to the sender or receiver, its link and its latest PortInfo. An `info` if the capture missed a packet since, or
    would not have shown a change.
    """

    code, name, severity = "LNK015", "raw-with-filter-enabled", WARNING
    reference = "IBA 14.2.5.6"
    message = "raw packet from LID {slid} to LID {dlid} over {port}, which filters raw packets"
    example = "PortInfo of a switch port with FilterRawInbound 1, and a packet with LNH 0 from the adapter behind it"
    written = (PORT_INFO,)
    holds_ns = CONFIGURED_NS

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        table = event.table
        raw = np.flatnonzero(table.values(LRH.lnh) < LOCAL)
        if not len(raw):
            return
        rows, slids, dlids = table.occurrences(LRH).rows[raw], table.values(LRH.slid)[raw], table.values(LRH.dlid)[raw]
        for (slid, dlid), seen, mine in flows(event, rows, (slids, dlids), MAX_PAIRS):
            frame = seen.frame
            for lid, filters in ((slid, PortInfo.filter_raw_inbound), (dlid, PortInfo.filter_raw_outbound)):
                owner, since = event.subnet.owner(lid, frame)
                near, faced = owner.facing_at(frame) if owner is not None and owner.node.kind != SWITCH else (None, 0)
                info, shown = near.info_at(frame) if near is not None and near.node.kind == SWITCH else (None, 0)
                if near is not None and info is not None and filters.__get__(info, PortInfo):
                    yield fault(
                        seen, {"slid": slid, "dlid": dlid, "port": near.name_at(frame)}, LRH.lnh, rows=mine, key=(slid, dlid, lid),
                        about=(near.node.slot,), proof=[(shown, "the filter"), (faced, "the link"), (since, f"whose LID {lid} is")],
                    )  # fmt: skip


def has_unlisted_lids(subnet: Subnet) -> bool:
    """Whether there may be virtual ports or routers, whose further LIDs (of remote hosts: FLIDs) nothing lists."""
    routed = any(node.kind == ROUTER for node in subnet.slots.values())
    return routed or any(port.info is not None and port.info.is_virtualization_supported for port in subnet.ports())


def complete_since(frames: Int, state: Callable[[int], tuple[bool, int]]) -> Int:
    """For each frame, ascending, the frame since which the whole subnet was known; 0 if it was not.

    `state` returns for a frame whether all was known, and since when.
    """
    since = np.zeros(len(frames), np.int64)
    stop = len(frames)
    while stop:
        complete, changed = state(int(frames[stop - 1]))
        start = int(np.searchsorted(frames[:stop], changed, "right" if complete else "left"))
        since[start:stop] = changed if complete else 0
        stop = min(start, stop - 1)
    return since


def swept_since(event: ChunkFollowed, rows: Int) -> Int:
    """For each row, ascending, the frame that completed the sweep of the subnet; 0 if it was not complete."""
    return complete_since(rows + event.table.chunk.first, event.subnet.swept)


class LidAboveTop(LinkRule):
    """A packet goes to a LID above the top of the forwarding table of the first switch.

    The switch drops packets to LIDs above LinearFDBTop, whatever its table says.

    Look at the subnet manager: it assigned the LID but did not raise the top, or the sender has an outdated LID.

    The packet, the sender's LID and cable, and what the switch showed before. Silent for a LID that sends, although no known port has it:
    it may be in another subnet of the same file. LNK020 reports it where nobody has the LID. An `info` where a PathRecord names the LID
    after the switch showed its top, the capture misses packets in between, or a SubnSet was not answered. The same where no port is known
    to have the LID and the capture does not show the switch's manager: a host may have come since, for which it raised the top.
    """

    code, name, severity = "LNK021", "dlid-above-lft-top", WARNING
    explains = ("TXN001",)
    by_value = False
    reference = "IBA 14.2.5.4, 18.2.4.3; Omni-Path manual LinearFDBTop"
    message = "LID {slid} sends to LID {dlid}; LinearFDBTop of {switch} is {top}"
    example = "a sweep with SwitchInfo.LinearFDBTop 10, then a packet to LID 11"

    def __init__(self) -> None:
        self.senders = np.zeros(LID_COUNT, np.bool_)
        """LIDs that send."""

    @on_event(ChunkFollowed)
    def note_senders(self, event: ChunkFollowed, context: Context) -> None:
        event.table.once(context.get(NamedByPaths).take)
        self.senders[event.table.once(Native).slids] = True

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where the SA gives out paths to that LID after the switch showed its top, or its port may have come since."""
        dlid = hit.arguments["dlid"]
        if context.get(NamedByPaths).since(dlid, hit.related[0].frame):
            return INFO
        known = context.get(FabricFollower).subnet.owner(dlid, hit.frame)[0]
        if known is None and not context.get(Vantage).manages(self.facts_used_of(hit, context), hit.frame):
            return INFO
        return super().severity_at_end(hit, context)

    def stands(self, hit: Hit, context: Context) -> bool:
        dlid = hit.arguments["dlid"]
        return bool(context.get(FabricFollower).subnet.owners(dlid)) or not self.senders[dlid]

    def suspicious(self, event: ChunkFollowed, native: Native, ends: PortLimits) -> tuple[Int, Int]:
        """The value is the frame since which the subnet was complete, as of LNK020, which may explain these packets."""
        if not len(ends.unicast) or ends.unicast[-1] <= ends.lowest_top:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        above = (native.dlid > ends.top[native.slid]) & (native.dlid < FIRST_MULTICAST) & (native.slid != native.dlid)
        index = np.flatnonzero(above)
        return index, swept_since(event, native.rows[index])

    def judge(self, subnet: Subnet, slid: int, dlid: int, value: int, frame: int) -> FaultDetails | None:
        port = subnet.owner(slid, frame)[0]
        if port is None:
            return None
        peer = port.facing_at(frame)[0]
        node = port.node if port.node.kind == SWITCH else peer.node if peer is not None else None
        top, since = node.linear_top.at(frame) if node is not None else (None, 0)
        if node is None or not top or dlid <= top:
            return None
        return {"switch": f"0x{node.guid:016x}", "top": top}, ((since, "SwitchInfo"),)
