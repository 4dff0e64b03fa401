"""Rules about what ports, nodes and switches answered before: no handler, no table of what was seen."""

from typing import ClassVar

from ibdissect.lint.rule import INFO, WARNING
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import ANSWERED, OF_SWITCH, WRITTEN, AttributeRule, Fault
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeInfo, VendorDiag
from ibdissect.wire.sm_port import PortInfo


class Narrower(AttributeRule):
    """A link came up with fewer lanes than before.

    It carries a fraction of the traffic.

    Clean or replace the cable.
    """

    code, name, severity = "SITE001", "link-narrower", WARNING
    at = PortInfo.link_width_active
    when = ANSWERED & (at > 0) & (at < previous(at))
    message = "{port} runs with LinkWidthActive {now}, {before} before"
    why = "showed {before}"
    example = "two GetResp(PortInfo) of a port, LinkWidthActive 2 and 1"


class OverrunsRaised(AttributeRule):
    """A Set raises OverrunErrors of a port with few lanes.

    Errors are noticed later.

    Nothing.
    """

    code, name, severity = "SITE002", "overruns-raised", INFO
    at = PortInfo.overrun_errors
    lanes = previous(PortInfo.link_width_supported)
    when = WRITTEN & (lanes == 1) & (at > previous(at) + 2)
    message = "{method}(PortInfo) of {port} with OverrunErrors {now}; it supports widths {lanes}"
    says: ClassVar = {"lanes": lanes}
    example = "GetResp(PortInfo) with LinkWidthSupported 1 and OverrunErrors 8, then a Set with 11"


class LastPort(AttributeRule):
    """Somebody manages the last port of a switch.

    It is reserved.

    Ask.
    """

    code, name, severity = "SITE003", "last-port", INFO
    at = PortInfo.port_state
    held = previous(NodeInfo.num_ports)
    when = WRITTEN & OF_SWITCH & ((MAD.attribute_modifier & 0xFF) == held)
    message = "Set(PortInfo) of the last one of {ports} ports of {port}"
    why = "NodeInfo: {ports} ports"
    says: ClassVar = {"ports": held}
    example = "NodeInfo of a switch with 8 ports, then a Set(PortInfo) with AttributeModifier 8"


class TimeoutLowered(AttributeRule):
    """A Set lowers the SubnetTimeOut of a port.

    Requests are repeated although their answers are on the way.

    Compare the timeouts of the managers.
    """

    code, name, severity = "SITE005", "timeout-lowered", WARNING
    at = PortInfo.subnet_time_out
    when = WRITTEN & (at > 0)
    faults = (
        Fault(at < 8, "below 8"),
        Fault(at < previous(at), "it had {before}", "SubnetTimeOut {before}"),
    )
    message = "Set(PortInfo) of {port} with SubnetTimeOut {now}: {what}"
    example = "GetResp(PortInfo) with SubnetTimeOut 18, then a Set with 17"


class OtherPage(AttributeRule):
    """A diagnostic page names another page as the next one than before.

    The diagnostics changed.

    Read all pages again.
    """

    code, name, severity = "SITE004", "other-page", INFO
    at = VendorDiag.next_index
    when = ANSWERED & (at != previous(at))
    message = "page {page} of {port} names {now} as the next one, {before} before"
    says: ClassVar = {"page": MAD.attribute_modifier}
    example = "two GetResp(VendorDiag) of page 1 with NextIndex 2 and 3"
