"""Traps whose numbers do not fit what the capture showed of the nodes (TRP, SMP)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.fabric.events import ChunkFollowed, TrapSeen
from ibdissect.fabric.model import SWITCH, Port, Subnet
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.rule import INFO, WARNING, Hit, Rule, on_event
from ibdissect.wire.notice import Notice, TrapLinkState, TrapMKey, TrapThreshold
from ibdissect.wire.sm_port import PortInfo

from .learnt import DATA_AT

DETAILS_AT = Notice.data_details.bit // 8
BAD_M_KEY = 256
SECOND = 1_000_000_000
TICK_NS = 4096
"""Unit of SubnetTimeOut: 4.096 us times a power of two."""
MAX_TRAPS = 4096
"""Traps, senders or ports remembered per rule."""
PERMISSIVE = 0xFFFF
Judged = tuple[dict[str, Any], tuple[Related, ...]]
"""Arguments of a message, and the frames that prove it."""


class TrapRule(Rule):
    """What the rules about a single trap share: one finding per sender and trap number."""

    numbers: tuple[int, ...] = ()
    """Trap numbers that it looks at; none: all generic ones."""
    at = Notice.trap_number

    def __init__(self) -> None:
        self.subnet: Subnet | None = None

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        """Arguments and proof; None when the trap is in order."""
        raise NotImplementedError

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        notice = Notice(event.notice)
        if not notice.is_generic or (self.numbers and notice.trap_number not in self.numbers):
            return
        found = self.judge(event, notice, context)
        if found is None:
            return
        arguments, related = found
        low, high = Notice.trap_number.span
        yield Hit(
            frame=event.frame,
            time_ns=event.time_ns,
            arguments={"trap": notice.trap_number, "port": str(event.port) if event.port is not None else f"LID {event.slid}", **arguments},
            spans=(Span(event.frame, event.mad + DATA_AT + low, high - low),),
            field=Notice.trap_number,
            value=notice.trap_number,
            related=related,
            evidence=Evidence.LEARNT if related else Evidence.SEEN,
            key=(event.slid, notice.trap_number),
        )


class IssuerLid(TrapRule):
    """A trap names another issuer than the port that sends it.

    ## Why it matters
    The subnet manager looks the sender up by this LID and answers for the wrong port, or discards the trap.

    ## What to do
    Update the firmware of the sender.
    """

    code, name, severity = "TRP001", "trap-issuerlid", WARNING
    reference = "IBA 13.4.8.2; seed001; kernel qib"
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


class MasterSmLid(TrapRule):
    """A trap goes to another LID than the master subnet manager that the port knows.

    ## Why it matters
    The trap does not reach the master; the port repeats it, and what it says is not acted upon.

    ## What to do
    Nothing around a handover; else update the firmware of the sender. A LID that some PortInfo of the capture names as its
    master is never wrong: the port may have been told so out of sight.
    """

    code, name, severity = "SMP014", "trap-dlid-mastersmlid", WARNING
    reference = "IBA 14.2.2.1; seed001; seed000 MasterSMLID"
    message = "trap {trap} from {port} goes to LID {dlid}, its MasterSMLID is {master}"
    example = "GetResp(PortInfo) with MasterSMLID 1, then SubnTrap of that port to LID 9"

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Hit] = []
        """Of this chunk."""
        self.masters = np.zeros(1 << 16, np.bool_)
        """LIDs that some PortInfo names."""

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        self.held.extend(super().trap(event, context))
        return iter(())

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        self.masters[event.table.values(PortInfo.master_sm_lid)] = True
        held, self.held = self.held, []
        yield from (hit for hit in held if not self.masters[hit.arguments["dlid"]])

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        info = event.port.info if event.port is not None else None
        if event.port is None or info is None or event.directed or event.dlid == PERMISSIVE:
            return None
        if not info.master_sm_lid or info.master_sm_lid == event.dlid:
            return None
        return {"dlid": event.dlid, "master": info.master_sm_lid}, (Related(event.port.info_frame, "PortInfo of the port"),)


class LinkTrapLid(TrapRule):
    """Trap 128 is about a port that is no switch.

    ## Why it matters
    Trap 128 says that a link of a switch changed; the subnet manager sweeps the switch it names.

    ## What to do
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
        return {"lid": lid, "owner": str(owner)}, (Related(owner.node.frame, "NodeInfo"),)


class ThresholdPort(TrapRule):
    """A trap about link errors names a port that the node does not have.

    ## Why it matters
    Whoever follows the trap finds no such port; the link that loses packets stays unfound.

    ## What to do
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
        return {"number": details.portno, "owner": str(owner), "ports": owner.node.num_ports}, (Related(owner.node.frame, "NodeInfo"),)


class PathNotMarked(TrapRule):
    """Trap 256 repeats a directed route of more than 30 hops and does not say that it was cut.

    ## Why it matters
    The notice has room for 30 ports; whoever follows the route ends at another node.

    ## What to do
    Update the firmware of the sender.
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
