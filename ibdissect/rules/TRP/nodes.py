"""Which traps name LIDs, ports or routes that do not fit the nodes of the subnet?"""

from __future__ import annotations

from ibdissect.fabric.events import TrapSeen
from ibdissect.fabric.model import SWITCH, Port, Subnet
from ibdissect.lint.rule import INFO, WARNING, Context
from ibdissect.rules.shared.trap_rule import BAD_M_KEY, DETAILS_AT, Judged, TrapRule
from ibdissect.wire.notice import Notice, TrapLinkState, TrapMKey, TrapThreshold
from ibdissect.wire.numbers import PERMISSIVE


class IssuerLid(TrapRule):
    """A trap names an issuer other than the port that sends it.

    The subnet manager looks up the sender by this LID and answers for the wrong port, or discards the trap.

    Update the firmware of the sender.

    One LID-routed trap, and the port's LIDs where they are known.
    """

    code, name, severity = "TRP001", "trap-issuerlid", WARNING
    reference = "IBA 13.4.8.2; kernel qib"
    message = "trap {trap} from {port} names LID {issuer} as its issuer"
    example = "SubnTrap with SLID 5 and IssuerLID 9"

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        if event.directed or event.slid in (0, PERMISSIVE) or notice.issuer_lid in (0, event.slid):
            return None
        if event.port is not None and event.port.lids.now is not None:
            base, lmc = event.port.lids.now
            if base <= notice.issuer_lid < base + (1 << lmc):
                return None
        return {"issuer": notice.issuer_lid}, ()


class LinkTrapLid(TrapRule):
    """Trap 128 is about a port that does not belong to a switch.

    Trap 128 reports that a link of a switch changed; the subnet manager sweeps the switch that it names.

    Update the firmware of the sender.
    """

    code, name, severity = "TRP005", "trap128-lid", INFO
    reference = "IBA 14.2.5.1; opensm ntc_128"
    message = "trap 128 from {port} names LID {lid}, which {owner} has: no switch"
    example = "NodeInfo of a channel adapter with LID 5, then SubnTrap 128 with LIDADDR 5"
    numbers = (128,)

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        lid = TrapLinkState(event.notice, DETAILS_AT).lidaddr
        owner = _owner(context, lid)
        if owner is None or owner.node.kind in (0, SWITCH):
            return None
        return {"lid": lid, "owner": str(owner)}, [(owner.node.frame, "NodeInfo")]


class ThresholdPort(TrapRule):
    """A trap about link errors names a port that the node does not have.

    Nobody finds the port that the trap names; the link that loses packets stays undetected.

    Update the firmware of the sender.
    """

    code, name, severity = "TRP006", "trap129-port", WARNING
    reference = "IBA 14.2.5.1; opensm ntc_129_131"
    message = "trap {trap} from {port} names port {number} of {owner}, which has {ports}"
    example = "NodeInfo with NumPorts 1 at LID 5, then SubnTrap 129 with LIDADDR 5 and PORTNO 99"
    numbers = (129, 130, 131)

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        details = TrapThreshold(event.notice, DETAILS_AT)
        owner = _owner(context, details.lidaddr)
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

    code, name, severity = "TRP008", "trap256-drpath", WARNING
    reference = "IBA 14.2.5.1; kernel ib_smi.h IB_NOTICE_TRAP_DR_TRUNC"
    message = "trap 256 from {port} with {hops} hops and DRPathTruncated 0"
    example = "SubnTrap 256 with DRNotice 1, DRHopCount 40 and DRPathTruncated 0"
    numbers = (BAD_M_KEY,)

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        details = TrapMKey(event.notice, DETAILS_AT)
        if not details.dr_notice or details.dr_path_truncated or details.dr_hop_count <= 30:
            return None
        return {"hops": details.dr_hop_count}, ()


def _owner(context: Context, lid: int) -> Port | None:
    from ibdissect.fabric import Follower

    subnet: Subnet = context.get(Follower).subnet
    return subnet.by_lid(lid)
