"""NodeInfo, SMInfo and VendorDiag that contradict what was told before (SEM)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.told import NodeInfos, Others, PortGuids, SmInfos, Told
from ibdissect.lint.engine import Context
from ibdissect.lint.rule import ERROR, INFO
from ibdissect.wire.sm import NodeInfo, SMInfo, VendorDiag

from .learnt import Mask, TellingRule

SAME = (
    NodeInfo.base_version, NodeInfo.class_version, NodeInfo.node_type, NodeInfo.num_ports, NodeInfo.system_image_guid,
    NodeInfo.partition_cap, NodeInfo.device_id, NodeInfo.revision, NodeInfo.vendor_id,
)  # fmt: skip
"""What all ports of a node say alike (seed000 table 29-3)."""
MASTER = 3
"""SMInfo.SMState."""
MAX_MASTERS = 64
MAX_CHAINS = 4096


class NodeInconsistent(TellingRule):
    """Two ports of a node do not agree about the node.

    ## Why it matters
    NodeInfo is the same at all ports but for PortGUID and LocalPortNum. Two nodes with one NodeGUID (cloned firmware) look like
    this, and the subnet manager takes them for one.

    ## What to do
    Compare the GUIDs that are burnt into both adapters.
    """

    code, name, severity = "SEM034", "nodeinfo-inconsistent-ports", ERROR
    reference = "IBA 14.2.5.3; seed000 table 29-3"
    message = "NodeInfo of 0x{guid:016x}: {what} is {now}, {before} before"
    example = "two GetResp(NodeInfo) with one NodeGUID and different DeviceID"
    source = NodeInfos
    at = NodeInfo.node_guid
    why = "said otherwise of the same NodeGUID"

    def suspicious(self, told: Told, context: Context) -> Mask:
        different = (told.bodies[:, :12] != told.before[:, :12]).any(axis=1) | (told.bodies[:, 28:36] != told.before[:, 28:36]).any(axis=1)
        return told.answers & (told.since > 0) & (different | (told.bodies[:, 37:40] != told.before[:, 37:40]).any(axis=1))

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        now, before = NodeInfo(told.bodies[i].tobytes()), NodeInfo(told.before[i].tobytes())
        for one in SAME:
            if getattr(now, one.name) != getattr(before, one.name):
                return {"guid": now.node_guid, "what": one.label, "now": getattr(now, one.name), "before": getattr(before, one.name)}
        return None


class PortGuidTwice(TellingRule):
    """Two ports of adapters or routers have the same PortGUID.

    ## Why it matters
    GIDs are made of it, and the subnet manager keeps ports by it: one of the two ports gets no LID, or both fight for one.

    ## What to do
    Compare the GUIDs that are burnt into both adapters.
    """

    code, name, severity = "SEM035", "portguid-not-unique-ca", ERROR
    reference = "IBA 14.2.5.3; seed000 table 29-3"
    message = "PortGUID 0x{guid:016x} is at port {number} of node 0x{node:016x} and at port {other_number} of node 0x{other:016x}"
    example = "two GetResp(NodeInfo) of channel adapters with different NodeGUID and the same PortGUID"
    source = PortGuids
    at = NodeInfo.port_guid
    why = "the other port"

    def suspicious(self, told: Told, context: Context) -> Mask:
        other = told.now(NodeInfo.node_guid) != told.was(NodeInfo.node_guid)
        other |= told.now(NodeInfo.local_port_num) != told.was(NodeInfo.local_port_num)
        kinds = np.isin(told.now(NodeInfo.node_type), (1, 3)) & np.isin(told.was(NodeInfo.node_type), (1, 3))
        return told.answers & (told.since > 0) & kinds & other

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        now, before = NodeInfo(told.bodies[i].tobytes()), NodeInfo(told.before[i].tobytes())
        return {
            "guid": now.port_guid, "node": now.node_guid, "other": before.node_guid,
            "number": now.local_port_num, "other_number": before.local_port_num,
        }  # fmt: skip


class PriorityChanged(TellingRule):
    """A subnet manager has another priority than before.

    ## Why it matters
    The manager with the highest priority becomes master: a change may move the mastership.

    ## What to do
    Nothing when an administrator did it (opensm: `sm_priority`, or `master_sm_priority` while it is master).
    """

    code, name, severity = "SEM041", "sm-priority-change", INFO
    reference = "IBA 14.4.1; seed000 SMInfo"
    message = "subnet manager 0x{guid:016x} has priority {now}, {before} before"
    example = "two GetResp(SMInfo) of one GUID with priorities 1 and 14"
    source = SmInfos
    at = SMInfo.priority
    why = "had another priority"

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers & (told.since > 0) & (told.now(SMInfo.priority) != told.was(SMInfo.priority))

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        return {
            "guid": int(told.now(SMInfo.guid)[i]), "now": int(told.now(SMInfo.priority)[i]), "before": int(told.was(SMInfo.priority)[i]),
        }  # fmt: skip


class TwoMasters(TellingRule):
    """Two subnet managers say that they are master, in turns.

    ## Why it matters
    Both assign LIDs and program switches; packets get lost while they undo each other's work.

    ## What to do
    Find out why they do not see each other: different M_Keys or SM_Keys, or two subnets that were joined.
    """

    code, name, severity = "SEM044", "two-masters", ERROR
    reference = "IBA 14.4; seed000 Multiple SMs"
    message = "subnet manager 0x{guid:016x} is master, and so is 0x{other:016x}"
    example = "GetResp(SMInfo) with state Master of one GUID, of another, and of the first again"
    source = SmInfos
    at = SMInfo.sm_state

    def __init__(self) -> None:
        self.masters: dict[int, tuple[int, int]] = {}
        """First and latest frame of an unbroken row of answers as master, by GUID."""
        self.dropped = Dropped("master subnet managers")

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        guid, frame = int(told.now(SMInfo.guid)[i]), int(told.frames[i])
        if int(told.now(SMInfo.sm_state)[i]) != MASTER:
            self.masters.pop(guid, None)
            return None
        first = self.masters.get(guid, (frame, 0))[0]
        if guid in self.masters or len(self.masters) < MAX_MASTERS:
            self.masters[guid] = (first, frame)
        else:
            self.dropped.add(frame, int(told.event.table.chunk.time_ns[told.rows[i]]))
        for other, (_, latest) in self.masters.items():
            if other != guid and first < latest:  # it was master before and after the other said so
                return {"guid": guid, "other": other, "latest": latest}
        return None

    def flow_of(self, told: Told, i: int) -> Any:
        return tuple(sorted(self.masters))

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        guid = int(told.now(SMInfo.guid)[i])
        return tuple((latest, "another master") for other, (_, latest) in self.masters.items() if other != guid)


class CountFellBack(TellingRule):
    """The activity counter of a subnet manager went back.

    ## Why it matters
    ActCount grows with all the manager does; a standby takes over when it stands still. A lower number means a restart.

    ## What to do
    Nothing when the manager was restarted.
    """

    code, name, severity = "SEM046", "actcount-not-increasing", INFO
    reference = "IBA 14.4.1; seed000 ActCount"
    message = "subnet manager 0x{guid:016x} shows ActCount {now}, {before} before"
    example = "two GetResp(SMInfo) of one GUID with ActCount 9 and 2"
    source = SmInfos
    at = SMInfo.act_count
    why = "showed a higher count"

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers & (told.since > 0) & (told.now(SMInfo.act_count) < told.was(SMInfo.act_count))

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        return {
            "guid": int(told.now(SMInfo.guid)[i]), "now": int(told.now(SMInfo.act_count)[i]), "before": int(told.was(SMInfo.act_count)[i]),
        }  # fmt: skip


class _Pages(Others):
    attribute = 0x30


class DiagChainLoop(TellingRule):
    """The diagnostic pages of a port form a ring.

    ## Why it matters
    Each page names the next one, 0 ends the chain; a reader that follows the ring never ends.

    ## What to do
    Update the firmware; give the tool a limit.
    """

    code, name, severity = "SEM030", "vendordiag-chain-loop", ERROR
    reference = "IBA 14.2.5.14; seed000 VendorDiag"
    message = "VendorDiag page {page} of {port} names {following} as the next one, which leads back to it"
    example = "GetResp(VendorDiag) of page 7 with NextIndex 7"
    source = _Pages
    at = VendorDiag.next_index

    def __init__(self) -> None:
        self.following: dict[tuple[int, int, int], int] = {}
        """Next page by slot, port and page."""
        self.dropped = Dropped("pages of vendor diagnostics")

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers & (told.slot >= 0) & (told.now(VendorDiag.next_index) != 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        slot, number, page = int(told.slot[i]), int(told.entered[i]), int(told.modifier[i])
        following = int(told.now(VendorDiag.next_index)[i])
        if len(self.following) >= MAX_CHAINS:
            self.dropped.add(int(told.frames[i]), int(told.event.table.chunk.time_ns[told.rows[i]]), len(self.following))
            self.following.clear()
        self.following[slot, number, page] = following
        here, seen = following, set[int]()
        while here and here != page and here not in seen:
            seen.add(here)
            here = self.following.get((slot, number, here), 0)
        return {"page": page, "following": following} if page and here == page else None

    def flow_of(self, told: Told, i: int) -> Any:
        return int(told.slot[i]), int(told.entered[i])
