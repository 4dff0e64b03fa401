"""Which link and lane settings of PortInfo are not possible?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, WARNING, Rule
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, OF_EXTERNAL_PORT, READ, SMP_ANSWER, SMP_SET
from ibdissect.wire.sm_port import PortInfo

MTU_TOP, VL_TOP = 5, 5
"""Highest codes of MTU (4096 bytes) and VLCap (VL0-VL14)."""
ACTIVE, LINK_UP = 4, 5


class MTUReserved(Rule):
    """A port's NeighborMTU or MTUCap is a reserved code.

    Codes 1 to 5 stand for 256 to 4096 bytes. A port with any other code may send packets that its neighbour drops.

    In a Set, correct the subnet manager; in a response, the firmware of the port.

    The SMP or SA record alone. Code 0 counts where a numbered port answers and is Active: port 0 of a switch may show 0.
    """

    code, name, severity = "SEM003", "portinfo-mtu-reserved", ERROR
    reference = "IBA 14.2.5.6"
    when = ((PortInfo.neighbor_mtu > MTU_TOP) | (PortInfo.mtu_cap > MTU_TOP)) & HAS_CONTENT | (
        ((PortInfo.neighbor_mtu == 0) | (PortInfo.mtu_cap == 0)) & (PortInfo.port_state == ACTIVE) & SMP_ANSWER & OF_EXTERNAL_PORT
    )
    message = "NeighborMTU {neighbor_mtu}, MTUCap {mtu_cap}: codes are 1 (256 bytes) to 5 (4096)"
    example = "SubnSet(PortInfo) with NeighborMTU 9"


class MTUAboveCap(Rule):
    """A port's NeighborMTU is larger than its MTUCap.

    The port is told to accept packets that it cannot hold; long packets are lost while short ones pass, so the fault shows only
    under load.

    Correct the subnet manager or its configuration: NeighborMTU is the smaller MTUCap of both ends of the link.
    """

    code, name, severity = "SEM004", "portinfo-mtu-gt-cap", WARNING
    reference = "IBA 14.2.5.6"
    when = (PortInfo.neighbor_mtu > PortInfo.mtu_cap) & (PortInfo.mtu_cap != 0) & (PortInfo.neighbor_mtu <= MTU_TOP) & HAS_CONTENT
    message = "NeighborMTU {neighbor_mtu} above MTUCap {mtu_cap}"
    example = "SubnSet(PortInfo) with NeighborMTU 5 (4096) and MTUCap 3 (1024)"


class VLCapReserved(Rule):
    """A port's VLCap is a reserved code.

    The subnet manager derives the number of data lanes from it; with a reserved code it guesses or leaves the link down.

    Update the firmware of the port.

    One packet is enough. Code 0 is not reported for port 0 of a switch.
    """

    code, name, severity = "SEM005", "portinfo-vlcap-reserved", ERROR
    reference = "IBA 14.2.5.6"
    when = ((PortInfo.vl_cap > VL_TOP) & READ) | ((PortInfo.vl_cap == 0) & SMP_ANSWER & OF_EXTERNAL_PORT)
    message = "VLCap {vl_cap}, codes are 1 (VL0) to 5 (VL0-VL14)"
    example = "SubnGetResp(PortInfo) with VLCap 9"


class OperationalVLsAboveCap(Rule):
    """A port's OperationalVLs is a reserved code or more than VLCap allows.

    The port would use lanes that have no buffers; packets mapped to them are discarded.

    Correct the subnet manager (max_op_vls of OpenSM).

    One packet is enough. 0 in a Set means no change and is not reported.
    """

    code, name, severity = "SEM006", "portinfo-opervls-gt-cap", ERROR
    reference = "IBA 14.2.5.6"
    when = ((PortInfo.operational_vls > VL_TOP) & HAS_CONTENT) | (
        (PortInfo.operational_vls > PortInfo.vl_cap) & PortInfo.vl_cap.between(1, VL_TOP) & HAS_CONTENT
    )
    message = "OperationalVLs {operational_vls} with VLCap {vl_cap}"
    example = "SubnSet(PortInfo) with OperationalVLs 5 for a port with VLCap 1"


class WidthEnabledReserved(Rule):
    """A Set of PortInfo enables a link width that does not exist.

    Bits 0 to 4 stand for 1x, 4x, 8x, 12x and 2x; 0 means no change and 255 all that are supported. The port refuses anything else
    with status 7 and keeps its old setting.

    Correct the subnet manager or the tool that sent the Set.
    """

    code, name, severity = "SEM007", "linkwidth-enabled-reserved", ERROR
    reference = "IBA 14.2.5.6; kernel qib; opensm (2x)"
    when = (PortInfo.link_width_enabled > 31) & (PortInfo.link_width_enabled != 255) & SMP_SET
    message = "LinkWidthEnabled 0x{link_width_enabled:02x} holds reserved bits"
    example = "SubnSet(PortInfo) with LinkWidthEnabled 0x20"


class SpeedEnabledReserved(Rule):
    """A Set of PortInfo enables a reserved link speed.

    Bits 0 to 2 stand for 2.5, 5 and 10 Gb/s, 15 for all that are supported; 8 to 14 are reserved and the port refuses the Set.

    Correct the subnet manager or the tool; faster links are enabled by LinkSpeedExtEnabled.
    """

    code, name, severity = "SEM009", "linkspeed-enabled-reserved", ERROR
    reference = "IBA 14.2.5.6; kernel qib"
    when = PortInfo.link_speed_enabled.between(8, 14) & SMP_SET
    message = "LinkSpeedEnabled {link_speed_enabled} is reserved"
    example = "SubnSet(PortInfo) with LinkSpeedEnabled 9"


class PortStateSet(Rule):
    """A Set of PortInfo requests a port state that cannot be requested.

    A manager may write Down, Armed, Active or no change, and a physical state only together with Down or no change. The port
    refuses anything else with status 7 and keeps its state, so the link never becomes active.

    Correct the subnet manager; a port gets to Initialize by itself.
    """

    code, name, severity = "SEM011", "portstate-illegal-set", ERROR
    reference = "IBA 14.2.5.6; kernel qib set_portinfo"
    when = (~PortInfo.port_state.isin({0, 1, 3, 4}) | ((PortInfo.port_physical_state != 0) & ~PortInfo.port_state.isin({0, 1}))) & SMP_SET
    message = "PortState {port_state} with PortPhysicalState {port_physical_state} cannot be set"
    example = "SubnSet(PortInfo) with PortState 2 (Initialize)"


class LinkDownDefaultReserved(Rule):
    """A Set of PortInfo has a reserved LinkDownDefaultState.

    A link that goes down shall sleep (1) or poll (2); 0 changes nothing. With any other value the port refuses the whole Set.

    Correct the subnet manager or the tool that sent the Set.
    """

    code, name, severity = "SEM013", "linkdowndefault-reserved", ERROR
    reference = "IBA 14.2.5.6"
    when = (PortInfo.link_down_default_state > 2) & SMP_SET
    message = "LinkDownDefaultState {link_down_default_state} is reserved"
    example = "SubnSet(PortInfo) with LinkDownDefaultState 5"


class WidthActiveReserved(Rule):
    """A port's LinkWidthActive is not a link width.

    Managers compute the rates of paths from it; a value with several bits, or 0 on a link that is up, gives wrong rates.

    Update the firmware of the port.
    """

    code, name, severity = "SEM057", "linkwidthactive-not-supported", WARNING
    reference = "IBA 14.2.5.6; opensm (2x)"
    when = (~PortInfo.link_width_active.isin({0, 1, 2, 4, 8, 16}) & READ) | (
        (PortInfo.link_width_active == 0) & (PortInfo.port_physical_state == LINK_UP) & SMP_ANSWER & OF_EXTERNAL_PORT
    )
    message = "LinkWidthActive {link_width_active} is no link width"
    example = "SubnGetResp(PortInfo) with LinkWidthActive 3"
