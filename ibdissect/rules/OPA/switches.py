"""What do MADs of Omni-Path show, and which values and address masks of its switches are wrong?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.lint.rule import ERROR, INFO, WARNING, Hit, Rule, Seen, fault, on_struct
from ibdissect.rules.shared.mad_conditions import SMP_ANSWER, SMP_SET
from ibdissect.wire.expr import Expr
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD
from ibdissect.wire.numbers import GET_RESP, SET, STATUS
from ibdissect.wire.opa import STLSMPDirected, STLSwitchInfo


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


FIRST_16, FIRST_32 = 0xC000, 0xF0000000
"""First multicast LID in the 16-bit form (Omni-Path manual) and in the 32-bit form (opa-ff stl_types.h)."""
NONE_16, NONE_32 = 0xBFFF, 0xEFFFFFFF
NO_GROUPS = (0, NONE_16, NONE_32)


TOP, CAP = STLSwitchInfo.multicast_fdb_top, STLSwitchInfo.multicast_fdb_cap


def _within(first: int) -> Expr:
    """MulticastFDBTop is an entry of the table, in the form whose multicast LIDs begin with `first`."""
    return (first <= TOP) & (TOP - first < CAP)


class OpaLinearTop(Rule):
    """An Omni-Path switch's LinearFDBTop is beyond the end of its table.

    LIDs up to the top are looked up in the table, but it has no entries for the highest of them.

    Compare the fabric manager's LID range with LinearFDBCap.
    """

    code, name, severity = "OPA002", "opa-switchinfo-lft-top", ERROR
    reference = "Omni-Path manual; opa-ff STL_SWITCH_INFO"
    message = "LinearFDBTop 0x{linear_fdb_top:x} is not below LinearFDBCap {linear_fdb_cap}"
    example = "an Omni-Path SwitchInfo with LinearFDBCap 0x1000 and LinearFDBTop 0x8000"
    when = (STLSwitchInfo.linear_fdb_top >= STLSwitchInfo.linear_fdb_cap) & (STLSwitchInfo.linear_fdb_cap > 0) & (SMP_SET | SMP_ANSWER)


class OpaMulticastTop(Rule):
    """An Omni-Path switch's MulticastFDBTop is not in its multicast table.

    Groups above the top are treated as not in the table; a top beyond the table means nothing.

    Compare the fabric manager's multicast range with MulticastFDBCap.
    """

    code, name, severity = "OPA003", "opa-mcast-top", WARNING
    reference = "Omni-Path manual; opa-ff stl_types.h"
    message = "MulticastFDBTop 0x{multicast_fdb_top:x} is beyond the multicast table, which has {multicast_fdb_cap} entries"
    example = "an Omni-Path SwitchInfo with MulticastFDBCap 16 and MulticastFDBTop 0xc010"
    when = ~(TOP.isin(NO_GROUPS) | _within(FIRST_16) | _within(FIRST_32)) & (CAP > 0) & (SMP_SET | SMP_ANSWER)


MAX_SWITCHES = 16384
Where = tuple[int, bytes]
"""LID of the switch, or 0 and the directed route to it."""


class OpaMasksFixed(Rule):
    """A fabric manager changes the address masks of a switch that cannot change them.

    MulticastMask and CollectiveMask say where multicast and collective addresses begin. A switch without
    IsAddrRangeConfigSupported keeps its own, so manager and switch disagree about which LIDs are multicast.

    Use switches that all support other masks, or leave the manager at the masks that the switch shows.

    The Set, and the SwitchInfo that the switch answered before.
    """

    code, name, severity = "OPA005", "opa-addrrange-unsupported", WARNING
    reference = "Omni-Path manual; opa-ff STL_SWITCH_INFO"
    message = "Set(SwitchInfo) with {field} {asked}; the switch shows {shown} and IsAddrRangeConfigSupported 0"
    example = "an Omni-Path SwitchInfo with MulticastMask 4 and CapabilityMask 0, then a Set with MulticastMask 3"

    def __init__(self) -> None:
        self.shown = BoundedDict[Where, tuple[int, int, bool, int]](MAX_SWITCHES, "switches with masks for LIDs")
        """MulticastMask, CollectiveMask, whether they can be changed, and the frame, by switch."""

    @on_struct(STLSwitchInfo)
    def switch(self, view: STLSwitchInfo, seen: Seen) -> Iterator[Hit]:
        mad, link, route = seen.first(MAD), seen.first(LRH), seen.first(STLSMPDirected)
        if mad is None or link is None or mad.method not in (SET, GET_RESP):
            return
        answer = mad.method == GET_RESP
        path = route.initial_path[: min(route.hop_count, 63) + 1] if route is not None else b""
        where = (0 if route is not None else link.slid if answer else link.dlid, path)
        if answer:
            if mad.status & STATUS == 0:
                supported = bool(view.is_addr_range_config_supported)
                masks_seen = (view.multicast_mask, view.collective_mask, supported, seen.frame)
                self.shown.put(where, masks_seen, seen.frame, seen.time_ns)
            return
        multicast, collective, supported, frame = self.shown.get(where, (0, 0, True, 0))
        if supported:
            return
        masks = (
            (STLSwitchInfo.multicast_mask, view.multicast_mask, multicast),
            (STLSwitchInfo.collective_mask, view.collective_mask, collective),
        )
        for field, asked, shown in masks:
            if asked != shown:
                yield fault(
                    seen, {"field": field.label, "asked": asked, "shown": shown}, field, of=view,
                    proof=[(frame, "SwitchInfo of that switch")], key=(*where, field.label),
                )  # fmt: skip
