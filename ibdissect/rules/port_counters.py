"""Violation counters and other things of PortInfo that changed since the port was last read (PKY, QKY, MKY, SEM)."""

from __future__ import annotations

from typing import Any

from ibdissect.dropped import Dropped
from ibdissect.fabric.events import TrapSeen
from ibdissect.fabric.told import Descriptions, PortInfos, Told
from ibdissect.lint.engine import Context
from ibdissect.lint.rule import INFO, WARNING, on_event
from ibdissect.wire.notice import Notice
from ibdissect.wire.sm import NodeDescription
from ibdissect.wire.sm_port import PortInfo

from .learnt import Changed, Mask, TellingRule

LOCAL_CHANGE = 144
MAX_PORTS = 65536


class _Counted(Changed):
    """What the rules about violation counters share."""

    source = PortInfos
    why = "showed a lower count"

    def suspicious(self, told: Told, context: Context) -> Mask:
        assert self.at is not None
        return told.answers & (told.since > 0) & (told.now(self.at) > told.was(self.at))


class PKeyViolations(_Counted):
    """A port counted packets with a wrong P_Key between two readings.

    ## Why it matters
    Somebody sends to this port in a partition that it is not a member of; those packets are dropped silently.

    ## What to do
    Compare the partitions of the port and of those who talk to it; trap 257 of the port names both ends of such a packet.
    """

    code, name, severity = "PKY015", "pkey-violations-increment", WARNING
    reference = "IBA 14.2.5.6; seed000 T29-5"
    message = "{port} counts {now} P_Key violations, {before} before"
    example = "two GetResp(PortInfo) of a port, P_KeyViolations 0 and 3"
    at = PortInfo.p_key_violations


class QKeyViolations(_Counted):
    """A port counted datagrams with a wrong Q_Key between two readings.

    ## Why it matters
    Somebody sends to a queue pair of this port with a Q_Key that it does not have; those datagrams are dropped silently.

    ## What to do
    Look for a sender that knows an old Q_Key: multicast groups that were made anew, restarted services; trap 258 names both ends.
    """

    code, name, severity = "QKY005", "qkey-violations-increment", WARNING
    reference = "IBA 14.2.5.6; seed000 T29-5"
    message = "{port} counts {now} Q_Key violations, {before} before"
    example = "two GetResp(PortInfo) of a port, Q_KeyViolations 0 and 3"
    at = PortInfo.q_key_violations


class MKeyViolations(_Counted):
    """A port counted SMPs with a wrong M_Key between two readings.

    ## Why it matters
    Somebody without the key manages this port, or tries to. With the port's protect bits at 2 or 3 such requests are dropped.

    ## What to do
    Look at the sender of the SMPs with a wrong key (MKY001, MKY002), or at the port's trap 256.
    """

    code, name, severity = "MKY012", "mkey-violations-increment", WARNING
    reference = "IBA 14.2.4; seed000 T29-5"
    message = "{port} counts {now} M_Key violations, {before} before"
    example = "two GetResp(PortInfo) of a port, M_KeyViolations 0 and 3"
    at = PortInfo.m_key_violations


class CapabilityChanged(Changed):
    """A port shows another CapabilityMask than before and sent no trap 144 about it.

    ## Why it matters
    What a port can do is read once by the subnet manager; a change that it is not told about it does not notice. The bit that
    says 'a subnet manager runs here' is left out.

    ## What to do
    Look for a firmware change or a tool that configures the adapter; restart the sweep of the subnet manager.
    """

    code, name, severity = "SEM056", "capmask-changed", INFO
    reference = "IBA 14.2.5.6; seed000 T29-5"
    message = "{port} shows CapabilityMask 0x{now:08x}, 0x{before:08x} before, without trap 144"
    example = "two GetResp(PortInfo) of a port with different CapabilityMask"
    source = PortInfos
    at = PortInfo.capability_mask
    why = "showed another mask"
    is_sm = 1 << 1
    """CapabilityMask.IsSM."""

    def __init__(self) -> None:
        self.announced: dict[tuple[int, int], int] = {}
        """Frame of the latest trap 144 by slot and port."""
        self.dropped = Dropped("ports that announced a change")

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> None:
        if event.port is not None and Notice(event.notice).trap_number == LOCAL_CHANGE:
            key = event.port.node.slot, event.port.number
            if key in self.announced or len(self.announced) < MAX_PORTS:
                self.announced[key] = event.frame
            else:
                self.dropped.add(event.frame, event.time_ns)

    def suspicious(self, told: Told, context: Context) -> Mask:
        different = (told.now(PortInfo.capability_mask) ^ told.was(PortInfo.capability_mask)) & (0xFFFFFFFF ^ self.is_sm)
        return told.answers & (told.since > 0) & (different != 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        slot, number = int(told.slot[i]), int(told.number[i])
        if self.announced.get((slot, number), 0) > told.since[i]:
            return None
        return super().arguments(told, i, context)


class DescriptionChanged(TellingRule):
    """A node goes by another name than before.

    ## Why it matters
    Nothing is wrong; tools and logs speak of the node by its new NodeDescription from here on.

    ## What to do
    Nothing when the host was just named; a name that flips between two nodes points to a wrong cable map or cloned hosts.
    """

    code, name, severity = "SEM060", "nodedesc-change", INFO
    reference = "IBA 14.2.5.2; opensm trap 144"
    message = "{port} calls itself {now}, {before} before"
    example = "two GetResp(NodeDescription) of a node, the second with another text"
    source = Descriptions
    at = NodeDescription.node_string
    why = "showed another name"

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers & (told.since > 0) & (told.bodies != told.before).any(axis=1)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        before, now = (NodeDescription(body[i].tobytes()).node_string for body in (told.before, told.bodies))
        return {"before": repr(before), "now": repr(now)} if before != now else None
