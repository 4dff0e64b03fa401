"""What do packets and attributes of Omni-Path show by themselves?"""

from __future__ import annotations

from ibdissect.lint.rule import INFO, WARNING, Rule
from ibdissect.rules.shared.mad_conditions import SMP_ANSWER, SMP_SET
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD
from ibdissect.wire.opa import STLSwitchInfo


class OmniPath(Rule):
    """The capture holds Omni-Path MADs.

    They have up to 2048 bytes, wider LIDs and layouts of their own; rules for InfiniBand attributes do not judge them.

    Nothing, in an Omni-Path fabric. In an InfiniBand fabric, find the sender: nobody there understands these MADs.
    """

    code, name, severity = "OPA001", "opa-baseversion", INFO
    reference = "kernel OPA_MGMT_BASE_VERSION; opa-ff"
    when = MAD.base_version == BASE_VERSION_OPA
    flow = (MAD.base_version,)
    message = "MADs with base version 0x{base_version:02x} are Omni-Path's"
    example = "a SubnGet with BaseVersion 0x80"


class PortGroupTop(Rule):
    """An Omni-Path switch uses more port groups than it has room for.

    PortGroupTop is the highest group in use, PortGroupCap the number of groups; adaptive routing to groups beyond loses packets.

    Correct the fabric manager; PortGroupTop must not exceed PortGroupCap.
    """

    code, name, severity = "OPA004", "opa-port-group-top", WARNING
    reference = "Omni-Path manual; opa-ff stl_sm_types.h"
    when = (STLSwitchInfo.port_group_top > STLSwitchInfo.port_group_cap) & (SMP_SET | SMP_ANSWER)
    message = "PortGroupTop {port_group_top} above PortGroupCap {port_group_cap}"
    example = "SubnSet(SwitchInfo) of Omni-Path with PortGroupTop 99 and PortGroupCap 8"
