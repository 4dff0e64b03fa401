"""Wrong fields of the local route header (LRH) and of flow control packets."""

from __future__ import annotations

from typing import Any

from ibdissect.decode import Bool, ChunkTable
from ibdissect.lint.rule import ERROR, INFO, WARNING, Rule, Seen
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import BTH, LRH, FlowControl
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import FIRST_MULTICAST, LAST_MULTICAST, MANAGEMENT_VL, MAX_WORDS, PERMISSIVE, SMP_CLASSES
from ibdissect.wire.opcodes import UD_SEND_ONLY

RAW, RAW_IPV6, LOCAL, GLOBAL = range(4)
LEAST_WORDS = (5, 5, 6, 16)
"""By LNH: raw 5; LRH 2, BTH 3, ICRC 1; GRH 10 more."""
LINK_FLOW = (LRH.slid, LRH.dlid)
A_PACKET = (LRH.lnh >= LOCAL) | (LRH.pktlen >= LEAST_WORDS[RAW])
"""Not the zeros that stand for a raw packet without a length (LNK004)."""


def length_disagrees(table: ChunkTable) -> Bool:
    """Packets whose PktLen is neither the frame's length nor two bytes (the VCRC) short of it; LNK004 and LNK005 judge the size."""
    found, chunk = table.occurrences(LRH), table.chunk
    length = chunk.length if len(found) == len(chunk) else chunk.length[found.rows]
    left = length - (table.values(LRH.pktlen) << 2)  # 11 bits in 16: shifting loses none
    odd: Bool = left & ~2 != 0
    return odd & ~table.located.snapped[found.rows] & ~too_small(table) & (table.values(LRH.pktlen) <= MAX_WORDS) if odd.any() else odd


def too_small(table: ChunkTable) -> Bool:
    """Packets whose PktLen leaves no room for the headers that LNH announces."""
    words, lnh = table.values(LRH.pktlen), table.values(LRH.lnh)
    least = LEAST_WORDS[0]
    small: Bool = (words < least) | ((words < LEAST_WORDS[LOCAL]) & (lnh == LOCAL)) | ((words < LEAST_WORDS[GLOBAL]) & (lnh == GLOBAL))
    return small


class HeaderRule(Rule):
    """Base of rules with one finding per pair of LIDs."""

    flow = LINK_FLOW


class LinkVersion(HeaderRule):
    """The link version of the local route header is not 0.

    Only version 0 exists. A port that receives another drops the packet, so the header is damaged, or this is not InfiniBand.

    Check the VCRC (ROC007): if it is right, the sender built the header; otherwise the link damaged it.
    """

    code, name, severity = "LNK001", "lrh-version-not-0", ERROR
    reference = "IBA 7.7"
    when = LRH.lver != 0
    message = "link version {lver}, only 0 exists"
    example = "a packet with LVer 1"


class LinkReservedBits(Rule):
    """Reserved bits of the local route header are not zero.

    Receivers ignore them. The sender did not clear its memory, or a capture device uses the bits for itself.

    If all packets of a capture show it, suspect the capture device; if only those of one sender do, suspect its firmware.
    """

    code, name, severity = "LNK002", "lrh-reserved-bits", WARNING
    reference = "IBA 7.7"
    when = (LRH.reserved2 != 0) | (LRH.reserved5 != 0)
    at = LRH.reserved5
    flow = (*LINK_FLOW, LRH.reserved2, LRH.reserved5)
    message = "reserved bits of the LRH are 0x{reserved2:x} (behind SL) and 0x{reserved5:02x} (before PktLen) instead of 0"
    example = "a packet whose fifth byte starts with ones"


class LengthDisagrees(Rule):
    """The length in the local route header does not match the frame.

    PktLen says where the packet ends. With a wrong one the receiver looks for the CRCs in the wrong place and drops the packet; what is
    read from the packet's end here is wrong, too.

    Compare with the frame's length on the wire: a few bytes point to a faulty sender or capture tool, more to a damaged header.

    A whole frame whose length does not fit PktLen, with or without a VCRC. Silent where more than the ICRC is missing and PayLen does not
    contradict PktLen: a mirror may have cut the packet (CAP001). Consequences are not reported again: a management datagram of
    the wrong size (CAP015), or a PayLen that does not agree (GRH003).
    """

    code, name, severity = "LNK003", "lrh-pktlen-vs-capture", ERROR
    reference = "IBA 7.7; 43 of 43 frames of a public capture end two bytes (VCRC) after PktLen"
    explains = ("BTH005", "BTH006", "BTH007", "ROC005", "ROC006", "ROC007", "SMP001", "TXN001")
    when = Where(LRH.pktlen, length_disagrees)
    message = "PktLen of {pktlen} words ({announced:byte}, {with_vcrc} with VCRC) in a frame of {length} bytes"
    example = "a packet whose PktLen is one word too large"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        announced = seen.value(LRH.pktlen) * 4
        return {"announced": announced, "with_vcrc": announced + 2, "length": int(seen.table.chunk.length[seen.row])}


class LengthTooSmall(Rule):
    """The length in the local route header leaves no room for the headers.

    No valid packet is that short; a port drops it and counts a receive error.

    Check the VCRC: if it is right, the sender is faulty; otherwise the link damaged the header.
    """

    code, name, severity = "LNK004", "lrh-pktlen-minimum", ERROR
    explains = ("ROC006", "ROC007")
    reference = "IBA 7.7; sizes of LRH, GRH, BTH and ICRC"
    when = Where(LRH.pktlen, too_small, of_content=True)
    message = "PktLen of {pktlen} words, a packet with LNH {lnh} has at least {least}"
    example = "a packet with PktLen 3"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"least": LEAST_WORDS[seen.value(LRH.lnh)]}


class LengthTooLarge(HeaderRule):
    """The length in the local route header exceeds the largest packet.

    4096 bytes of payload with all headers make 1055 words. Nothing larger fits a link's buffers, so the packet is dropped.

    Look for a sender that confuses bytes and words, or a capture of another kind of link.
    """

    code, name, severity = "LNK005", "lrh-pktlen-maximum", ERROR
    explains = ("BTH007", "GRH003", "ROC005", "ROC006", "ROC007", "SMP001")
    reference = "IBA 7.7; python-rdma MAX_PKT_WORDS"
    when = LRH.pktlen > MAX_WORDS
    message = "PktLen of {pktlen} words, the largest packet has 1055"
    example = "a packet with PktLen 0x500"


class DestinationLidZero(HeaderRule):
    """The destination LID is 0.

    LID 0 is reserved, so the first switch drops the packet. The sender learnt its path before the subnet manager gave the other side a LID,
    or never resolved it.

    Check the port state and LID of both ends, and where the sender's address handle got its LID from.
    """

    code, name, severity = "LNK006", "lrh-dlid-reserved", ERROR
    explains = ("SMP012", "TXN001")
    reference = "IBA 4.1.3; python-rdma LID_RESERVED"
    when = (LRH.dlid == 0) & A_PACKET
    message = "the destination LID is 0, which is reserved"
    example = "a packet with DLID 0"


class SourceLidZero(HeaderRule):
    """A packet with source LID 0 is not a subnet management packet.

    A port without a LID may send only subnet management packets. Nobody can answer this packet.

    Check whether the port was active when it sent the packet, and whether the subnet manager reached it.
    """

    code, name, severity = "LNK007", "lrh-slid-reserved", WARNING
    explains = ("TXN001",)
    reference = "IBA 4.1.3; opensm osm_trap_rcv accepts traps from SLID 0"
    when = (LRH.slid == 0) & (LRH.vl != MANAGEMENT_VL) & A_PACKET
    message = "the source LID is 0 in a packet on VL {vl}: without a LID a port may send only subnet management packets"
    example = "an RC packet with SLID 0"


class SourceLidMulticast(HeaderRule):
    """The source LID is a multicast LID.

    A packet comes from one port, so its source is a unicast LID. Answers to this one would go to a whole group.

    The header was damaged or built by a faulty tool; check the VCRC.
    """

    code, name, severity = "LNK008", "lrh-slid-multicast", ERROR
    explains = ("SMP012", "TXN001")
    reference = "IBA 4.1.3; python-rdma LID_MULTICAST"
    when = LRH.slid.between(FIRST_MULTICAST, LAST_MULTICAST)
    message = "the source LID 0x{slid:04x} is a multicast LID"
    example = "a packet with SLID 0xC001"


class PermissiveLid(Rule):
    """The permissive LID is used outside subnet management.

    0xFFFF means "whoever is at the end of this link" and belongs to directed-route SMPs. A switch does not forward other packets with it.

    Check how the sender got its LID: 0xFFFF is a common placeholder in path records and CM requests.
    """

    code, name, severity = "LNK009", "lrh-permissive-non-smp", ERROR
    reference = "Shanley, SMP handling; python-rdma LID_PERMISSIVE"
    when = ((LRH.dlid == PERMISSIVE) | (LRH.slid == PERMISSIVE)) & (
        (BTH.destqp != 0) | (present(MAD) & ~MAD.mgmt_class.isin(SMP_CLASSES)) | (LRH.lnh < LOCAL)
    )
    flow = (*LINK_FLOW, BTH.destqp)
    message = "permissive LID (0x{slid:04x} to 0x{dlid:04x}) in a packet that is no subnet management packet, {to}"
    example = "a performance management datagram to DLID 0xFFFF"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"to": f"to queue pair {seen.value(BTH.destqp)}" if seen.first(BTH) is not None else "which is raw"}


class NotManagementOnVl15(Rule):
    """A packet on virtual lane 15 is not a subnet management packet.

    VL15 is for subnet management only; a port drops anything else. VL15 has no flow control, so such traffic also pushes out management
    packets.

    Check the sender's SL-to-VL table and driver. Headers damaged on the way show up as bad VCRCs.
    """

    code, name, severity = "LNK010", "vl15-not-smp", ERROR
    reference = "Shanley, SMP handling (SMPs use VL15 buffers)"
    when = (LRH.vl == MANAGEMENT_VL) & (
        (LRH.lnh < LOCAL) | (BTH.opcode != UD_SEND_ONLY) | (BTH.destqp != 0) | (present(MAD) & ~MAD.mgmt_class.isin(SMP_CLASSES))
    )
    flow = (*LINK_FLOW, BTH.destqp)
    message = "a packet on VL 15 that is no subnet management packet"
    example = "a performance management datagram on VL 15"


class ManagementNotOnVl15(HeaderRule):
    """A subnet management packet travels on a virtual lane other than 15.

    Receivers take subnet management from VL15 only. On another lane the packet is dropped or waits behind data.

    Find the sender; if all packets of the capture show the same lane, its capture device rewrites the lane.
    """

    code, name, severity = "LNK011", "smp-not-vl15", ERROR
    reference = "Shanley, SMP handling"
    on = MAD
    when = MAD.mgmt_class.isin(SMP_CLASSES) & (LRH.vl != MANAGEMENT_VL) & (BTH.destqp == 0)
    at = LRH.vl
    message = "a subnet management packet on VL {LRH.vl} instead of 15"
    example = "SubnGet(NodeInfo) on VL 0"


class ManagementServiceLevel(Rule):
    """A subnet management packet has a service level other than 0.

    It is legal: a trap carries the SL that the master SM asked for, and some routing engines use one. On VL15 the level has no effect.

    Nothing, unless packets on VL15 are sorted by service level.
    """

    code, name, severity = "LNK012", "vl15-sl-nonzero", INFO
    is_note = True
    reference = "Shanley, table 29-5 (MasterSMSL)"
    when = (LRH.vl == MANAGEMENT_VL) & (LRH.sl != 0)
    at = LRH.sl
    flow = (*LINK_FLOW, LRH.sl)
    message = "a packet on VL 15 with SL {sl}, usually it is 0"
    example = "SubnGet(NodeInfo) with SL 3"


class ManagementWithGrh(HeaderRule):
    """A packet on virtual lane 15 has a global route header.

    Subnet management never leaves the subnet, so its packets have no GRH; ports drop those that do.

    Find the sender by its LID; its management agent or a test tool builds wrong packets.
    """

    code, name, severity = "LNK013", "vl15-grh", ERROR
    reference = "subnet management stays in its subnet; no SMP with GRH in any capture seen"
    when = (LRH.vl == MANAGEMENT_VL) & (LRH.lnh == GLOBAL) & (BTH.destqp == 0)
    at = LRH.lnh
    message = "a subnet management packet with a GRH, which it must not have"
    example = "SubnGet(NodeInfo) after a GRH"


class RawPacket(Rule):
    """Raw packets (LNH 0 or 1) are on the link.

    They carry another protocol, without P_Key or queue pair. Partitions do not separate them, and ports may filter them.

    Check that raw traffic is intended (Ethernet gateways, older storage bridges); FilterRaw in PortInfo switches it off.
    """

    code, name, severity = "LNK014", "raw-packet-seen", INFO
    reference = "Shanley, raw queue pairs, FilterRawInbound"
    when = LRH.lnh < LOCAL
    flow = (*LINK_FLOW, LRH.lnh)
    message = "a raw packet (LNH {lnh}): it has no P_Key, so partitions do not hold it back"
    example = "a packet with LNH 0"


class FlowControlOperand(Rule):
    """A flow-control packet has a reserved operand.

    0 gives credits, 1 starts the link. A receiver ignores any other, and without credits the sender stops.

    Check the link's error counters; a damaged operand shows in the packet's CRC as well.
    """

    code, name, severity = "LNK023", "flowcontrol-bad-op", ERROR
    reference = "IBA 7.9.4"
    when = FlowControl.op > 1
    flow = (FlowControl.vl, FlowControl.op)
    message = "flow-control operand {op}, only 0 and 1 exist"
    example = "a flow-control packet with operand 5"
