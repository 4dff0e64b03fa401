"""Which fixed address masks of Omni-Path switches does somebody write?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.lint.rule import WARNING, Hit, Rule, Seen, fault, on_struct
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET_RESP, SET
from ibdissect.wire.opa import STLSMPDirected, STLSwitchInfo

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
            if mad.status & 0x7FFF == 0:
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
