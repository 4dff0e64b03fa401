"""Components of PortInfo, SwitchInfo and SMInfo with a value that the standard reserves or rules out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Content, Frame
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, WARNING, Context, FaultDetails, Hit, Rule, Seen
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import WRITTEN, AgainstPortGuid, AttributeRule, Fault, Mask
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, HAS_LINK, READ, SMP_ANSWER
from ibdissect.subnet import ChunkFollowed, FabricFollower
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.visible_managers import AGES_NS, Vantage
from ibdissect.wire.expr import Expr, Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.numbers import LAST_UNICAST, PERMISSIVE
from ibdissect.wire.sm import SMInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field

from .port_values import RESERVED_BITS

_HIGH, _LOW = PortInfo.vl_arbitration_high_cap, PortInfo.vl_arbitration_low_cap
ONE_SPEED = frozenset({0, 1, 2, 4})
ONE_EXT_SPEED = ONE_SPEED | {8}
SEVERAL_LANES = 2
"""VLCap from which on a port has more than one data VL."""
NO_LIDS = frozenset({0, PERMISSIVE})
"""What ports show as their LID until a manager sets them up."""
LARGEST_TABLE, LARGEST_ARBITRATION = 0xC000, 64
PREFIX_BYTES = PortInfo.gid_prefix.bits // 8
MAX_PREFIXES = 64
LARGEST_MULTICAST = 0x4000
"""All multicast LIDs, and the permissive one, which some switches count, too."""


class ImpossibleValue(Rule):
    """Base of rules about components with a value that does not exist, one finding per frame."""

    faults: Mapping[Field[Any], tuple[Expr, str]]
    """Where each component is wrong, and what it may be."""

    def __init_subclass__(cls, **kw: Any) -> None:
        if "faults" in vars(cls):
            cls.when = Or(tuple(fault for fault, _ in cls.faults.values()))
        super().__init_subclass__(**kw)

    def wrong(self, seen: Seen, i: int) -> list[Field[Any]]:
        """The components of one structure that are wrong."""
        evaluator = Evaluator(seen.table, self.on, np.array([i]))
        return [field for field, (fault, _) in self.faults.items() if evaluator.mask(fault)[0]]

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        assert self.on is not None
        view = seen.table.view(self.on, i)
        return {"what": "; ".join(f"{one.label} {getattr(view, one.name)}, {self.faults[one][1]}" for one in self.wrong(seen, i))}


def _arbitration(cap: Field[int], other: Field[int]) -> Expr:
    many, none = PortInfo.vl_cap.between(SEVERAL_LANES, 5) & (cap == 0) & (other > 0), (PortInfo.vl_cap == 1) & (cap > 0)
    return ((cap > LARGEST_ARBITRATION) | many | none) & READ


class PortInfoImpossible(ImpossibleValue):
    """A port shows a value that its PortInfo cannot have.

    Reserved states, speeds and widths, arbitration tables that are too large or missing: a manager that takes them for true computes wrong
    rates, waits for a state that never comes, or programs tables that do not exist.

    Update the firmware of the port.

    One answer is enough. Components that the kind of port does not have are not judged: links of port 0 of a switch, for example, or the
    active speed of a port that is down; nor is the MasterSMLID of a port without a LID, which nobody has written. A port that shows 0 for
    both arbitration tables has none, and one that shows no width at all has no link. An `info` where nothing is wrong but tables of a port
    with one VL: some adapters (qib) keep them, and nobody uses them.
    """

    code, name, severity = "SEM066", "portinfo-impossible", WARNING
    reference = "IBA 14.2.5.6"
    message = "impossible in PortInfo: {what}"
    example = "GetResp(PortInfo) with PortState 7"
    on, at = PortInfo, PortInfo.port_state
    faults: Mapping[Field[Any], tuple[Expr, str]] = {
        PortInfo.port_state: ((PortInfo.port_state > 5) & READ, "states are 1 to 4 (5 is ActiveDefer)"),
        PortInfo.port_physical_state: ((PortInfo.port_physical_state > 7) & READ, "physical states are 1 to 7"),
        PortInfo.link_speed_active: (~PortInfo.link_speed_active.isin(ONE_SPEED) & HAS_LINK & READ, "a speed is 1, 2 or 4"),
        PortInfo.link_speed_ext_active: (
            ~PortInfo.link_speed_ext_active.isin(ONE_EXT_SPEED) & (PortInfo.is_extended_speeds_supported == 1) & HAS_LINK & READ,
            "an extended speed is 1, 2, 4 or 8",
        ),
        PortInfo.link_width_supported: (
            (((PortInfo.link_width_supported == 0) & (PortInfo.link_width_active != 0)) | (PortInfo.link_width_supported > 31)) & READ,
            "widths are bits 0 to 4",
        ),
        PortInfo.vl_arbitration_high_cap: (_arbitration(_HIGH, _LOW), "1 to 64 with several VLs, 0 with one"),
        PortInfo.vl_arbitration_low_cap: (_arbitration(_LOW, _HIGH), "1 to 64 with several VLs, 0 with one"),
        PortInfo.master_sm_lid: (
            (PortInfo.master_sm_lid > LAST_UNICAST) & ~PortInfo.lid.isin(NO_LIDS) & HAS_CONTENT, "which is no port's LID",
        ),
    }  # fmt: skip

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        info: PortInfo = seen.table.view(PortInfo, i)
        unused = info.vl_cap == 1 and max(info.vl_arbitration_high_cap, info.vl_arbitration_low_cap) <= LARGEST_ARBITRATION
        return {**super().computed(seen, i), "harmless": unused and {*self.wrong(seen, i)} <= {_HIGH, _LOW}}

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        return INFO if hit.arguments["harmless"] else None


class SwitchInfoImpossible(ImpossibleValue):
    """A switch shows a table that is larger than there are LIDs.

    A linear table ends with the last unicast LID, a multicast table with the last multicast LID. A manager that trusts the number writes
    blocks that mean nothing.

    Update the firmware of the switch.
    """

    code, name, severity = "SEM067", "switchinfo-impossible", WARNING
    reference = "IBA 14.2.5.4"
    message = "impossible in SwitchInfo: {what}"
    example = "GetResp(SwitchInfo) with LinearFDBCap 0xc001"
    on, at = SwitchInfo, SwitchInfo.linear_fdb_cap
    faults: Mapping[Field[Any], tuple[Expr, str]] = {
        SwitchInfo.linear_fdb_cap: ((SwitchInfo.linear_fdb_cap > LARGEST_TABLE) & READ, "there are 49152 unicast LIDs with LID 0"),
        SwitchInfo.multicast_fdb_cap: ((SwitchInfo.multicast_fdb_cap > LARGEST_MULTICAST) & READ, "there are 16383 multicast LIDs"),
    }


class PortInfoReservedShown(Rule):
    """A port shows reserved bits of PortInfo that are not zero.

    They belong to a newer standard, or the port did not clear its buffer. Managers copy them into their Sets.

    Nothing, unless the port refuses Sets; then compare its firmware with the standard that it follows.
    """

    code, name, severity = "SEM068", "portinfo-reserved-shown", INFO
    is_note = True
    reference = "IBA 14.2.5.6"
    when = RESERVED_BITS & SMP_ANSWER
    at = PortInfo.reserved1
    flow = (LRH.slid,)
    message = "PortInfo has reserved bits {reserved1} before LMC, {reserved2} before RespTimeValue, {reserved4} before LinkSpeedExtEnabled"
    example = "SubnGetResp(PortInfo) with 1 in the bits before RespTimeValue"


class ManagerGuid(AgainstPortGuid):
    """A subnet manager names itself by a GUID that its port does not have.

    Managers of equal priority decide by GUID who is master, and standbys poll the master by it. With another port's GUID two managers may
    believe that they are one.

    Set the GUID that the manager binds to (opensm: `-g`), and restart it.

    SMInfo, and NodeInfo of the port that answers. Silent for an alias GUID that the port shows in GUIDInfo: its manager may be that of a
    virtual machine. An `info` if the capture does not show all GUIDs of the port, and this one is not of the same organisation as its own;
    and along a directed route if another port shows that GUID: the route may have led there, as in another subnet.
    """

    code, name, severity = "SEM069", "sminfo-guid-wrong", WARNING
    reference = "IBA 14.2.5.13"
    message = "SMInfo of {port} has GUID 0x{now:016x}, the PortGUID is 0x{own:016x}"
    example = "NodeInfo of a port, then its GetResp(SMInfo) with another GUID"
    at = SMInfo.guid

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.answers & (smps.slot >= 0) & (smps.now(SMInfo.guid) != 0)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        port = smp.port
        guid = smp.now(SMInfo.guid)
        if port is None or not port.guid or guid == port.guid or any(one.guid == guid for one in smp.node.ports.values()):
            return None
        return {"own": port.guid}, [(smp.node.frame, "NodeInfo")]

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        guid, ports = hit.arguments["now"], context.get(FabricFollower).subnet.ports()
        elsewhere = not hit.by_lid and any(port.guid == guid for port in ports)
        alias = self.may_be_alias(hit, guid, hit.arguments["own"], context)
        return INFO if alias or elsewhere else super().severity_at_end(hit, context)


class OtherPrefixGiven(AttributeRule):
    """The subnet manager gives a port another GID prefix than all others.

    The prefix names the subnet: packets with a GRH to this port look as if they went to another subnet, and nobody finds its GIDs.

    Compare `subnet_prefix` of the managers that write to this port.

    PortInfo of at least two other ports with one prefix, and until the end of the capture no other port that shows the new one: a manager
    that changes the prefix writes it to all. An `info` for the manager's own port, with which it begins; where the capture ends within
    ten seconds, unless it shows that somebody writes the usual prefix; and where it shows the manager of this port, but not that of all
    others: on a host's link one sees no other Set.
    """

    code, name, severity = "SEM070", "gid-prefix-differs", WARNING
    reference = "IBA 14.2.5.6, 4.1.1"
    message = "Set(PortInfo) of {port} with GidPrefix 0x{now:016x}, {others} other ports have 0x{usual:016x}"
    example = "GetResp(PortInfo) of three ports with prefix fe80::, then a Set with another prefix to one of them"
    at = PortInfo.gid_prefix
    needs = (FabricFollower,)

    def __init__(self) -> None:
        self.prefixes = KeptDict[Content, None](MAX_PREFIXES, "GID prefixes that managers write")

    def suspicious(self, smps: AttributeSmps) -> Mask:
        prefix = smps.now(PortInfo.gid_prefix)
        found, times = smps.sets & (smps.slot >= 0) & (prefix != 0), smps.event.table.chunk.time_ns
        for one in {*prefix[found].tolist()}:
            first = int(np.flatnonzero(found & (prefix == one))[0])
            self.prefixes.keep(int(one).to_bytes(PREFIX_BYTES, "big"), None, int(smps.frames[first]), int(times[0]))
            found &= (prefix != one) | (smps.frames < _usual_since(smps.event, one))
        return found

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        prefix, at = smp.now(PortInfo.gid_prefix).to_bytes(PREFIX_BYTES, "big"), slice(*PortInfo.gid_prefix.span)
        known: dict[Content, list[Frame]] = {}
        for port in smp.columns.event.subnet.end_ports():
            body, since = port.infos.at(smp.frame)
            if body is None or port.key == smp.key:
                continue
            if body[at] == prefix:
                return None
            if any(body[at]):
                known.setdefault(body[at], []).append(since)
        if len(known) != 1:
            return None
        (usual, frames), = known.items()
        if len(frames) < 2:
            return None
        own = smp.now(PortInfo.lid) == smp.now(PortInfo.master_sm_lid)
        about = {"others": len(frames), "usual": int.from_bytes(usual, "big"), "own": own, "known": usual in self.prefixes}
        return about, [(max(frames), "PortInfo of another port")]

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        ends = not hit.arguments["known"] and context.get(Scopes).goes_on(hit.frame, hit.time_ns) < AGES_NS
        return INFO if ends or hit.arguments["own"] or self._alone(hit, context) else super().severity_at_end(hit, context)

    def _alone(self, hit: Hit, context: Context) -> bool:
        """Whether the capture shows the manager of this port, but not that of all others with the usual prefix."""
        usual, at = hit.arguments["usual"].to_bytes(PREFIX_BYTES, "big"), slice(*PortInfo.gid_prefix.span)
        vantage, subnet = context.get(Vantage), context.get(FabricFollower).subnet
        others = [port.node for port in subnet.end_ports() if (body := port.infos.at(hit.frame)[0]) is not None and body[at] == usual]
        return vantage.manages(self.facts_used_of(hit, context), hit.frame) and not vantage.manages(others, hit.frame)

    def stands(self, hit: Hit, context: Context) -> bool:
        new, at = hit.arguments["now"].to_bytes(PREFIX_BYTES, "big"), slice(*PortInfo.gid_prefix.span)
        ports = context.get(FabricFollower).subnet.ports()
        return sum(any(body[at] == new for body in port.infos.since_frame(hit.frame)) for port in ports) <= 1


def _usual_since(event: ChunkFollowed, prefix: int) -> int:
    """A frame since which two end ports have shown a GID prefix, so that no port's Set is the first with it; AFTER_ALL if there is none."""
    wanted, at = prefix.to_bytes(PREFIX_BYTES, "big"), slice(*PortInfo.gid_prefix.span)
    one, other = AFTER_ALL, AFTER_ALL
    for port in event.subnet.end_ports():
        since = AFTER_ALL
        for body, frame in reversed(port.infos.values()):
            if body is None or body[at] != wanted:
                break
            since = frame
        one, other = sorted((one, other, since))[:2]
        if other <= event.table.chunk.first:
            break
    return other


class RawFilterWithoutCap(AttributeRule):
    """A Set switches the filter for raw packets on at a switch that cannot filter.

    The administrator believes that raw packets are discarded; the switch passes them.

    Let the subnet manager read FilterRawInboundCap and FilterRawOutboundCap first.

    The SwitchInfo before the Set. Silent where the Set repeats what the port showed; an `info` if the answer shows that the filter is on,
    or no answer is seen and the port showed so much since that what it showed next is forgotten.
    """

    code, name, severity = "SEM071", "raw-filter-without-cap", WARNING
    reference = "IBA 14.2.5.4, 14.2.5.6"
    message = "Set(PortInfo) of {port} filters {what} raw packets, which SwitchInfo does not offer"
    example = "SwitchInfo with FilterRawInboundCap 0, then SubnSet(PortInfo) of port 3 with FilterRawInbound 1"
    at = PortInfo.filter_raw_inbound
    taken = (PortInfo.filter_raw_inbound, PortInfo.filter_raw_outbound)

    why = "SwitchInfo"
    when = WRITTEN
    faults = (
        Fault((taken[0] > previous(SwitchInfo.filter_raw_inbound_cap)) & ~(taken[0] == previous(taken[0])), "inbound"),
        Fault((taken[1] > previous(SwitchInfo.filter_raw_outbound_cap)) & ~(taken[1] == previous(taken[1])), "outbound"),
    )


