"""Omni-Path MADs, and wrong values and address masks of Omni-Path switches."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from ibdissect.bounded import BoundedDict, KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.identity import Frame, LidId, RouteId, SenderId
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_struct
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet.route_senders import Senders
from ibdissect.subnet.visible_managers import AGES_NS
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD
from ibdissect.wire.numbers import DIRECTED, GET, GET_RESP, LID_ROUTED, SET, STATUS, SWITCH_INFO
from ibdissect.wire.opa import STLSMPDirected, STLSwitchInfo
from ibdissect.wire.opa_port import STLPortInfo
from ibdissect.wire.sm import DR_MAX_HOPS
from ibdissect.wire.spec import Field


class OmniPath(Rule):
    """The capture holds Omni-Path MADs.

    They have up to 2048 bytes, wider LIDs and layouts of their own; rules for InfiniBand attributes do not judge them.

    Nothing, in an Omni-Path fabric; in an InfiniBand fabric, find the sender: nobody there understands these MADs.
    """

    code, name, severity = "OPA001", "opa-seen", INFO
    reference = "kernel OPA_MGMT_BASE_VERSION; opa-ff"
    when = MAD.base_version == BASE_VERSION_OPA
    flow = (MAD.base_version,)
    message = "MADs with base version 0x{base_version:02x} are Omni-Path's"
    example = "a SubnGet with BaseVersion 0x80"


MAX_SWITCHES = 16384
Place = LidId | RouteId
"""Where a switch was asked."""


class SwitchAnswers(NamedTuple):
    """What a switch answered of what a Set cannot change."""

    linear_fdb_cap: int
    multicast_fdb_cap: int
    port_group_cap: int
    multicast_mask: int
    collective_mask: int
    can_change_masks: bool
    frame: int


class _SwitchRule(LearntFactRule):
    """Base of rules that compare what a Set writes with what the switch itself answered before, or else with the copy in the Set."""

    evidence = (
        "An answer of the switch alone; a Set, and what the switch answered before. An `info` where only the Set has a capacity: read-only "
        "components of a Set mean nothing to the switch; where the switch answers the Set otherwise; where the capture may have missed a "
        "change in between; and where SwitchInfo was asked for again without an answer, or the LID was written to a port in between."
    )
    holds_ns = AGES_NS

    def __init__(self) -> None:
        self.shown = BoundedDict[Place, SwitchAnswers](MAX_SWITCHES, "switches of Omni-Path")
        self.senders = Senders()
        self.asked = BoundedDict[Place, int](MAX_SWITCHES, "switches of Omni-Path that were asked")
        """The latest Get of SwitchInfo along a route; to a LID, in the chunks before this one."""
        self.given = BoundedDict[LidId, int](MAX_SWITCHES, "LIDs of Omni-Path that were written")
        """The latest Set of PortInfo with a LID."""
        self.open = BoundedDict[Place, tuple[int, Frame]](MAX_SWITCHES, "Sets to switches of Omni-Path")
        """The latest faulty Set that waits for its answer: transaction id and frame."""
        self.replies = KeptDict[Frame, SwitchAnswers](MAX_SWITCHES, "answers of switches of Omni-Path")
        """What switches answered to faulty Sets, by frame of the Set."""

    @on_struct(STLPortInfo)
    def port(self, view: STLPortInfo, seen: Seen) -> Iterator[Hit]:
        if seen.value(MAD.method) == SET and view.lid:
            self.given.put(LidId(view.lid), seen.frame, seen.frame, seen.time_ns)
        return iter(())

    @on_struct(STLSwitchInfo)
    def switch(self, view: STLSwitchInfo, seen: Seen) -> Iterator[Hit]:
        mad, link, route = seen.first(MAD), seen.first(LRH), seen.first(STLSMPDirected)
        if mad is None or link is None or mad.method not in (SET, GET_RESP) or (mad.method == GET_RESP and mad.status & STATUS):
            return
        answer = mad.method == GET_RESP
        if route is not None:
            sender = int(self.senders.of(np.array([mad.transaction_id], np.uint64))[0])
            place: Place = _along(sender, route)
        else:
            place = LidId(link.slid if answer else link.dlid)
        if answer:
            self.shown.put(place, _shown(view, seen.frame), seen.frame, seen.time_ns)
            transaction, written = self.open.get(place, (0, 0))
            if written and transaction == mad.transaction_id:
                self.replies.keep(written, _shown(view, seen.frame), seen.frame, seen.time_ns)
        known = None if answer else self.shown.get(place)
        for hit in self.judge(view, seen, place, known if known is not None else _shown(view, 0), own=answer or known is None):
            if not answer:
                self.open.put(place, (mad.transaction_id, seen.frame), seen.frame, seen.time_ns)
                hit.severity = hit.severity if known is not None else INFO
            yield hit

    @on_chunk
    def note_gets(self, table: ChunkTable, _context: Context) -> None:
        """Who was asked in this chunk; it counts for the next ones, as the Sets of this one were judged before."""
        for place, frames in table.once(self._gets).items():
            self.asked.put(place, frames[-1], frames[-1], int(table.chunk.time_ns[frames[-1] - table.chunk.first]))

    def _gets(self, table: ChunkTable) -> dict[Place, list[int]]:
        """The frames of a chunk in which SwitchInfo was asked for, ascending, by place."""
        found = defaultdict[Place, list[int]](list)
        for mgmt_class in (LID_ROUTED, DIRECTED):
            rows = table.attributes().get((mgmt_class, SWITCH_INFO), np.empty(0, np.int64))
            mine = (table.values_at(MAD.method, rows) == GET) & (table.values_at(MAD.base_version, rows) == BASE_VERSION_OPA)
            for row in rows[mine].tolist():
                seen = Seen(table, row)
                route = seen.first(STLSMPDirected)
                sender = self.senders.of_transaction(seen.value(MAD.transaction_id)) if route is not None else 0
                found[_along(sender, route) if route is not None else LidId(seen.value(LRH.dlid))].append(seen.frame)
        return found

    def doubt(self, seen: Seen, place: Place, shown: SwitchAnswers) -> Severity | None:
        """INFO if a switch was asked again after its answer, or its LID was written: another one may be there since then."""
        gets = seen.table.once(self._gets).get(place, ())
        later = gets[: bisect_left(gets, seen.frame)]
        given = self.given.get(place, 0) if isinstance(place, LidId) else 0
        return INFO if max(*later[-1:], self.asked.get(place, 0), given) > shown.frame > 0 else None

    def judge(self, view: STLSwitchInfo, seen: Seen, place: Place, shown: SwitchAnswers, *, own: bool) -> Iterator[Hit]:
        """Faults of an answer or a Set. `shown`: what counts; `own`: it is in the same packet."""
        raise NotImplementedError

    def agrees(self, hit: Hit, reply: SwitchAnswers) -> bool:
        """Whether the switch's answer to a Set shows the fault, too."""
        raise NotImplementedError

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        reply = self.replies.get(hit.frame)
        return INFO if reply is not None and not self.agrees(hit, reply) else super().severity_at_end(hit, context)


def _along(sender: int, route: STLSMPDirected) -> RouteId:
    return RouteId(SenderId(sender), route.initial_path[: min(route.hop_count, DR_MAX_HOPS) + 1])


def _shown(view: STLSwitchInfo, frame: int) -> SwitchAnswers:
    return SwitchAnswers(
        view.linear_fdb_cap, view.multicast_fdb_cap, view.port_group_cap, view.multicast_mask, view.collective_mask,
        bool(view.is_addr_range_config_supported), frame,
    )  # fmt: skip


class _TopRule(_SwitchRule):
    """Base of rules about the last entry in use of a table."""

    top: ClassVar[Field[int]]
    cap: ClassVar[str]

    def is_beyond(self, top: int, cap: int, mask: int) -> bool:
        """Whether a top is not in a table of `cap` entries, with a MulticastMask."""
        raise NotImplementedError

    def agrees(self, hit: Hit, reply: SwitchAnswers) -> bool:
        return self.is_beyond(hit.arguments[self.top.name], getattr(reply, self.cap), reply.multicast_mask)

    def judge(self, view: STLSwitchInfo, seen: Seen, place: Place, shown: SwitchAnswers, *, own: bool) -> Iterator[Hit]:
        top, cap = self.top.__get__(view, type(view)), getattr(shown, self.cap)
        if cap and self.is_beyond(top, cap, view.multicast_mask):
            proof = [(shown.frame, "SwitchInfo of that switch")] if shown.frame and not own else []
            how = self.doubt(seen, place, shown) if proof else None
            yield fault(seen, {self.top.name: top, self.cap: cap}, self.top, of=view, proof=proof, severity=how)


class PortGroupTop(_TopRule):
    """An Omni-Path switch uses more port groups than it has room for.

    PortGroupTop is the highest group in use, PortGroupCap the number of groups; adaptive routing to groups beyond loses packets.

    Correct the fabric manager; PortGroupTop must not exceed PortGroupCap.
    """

    code, name, severity = "OPA004", "opa-port-group-top", WARNING
    reference = "Omni-Path manual; opa-ff stl_sm_types.h"
    message = "PortGroupTop {port_group_top} above PortGroupCap {port_group_cap}"
    example = "a GetResp(SwitchInfo) of Omni-Path with PortGroupTop 99 and PortGroupCap 8"
    top, cap = STLSwitchInfo.port_group_top, "port_group_cap"

    def is_beyond(self, top: int, cap: int, mask: int) -> bool:
        return top > cap


FIRST_16, NONE_16 = 0xC000, 0xBFFF
"""First multicast LID in the 16-bit form (Omni-Path manual), and the top that stands for none."""
USUAL_MASK = 4
"""MulticastMask after power-on (opa-ff)."""


class OpaLinearTop(_TopRule):
    """An Omni-Path switch's LinearFDBTop is beyond the end of its table.

    LIDs up to the top are looked up in the table, but it has no entries for the highest of them.

    Compare the fabric manager's LID range with LinearFDBCap.
    """

    code, name, severity = "OPA002", "opa-switchinfo-lft-top", ERROR
    reference = "Omni-Path manual; opa-ff STL_SWITCH_INFO"
    message = "LinearFDBTop 0x{linear_fdb_top:x} is not below LinearFDBCap {linear_fdb_cap}"
    example = "an Omni-Path SwitchInfo with LinearFDBCap 0x1000 and LinearFDBTop 0x8000"
    top, cap = STLSwitchInfo.linear_fdb_top, "linear_fdb_cap"

    def is_beyond(self, top: int, cap: int, mask: int) -> bool:
        return top >= cap


class OpaMulticastTop(_TopRule):
    """An Omni-Path switch's MulticastFDBTop is not in its multicast table.

    Groups above the top are treated as not in the table; a top beyond the table means nothing.

    Compare the fabric manager's multicast range with MulticastFDBCap.

    An answer alone, or a Set and the capacity that the switch answered before. MulticastMask says where multicast LIDs begin: with 4, as
    after power-on, at 0xf0000000; the 16-bit form from 0xc000 on counts, too.
    """

    code, name, severity = "OPA003", "opa-mcast-top", WARNING
    reference = "Omni-Path manual; opa-ff stl_types.h"
    message = "MulticastFDBTop 0x{multicast_fdb_top:x} is beyond the multicast table, which has {multicast_fdb_cap:entry}"
    example = "an Omni-Path SwitchInfo with MulticastFDBCap 16 and MulticastFDBTop 0xc010"
    top, cap = STLSwitchInfo.multicast_fdb_top, "multicast_fdb_cap"

    def is_beyond(self, top: int, cap: int, mask: int) -> bool:
        first = 0xFFFFFFFF << 32 - (mask or USUAL_MASK) & 0xFFFFFFFF
        return top not in (0, NONE_16, first - 1) and not (first <= top < first + cap or FIRST_16 <= top < FIRST_16 + cap)


class OpaMasksFixed(_SwitchRule):
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

    def agrees(self, hit: Hit, reply: SwitchAnswers) -> bool:
        shown = {STLSwitchInfo.multicast_mask.label: reply.multicast_mask, STLSwitchInfo.collective_mask.label: reply.collective_mask}
        return not reply.can_change_masks and shown[hit.arguments["field"]] != hit.arguments["asked"]

    def judge(self, view: STLSwitchInfo, seen: Seen, place: Place, shown: SwitchAnswers, *, own: bool) -> Iterator[Hit]:
        if own or shown.can_change_masks:
            return
        masks = (
            (STLSwitchInfo.multicast_mask, view.multicast_mask, shown.multicast_mask),
            (STLSwitchInfo.collective_mask, view.collective_mask, shown.collective_mask),
        )
        for field, asked, before in masks:
            if asked != before:
                yield fault(
                    seen, {"field": field.label, "asked": asked, "shown": before}, field, of=view,
                    proof=[(shown.frame, "SwitchInfo of that switch")], key=(place, field.label), severity=self.doubt(seen, place, shown),
                )  # fmt: skip
