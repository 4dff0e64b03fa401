"""Traps and reports that contradict themselves, or name LIDs, ports or routes that do not fit the nodes of the subnet."""

from __future__ import annotations

from typing import Any

from ibdissect.decode.identity import one_range
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, WARNING, Context, FaultDetails, Hit, Rule, Seen
from ibdissect.rules.shared.mad_conditions import BY_SMP, NO_ERROR
from ibdissect.rules.shared.trap_rule import BAD_M_KEY, DETAILS_AT, FirstTraps, OwnLidRule, TrapRule
from ibdissect.subnet import SWITCH, FabricFollower, Port
from ibdissect.subnet.events import TrapSeen
from ibdissect.wire.expr import Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.names import NOTICE_TYPE
from ibdissect.wire.notice import Notice, TrapLinkState, TrapLocalChange, TrapMKey, TrapThreshold
from ibdissect.wire.numbers import GET, PERMISSIVE, SMP_CLASSES, TRAP

URGENT, SECURITY, SUBNET_MANAGEMENT, INFORMATIONAL, EMPTY = 1, 2, 3, 4, 0x7F
TYPE_OF = {
    SUBNET_MANAGEMENT: frozenset(range(64, 68)),
    URGENT: frozenset(range(128, 132)),
    INFORMATIONAL: frozenset({144, 145}),
    SECURITY: frozenset(range(256, 260)),
}
"""Notice type by trap number (opensm, kernel qib; 128-131: type 1 in OpenSM's trap log)."""
KNOWN = frozenset({64, 65, 66, 67, 68, 69, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259})
_EVENT = (Notice.type != EMPTY) & (MAD.method != GET) & NO_ERROR
"""An event: a Get or an empty notice reports none."""
_SUBNET = MAD.mgmt_class.isin({*SMP_CLASSES, 0x03})
"""Traps of subnet management, and the SA's reports of them; other classes have their own numbers."""
_GENERIC = (Notice.is_generic == 1) & _EVENT


class ProducerType(Rule):
    """A generic notice comes from a producer type that does not exist.

    Producers are channel adapters, switches, routers and class managers. Subscribers filter by producer, so this notice reaches nobody.

    Correct the firmware or manager that sent it.
    """

    code, name, severity = "TRP002", "trap-producer-unknown", WARNING
    reference = "IBA 13.4.8.2; opensm"
    when = ~Notice.producer_type.isin({1, 2, 3, 4}) & _GENERIC
    flow = (Notice.issuer_lid, Notice.trap_number)
    message = "trap {trap_number} with producer type {producer_type}, types are 1 to 4"
    example = "SubnTrap(Notice) with ProducerType 9"


class TypeOfTrap(Rule):
    """The type of a generic trap does not match its number.

    Type and number belong together: 64-67 subnet management, 128-131 urgent, 144-145 informational, 256-259 security. A subscriber to
    security events misses a key violation of another type.

    Correct the firmware or manager that sent it.
    """

    code, name, severity = "TRP003", "trap-type-number-mismatch", WARNING
    reference = "IBA 14.2.5.1; opensm osm_drop_mgr, osm_req; kernel qib"
    when = Or(tuple((Notice.type != kind) & Notice.trap_number.isin(numbers) for kind, numbers in TYPE_OF.items())) & _GENERIC & _SUBNET
    flow = (Notice.issuer_lid, Notice.trap_number)
    message = "trap {trap_number} in a notice of type {type!t}, it belongs to type {right}"
    example = "SubnTrap(Notice) with trap 144 and type 1 (Urgent)"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        right = next(kind for kind, numbers in TYPE_OF.items() if seen.value(Notice.trap_number) in numbers)
        return {"right": f"{NOTICE_TYPE[right]} ({right})"}


class UnknownTrap(Rule):
    """A generic trap has an unknown number.

    Its details cannot be read. It comes from a newer standard, or a vendor's trap is marked as generic by mistake.

    Look up the number in the device's documentation; a vendor's trap should have IsGeneric 0.
    """

    code, name, severity = "TRP004", "trap-unknown", INFO
    reference = "IBA 14.2.5.1; opensm SM_*_TRAP"
    when = ~Notice.trap_number.isin(KNOWN) & _GENERIC & _SUBNET
    flow = (Notice.issuer_lid, Notice.trap_number)
    message = "trap {trap_number} is not one of the generic traps"
    example = "SubnTrap(Notice) with trap 99"


class ChangeOfNothing(Rule):
    """Trap 144 reports a local change, but not which.

    Without a new CapabilityMask and without a change flag, the manager has to read everything again, or ignores the trap.

    Update the firmware of the port that sent it.
    """

    code, name, severity = "TRP007", "trap144-without-change", INFO
    reference = "IBA 14.2.5.1; opensm; kernel ib_smi.h"
    when = (
        (TrapLocalChange.change_flags == 0) & (TrapLocalChange.capabilitymask == 0) & (TrapLocalChange.other_local_changes == 0)
        & _EVENT & _SUBNET
    )  # fmt: skip
    flow = (TrapLocalChange.lidaddr,)
    message = "trap 144 of LID {lidaddr}: CapabilityMask 0 and no change flag"
    example = "SubnTrap(Notice) with trap 144 and empty details"


class ManagerTrapAsSMP(Rule):
    """A node sends trap 64, 65, 66 or 67 as a SubnTrap.

    The subnet manager itself notices these events, and reports them through the SA. A node that sends one as an SMP makes the manager
    believe in ports and groups that came or went.

    Find the sender by its LID; if it is not one of your managers, treat the trap as a forgery.
    """

    code, name, severity = "TRP009", "trap64-as-smp", WARNING
    reference = "IBA 14.2.5.1; opensm osm_state_mgr, osm_multicast"
    when = Notice.trap_number.between(64, 67) & (Notice.is_generic == 1) & (MAD.method == TRAP) & BY_SMP
    flow = (LRH.slid, Notice.trap_number)
    message = "trap {trap_number} as a SubnTrap; the subnet manager reports it by SA"
    example = "SubnTrap(Notice) with trap 64"


class IssuerLid(OwnLidRule):
    """A trap names an issuer other than the port that sends it.

    The subnet manager looks up the sender by this LID and answers for the wrong port, or discards the trap.

    Update the firmware of the sender.

    One LID-routed trap, and the port's LIDs. Where its LMC is not known, LIDs that one LMC can join may be one port's. Silent for a LID
    that the port had before, or may have had, if the capture begins with a new one: a trap is repeated with the notice of its first time;
    for the permissive LID, of a port that has none yet. An `info` in the capture's first ten seconds, as the trap may be a repetition of
    one before it, where the port supports virtual ports, which may have LIDs of their own, and where no port showed the sender's LID, but
    one the issuer's: it may be the same, with a new LID.
    """

    code, name, severity = "TRP001", "trap-issuer-wrong", WARNING
    reference = "IBA 13.4.8.2; kernel qib"
    message = "trap {trap} from {port} names LID {issuer} as its issuer"
    example = "SubnTrap with SLID 5 and IssuerLID 9"

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        issuer = Notice(event.notice).issuer_lid
        if event.directed or event.slid in (0, PERMISSIVE) or issuer in (0, event.slid, PERMISSIVE):
            return None
        if context.get(FirstTraps).was_sent_from(event, issuer):
            return None
        if event.port is None:
            return None if one_range(issuer, event.slid) else ({"issuer": issuer}, ())
        if event.port.has_had(issuer, event.frame) or event.port.owns(issuer, event.frame) in (True, None):
            return None
        return {"issuer": issuer}, [(event.port.lids.at(event.frame)[1], "the sender's LIDs")]

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        ports = [port.info for node in self.facts_used_of(hit, context) or () for port in node.ports.values()]
        virtual = any(info is not None and info.is_virtualization_supported for info in ports)
        moved = not hit.about and bool(context.get(FabricFollower).subnet.owners(hit.arguments["issuer"]))  # its LID is new
        return INFO if virtual or moved else super().severity_at_end(hit, context)


class LinkTrapLid(TrapRule):
    """Trap 128 is about a port that does not belong to a switch.

    Trap 128 reports that a link of a switch changed; the subnet manager sweeps the switch that it names.

    Update the firmware of the sender.
    """

    code, name, severity = "TRP005", "trap128-not-a-switch", INFO
    reference = "IBA 14.2.5.1; opensm ntc_128"
    message = "trap 128 from {port} is about LID {lid}, but {owner} is no switch"
    example = "NodeInfo of a channel adapter with LID 5, then SubnTrap 128 with LIDADDR 5"
    numbers = (128,)

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        lid = TrapLinkState(event.notice, DETAILS_AT).lidaddr
        owner = _owner(context, event, lid)
        if owner is None or owner.node.kind in (0, SWITCH):
            return None
        return {"lid": lid, "owner": str(owner)}, [(owner.node.frame, "NodeInfo")]


class ThresholdPort(TrapRule):
    """A trap about link errors names a port that the node does not have.

    Nobody finds the port that the trap names; the link that loses packets stays undetected.

    Update the firmware of the sender.

    The trap, and the NodeInfo of the node before. An `info` where the capture may have missed a change in between, and for a switch that
    showed its ports long ago where the capture does not show its manager: it may have been restarted with its ports split.
    """

    code, name, severity = "TRP006", "trap129-port-range", WARNING
    reference = "IBA 14.2.5.1; opensm ntc_129_131"
    message = "trap {trap} from {port} names port {number} of {owner}, whose last port is {ports}"
    example = "NodeInfo with NumPorts 1 at LID 5, then SubnTrap 129 with LIDADDR 5 and PORTNO 99"
    numbers = (129, 130, 131)
    of_size = True

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        details = TrapThreshold(event.notice, DETAILS_AT)
        owner = _owner(context, event, details.lidaddr)
        if owner is None or not owner.node.num_ports or details.portno <= owner.node.num_ports:
            return None
        ports, since = owner.node.num_ports, owner.node.facts.since
        return {"number": details.portno, "owner": str(owner), "ports": ports}, [(since, "NodeInfo")]


class PathNotMarked(TrapRule):
    """Trap 256 shortens a directed route of more than 30 hops without marking it.

    The notice has room for 30 ports; whoever follows the route ends up at another node.

    Update the firmware of the sender.

    One trap is enough.
    """

    code, name, severity = "TRP008", "trap256-cut-path-unmarked", WARNING
    reference = "IBA 14.2.5.1; kernel ib_smi.h IB_NOTICE_TRAP_DR_TRUNC"
    message = "trap 256 from {port} names a route of {hops:hop} and has room for 30, but DRPathTruncated is 0"
    example = "SubnTrap 256 with DRNotice 1, DRHopCount 40 and DRPathTruncated 0"
    numbers = (BAD_M_KEY,)

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        details = TrapMKey(event.notice, DETAILS_AT)
        if not details.dr_notice or details.dr_path_truncated or details.dr_hop_count <= 30:
            return None
        return {"hops": details.dr_hop_count}, ()


def _owner(context: Context, event: TrapSeen, lid: int) -> Port | None:
    """The port that a trap names; the sender, which may repeat what it said before its LID changed, if it had that LID."""
    if event.port is not None and event.port.has_had(lid, event.frame):
        return event.port
    return context.get(FabricFollower).subnet.by_lid(lid)


class ChangeOfOtherPort(OwnLidRule):
    """A trap about a local change (144) names a LID that belongs to another port.

    The subnet manager reads the capabilities of the wrong port, and does not notice the change.

    Update the firmware or driver of the port that sent it.

    The trap, and the ports of both LIDs, of which neither has the other. Silent if the sender had that LID before, or may have; an `info`
    in the capture's first ten seconds, as the trap may be a repetition of one before it.
    """

    code, name, severity = "TRP011", "trap144-foreign-lid", WARNING
    reference = "IBA 14.2.5.1"
    message = "trap 144 from {port} names LID {lid}, which is {other}"
    example = "PortInfo of two ports, then trap 144 of one with the LID of the other"
    numbers = (144,)

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        lid = TrapLocalChange(event.notice, DETAILS_AT).lidaddr
        subnet = context.get(FabricFollower).subnet
        (own, since), (other, shown) = subnet.owner(event.slid, event.frame), subnet.owner(lid, event.frame)
        if not lid or lid == event.slid or own is None or other is None or own.node is other.node or own.has_had(lid, event.frame):
            return None
        if context.get(FirstTraps).was_sent_from(event, lid):
            return None
        return {"lid": lid, "other": other.name_at(event.frame)}, [(since, "LID of the sender"), (shown, "owner of the LID")]
