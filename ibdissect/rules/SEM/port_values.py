"""Values of PortInfo and SwitchInfo that are not possible, unwise, or contradict each other."""

from typing import Any

from ibdissect.lint.rule import ERROR, INFO, WARNING, Rule, Seen
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, HAS_LINK, ON_LINK, READ, SMP_ANSWER, SMP_SET
from ibdissect.wire.headers import LRH
from ibdissect.wire.sm import SwitchInfo
from ibdissect.wire.sm_port import PortInfo

MTU_TOP, VL_TOP = 5, 5
"""Highest codes of MTU (4096 bytes) and VLCap (VL0-VL14)."""
ACTIVE, LINK_UP = 4, 5
ENABLED = SMP_SET | SMP_ANSWER
"""Where what PortInfo enables counts."""
RESERVED_BITS = (
    ((PortInfo.reserved1 != 0) & (PortInfo.is_m_key_protect_bits_ext_supported == 0))
    | (PortInfo.reserved2 != 0)
    | (PortInfo.reserved4 != 0)
)
"""Bits of PortInfo that the standard reserves are not zero."""


class MTUReserved(Rule):
    """A port's NeighborMTU or MTUCap is a reserved code.

    Codes 1 to 5 stand for 256 to 4096 bytes. A port with any other code may send packets that its neighbour drops.

    In a Set, correct the subnet manager; in a response, the firmware of the port.

    The SMP or SA record alone. Code 0 counts where a port answers that is Active. Port 0 of a switch may show
    anything: an answer without a port number counts once a NodeInfo showed that the node is no switch.
    """

    code, name, severity = "SEM003", "portinfo-mtu-reserved", ERROR
    reference = "IBA 14.2.5.6"
    when = ((PortInfo.neighbor_mtu > MTU_TOP) & ON_LINK) | ((PortInfo.mtu_cap > MTU_TOP) & HAS_CONTENT) | (
        ((PortInfo.neighbor_mtu == 0) | (PortInfo.mtu_cap == 0)) & (PortInfo.port_state == ACTIVE) & READ
    )
    message = "NeighborMTU {neighbor_mtu}, MTUCap {mtu_cap}: codes are 1 (256 bytes) to 5 (4096)"
    example = "SubnSet(PortInfo) with NeighborMTU 9"


class MTUAboveCap(Rule):
    """A port's NeighborMTU is larger than its MTUCap.

    The port is told to accept packets that it cannot hold. Long packets are lost while short ones pass.

    Correct the subnet manager or its configuration: NeighborMTU is the smaller MTUCap of both ends of the link.

    One packet is enough. Silent for a port that is down: what it shows is of its last link.
    """

    code, name, severity = "SEM004", "portinfo-mtu-gt-cap", WARNING
    reference = "IBA 14.2.5.6"
    when = (PortInfo.neighbor_mtu > PortInfo.mtu_cap) & (PortInfo.mtu_cap != 0) & (PortInfo.neighbor_mtu <= MTU_TOP) & ON_LINK
    message = "NeighborMTU {neighbor_mtu!t} is above MTUCap {mtu_cap!t}"
    example = "SubnSet(PortInfo) with NeighborMTU 5 (4096) and MTUCap 3 (1024)"


class VLCapReserved(Rule):
    """A port's VLCap is a reserved code.

    The subnet manager derives the number of data lanes from it; with a reserved code it guesses or leaves the link down.

    Update the firmware of the port.

    One packet is enough. Code 0 is not reported for port 0 of a switch, nor of a port that is down: one without lanes shows zeros.
    """

    code, name, severity = "SEM005", "portinfo-vlcap-reserved", ERROR
    reference = "IBA 14.2.5.6"
    when = ((PortInfo.vl_cap > VL_TOP) & READ) | ((PortInfo.vl_cap == 0) & SMP_ANSWER & HAS_LINK)
    message = "VLCap {vl_cap}, codes are 1 (VL0) to 5 (VL0-VL14)"
    example = "SubnGetResp(PortInfo) with VLCap 9"


class OperationalVLsAboveCap(Rule):
    """A port's OperationalVLs is a reserved code or more than VLCap allows.

    The port would use lanes that have no buffers; packets mapped to them are discarded.

    Correct the subnet manager (max_op_vls of OpenSM).

    One packet is enough. 0 means no change in a Set; it counts where a port answers that is Active: a numbered one, or of a node that its
    NodeInfo showed to be no switch. Silent for a port that is down: what it shows is of its last link.
    """

    code, name, severity = "SEM006", "portinfo-opervls-gt-cap", ERROR
    reference = "IBA 14.2.5.6"
    when = ((PortInfo.operational_vls > VL_TOP) & ON_LINK) | (
        ((PortInfo.operational_vls > PortInfo.vl_cap) & PortInfo.vl_cap.between(1, VL_TOP) & ON_LINK)
        | ((PortInfo.operational_vls == 0) & (PortInfo.port_state == ACTIVE) & READ)
    )
    message = "OperationalVLs {operational_vls!t} with VLCap {vl_cap!t}: codes are 1 to 5, and at most VLCap"
    example = "SubnSet(PortInfo) with OperationalVLs 5 for a port with VLCap 1"


class WidthEnabledReserved(Rule):
    """PortInfo enables a link width that does not exist.

    Bits 0 to 4 stand for 1x, 4x, 8x, 12x and 2x; 0 means no change, 255 all that are supported. A port refuses anything else with status
    7.

    Correct the subnet manager or the tool that sent the Set; if a port answers so, update its firmware.

    One packet is enough: a Set, or the answer of a numbered port. An answer without a port number counts once a NodeInfo showed that the
    node is no switch.
    """

    code, name, severity = "SEM007", "linkwidth-enabled-reserved", ERROR
    explains = ("SEM008",)
    reference = "IBA 14.2.5.6; kernel qib; opensm (2x)"
    when = (PortInfo.link_width_enabled > 31) & (PortInfo.link_width_enabled != 255) & ENABLED
    message = "LinkWidthEnabled 0x{link_width_enabled:02x} holds reserved bits; widths are bits 0 to 4, 0xff means all"
    example = "SubnSet(PortInfo) with LinkWidthEnabled 0x20"


class SpeedEnabledReserved(Rule):
    """PortInfo enables a reserved link speed.

    Bits 0 to 2 stand for 2.5, 5 and 10 Gb/s, 15 for all that are supported; 8 to 14 are reserved, and a port refuses such a Set.

    Correct the subnet manager or the tool; faster links are enabled by LinkSpeedExtEnabled. If a port answers so, update its firmware.

    One packet is enough: a Set, or the answer of a numbered port. An answer without a port number counts once a NodeInfo showed that the
    node is no switch.
    """

    code, name, severity = "SEM009", "linkspeed-enabled-reserved", ERROR
    reference = "IBA 14.2.5.6; kernel qib"
    when = PortInfo.link_speed_enabled.between(8, 14) & ENABLED
    message = "LinkSpeedEnabled {link_speed_enabled} is reserved; speeds are 1 to 7, 15 means all"
    example = "SubnSet(PortInfo) with LinkSpeedEnabled 9"


class PortStateSet(Rule):
    """A Set of PortInfo requests a port state that cannot be requested.

    A manager may write Down, Armed, Active or no change, and a physical state (Sleep, Polling, Disabled) only with Down or no change. The
    port refuses anything else with status 7, so the link never becomes active.

    Correct the subnet manager; a port gets to Initialize by itself.
    """

    code, name, severity = "SEM011", "portstate-illegal-set", ERROR
    reference = "IBA 14.2.5.6; kernel qib set_portinfo"
    when = (~PortInfo.port_state.isin({0, 1, 3, 4}) | ((PortInfo.port_physical_state != 0) & ~PortInfo.port_state.isin({0, 1}))
            | (PortInfo.port_physical_state > 3)) & SMP_SET
    message = "Set(PortInfo) asks for PortState {port_state!t} with PortPhysicalState {port_physical_state!t}, which the port refuses"
    example = "SubnSet(PortInfo) with PortState 2 (Initialize)"


class LinkDownDefaultReserved(Rule):
    """PortInfo has a reserved LinkDownDefaultState.

    A link that goes down shall sleep (1) or poll (2); 0 changes nothing. With any other value a port refuses the whole Set.

    Correct the subnet manager or the tool that sent the Set; if a port answers so, update its firmware.

    One packet is enough: a Set, or the answer of a numbered port. An answer without a port number counts once a NodeInfo showed that the
    node is no switch.
    """

    code, name, severity = "SEM013", "linkdowndefault-reserved", ERROR
    reference = "IBA 14.2.5.6"
    when = (PortInfo.link_down_default_state > 2) & ENABLED
    message = "LinkDownDefaultState {link_down_default_state} is reserved; it may be 1 (Sleep) or 2 (Polling)"
    example = "SubnSet(PortInfo) with LinkDownDefaultState 5"


class WidthActiveReserved(Rule):
    """A port's LinkWidthActive is not a link width.

    Managers compute the rates of paths from it; a value with several bits, or 0 on a link that is up, gives wrong rates.

    Update the firmware of the port.

    One answer is enough. Silent for a port that is down: its active width means nothing.
    """

    code, name, severity = "SEM057", "linkwidthactive-not-supported", WARNING
    reference = "IBA 14.2.5.6; opensm (2x)"
    when = (~PortInfo.link_width_active.isin({0, 1, 2, 4, 8, 16}) & HAS_LINK & READ) | (
        ~PortInfo.link_width_active.isin({0, 16}) & (PortInfo.link_width_supported != 0) & HAS_LINK & READ  # 2x is newer than many masks
        & ((PortInfo.link_width_active & PortInfo.link_width_supported) == 0)
    ) | (
        (PortInfo.link_width_active == 0) & (PortInfo.port_physical_state == LINK_UP) & READ
    )
    message = "LinkWidthActive {link_width_active} {why}"
    example = "SubnGetResp(PortInfo) with LinkWidthActive 3"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        info: PortInfo = seen.table.view(PortInfo, i)
        known = info.link_width_active in {1, 2, 4, 8, 16}
        supported = f"is not among LinkWidthSupported 0x{info.link_width_supported:02x}"
        return {"why": supported if known else "is no link width; it may be 1, 2, 4, 8 or 16"}


SATURATED = 0xFFFF
LONGEST = 19
"""Above this code, lifetimes are infinite (IBA 18.2.5)."""


class ViolationsSaturated(Rule):
    """A violation counter of a port has reached its maximum.

    The counters stop at 65535: how many packets with a wrong M_Key, P_Key or Q_Key really arrived is no longer known.

    Find the senders (traps 256 to 259 name them), then write 0 to the counters.
    """

    code, name, severity = "SEM015", "violation-counter-clamped", INFO
    reference = "IBA 14.2.5.6"
    when = (
        (PortInfo.m_key_violations == SATURATED) | (PortInfo.p_key_violations == SATURATED) | (PortInfo.q_key_violations == SATURATED)
    ) & READ
    flow = (PortInfo.lid, PortInfo.local_port_num)
    message = "a violation counter stopped at 65535: M_Key {m_key_violations}, P_Key {p_key_violations}, Q_Key {q_key_violations}"
    example = "SubnGetResp(PortInfo) with P_KeyViolations 0xffff"


class HOQLifeInfinite(Rule):
    """A Set of PortInfo lets packets wait at the head of a switch port's queue forever.

    HOQLife is what breaks a deadlock: without it a credit loop, or a host that stops receiving, blocks all traffic behind it until a port
    is reset.

    Set head_of_queue_lifetime to 19 or less, unless the routing is known to be free of loops and this is intended.
    """

    code, name, severity = "SEM018", "hoqlife-infinite", INFO
    reference = "IBA 14.2.5.6, 18.2.5.4"
    when = (PortInfo.hoq_life > LONGEST) & SMP_SET
    flow = (PortInfo.hoq_life, LRH.slid)
    message = "HOQLife {hoq_life} lets packets wait forever; times end with 19"
    example = "SubnSet(PortInfo) with HOQLife 20"


class LifeTimeInfinite(Rule):
    """A switch keeps packets for an unlimited time.

    LifeTimeValue above 19 disables the time limit of packets inside the switch: they may arrive after their sender gave up, and a blocked
    port holds its buffers forever.

    Set packet_life_time to 19 or less (the default of OpenSM is 18), unless the routing is known to be free of loops and this is intended.

    One packet is enough. Silent where a switch answers whose LinearFDBTop is still 0: no manager has set it up yet.
    """

    code, name, severity = "SEM019", "lifetime-infinite", INFO
    reference = "IBA 14.2.5.4, 18.2.5.4"
    when = (SwitchInfo.life_time_value > LONGEST) & (
        SMP_SET | (((SwitchInfo.linear_fdb_top != 0) | (SwitchInfo.linear_fdb_cap == 0)) & READ)
    )
    flow = (SwitchInfo.life_time_value, LRH.slid)
    message = "LifeTimeValue {life_time_value} lets the switch keep packets forever; times end with 19"
    example = "SubnSet(SwitchInfo) with LifeTimeValue 31"


class PortInfoReserved(Rule):
    """A Set of PortInfo writes to reserved bits.

    Managers copy what they have read, so the bits may be the port's own. Otherwise they come from a newer layout or a mistake of the
    sender.

    Compare with the last response of the port: if it has the same bits, do nothing; otherwise correct the sender.
    """

    code, name, severity = "SEM020", "portinfo-set-reserved-fields", INFO
    reference = "IBA 14.2.5.6"
    when = RESERVED_BITS & SMP_SET
    flow = (LRH.slid,)
    message = "reserved bits are written: {reserved1} before LMC, {reserved2} before RespTimeValue, {reserved4} before LinkSpeedExtEnabled"
    example = "SubnSet(PortInfo) with 1 in the bits between M_KeyProtectBits and LMC"


class MasterLIDZero(Rule):
    """A port has a LID but does not know its subnet manager.

    Traps and SA requests of the port go to MasterSMLID; with 0 they go nowhere. Right after a boot it is normal for a moment.

    Check that a later Set(PortInfo) gives the port a MasterSMLID; otherwise find out why the manager skips it.
    """

    code, name, severity = "SEM021", "masterlid-zero", INFO
    reference = "IBA 14.2.5.6"
    when = (PortInfo.master_sm_lid == 0) & (PortInfo.lid != 0) & HAS_CONTENT
    flow = (PortInfo.lid,)
    message = "the port with LID {lid} has MasterSMLID 0: it knows no subnet manager"
    example = "SubnGetResp(PortInfo) with LID 5 and MasterSMLID 0"


class CapabilityReserved(Rule):
    """A port sets bit 0 of its CapabilityMask, which is reserved.

    A mask that is shifted by one bit is wrong in every other bit, too: a port without a manager would claim to have one.

    Update the firmware of the port, or compare its other capability bits with its data sheet.
    """

    code, name, severity = "SEM062", "capmask-reserved", WARNING
    reference = "IBA 14.2.5.6; opensm IB_PORT_CAP_RESV0"
    when = ((PortInfo.capability_mask & 1) != 0) & READ
    flow = (PortInfo.lid, PortInfo.local_port_num)
    message = "CapabilityMask 0x{capability_mask:08x} has bit 0 set, which is reserved"
    example = "SubnGetResp(PortInfo) with CapabilityMask 0x00000001"


class ExtSpeedsClaimed(Rule):
    """A port claims extended speeds but supports none.

    The manager asks such a port again with the extended-speeds bit in the modifier, and computes rates from empty fields.

    Update the firmware of the port.

    One answer is enough. Only an `info`: 0 stands for none, as old ports have it. Port 0 of a switch, which speaks for the whole switch, is
    not judged.
    """

    code, name, severity = "SEM063", "capmask-ext-but-no-capmask2", INFO
    reference = "IBA 14.2.5.6; opensm IB_PORT_CAP_HAS_EXT_SPEEDS"
    when = (
        (PortInfo.is_extended_speeds_supported == 1) & (PortInfo.is_capability_mask2_supported == 0)
        & (PortInfo.link_speed_ext_supported == 0) & SMP_ANSWER
    )  # fmt: skip
    at = PortInfo.capability_mask
    flow = (PortInfo.lid, PortInfo.local_port_num)
    message = "CapabilityMask 0x{capability_mask:08x} claims extended speeds, LinkSpeedExtSupported is 0"
    example = "SubnGetResp(PortInfo) of port 1 with bit 14 set and LinkSpeedExtSupported 0"


class FDBExclusive(Rule):
    """A switch claims both kinds of forwarding table, or none.

    A switch forwards by a linear or by a random table. With both capacities the manager may fill the unused one; with none it can program
    no route.

    Update the firmware of the switch.
    """

    code, name, severity = "SEM051", "fdb-both-or-none", ERROR
    reference = "IBA 14.2.5.4"
    when = (
        ((SwitchInfo.random_fdb_cap != 0) & (SwitchInfo.linear_fdb_cap != 0))
        | ((SwitchInfo.linear_fdb_cap == 0) & (SwitchInfo.random_fdb_cap == 0))
    ) & READ
    message = "LinearFDBCap {linear_fdb_cap} and RandomFDBCap {random_fdb_cap}: exactly one of them must be above 0"
    example = "SubnGetResp(SwitchInfo) with both capacities 1024"
