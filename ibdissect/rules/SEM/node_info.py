"""NodeInfo and NodeDescription that are impossible, or contradict earlier ones of the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.identity import Code, Guid, SenderId
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit, Rule, Seen, each, fault, on_chunk, on_event
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import WRITTEN, AttributeRule, Mask
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, READ
from ibdissect.rules.shared.not_seen import RESTARTS_NS
from ibdissect.subnet import SWITCH, ChunkFollowed
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import DescriptionsRecorded, NodeInfos, NodesRecorded, PortGuids
from ibdissect.wire.mad import BASE_VERSION_OPA
from ibdissect.wire.sm import NodeDescription, NodeInfo
from ibdissect.wire.sm_port import PortInfo

SAME = (
    NodeInfo.base_version, NodeInfo.class_version, NodeInfo.node_type, NodeInfo.num_ports, NodeInfo.system_image_guid,
    NodeInfo.partition_cap, NodeInfo.device_id, NodeInfo.revision, NodeInfo.vendor_id,
)  # fmt: skip
"""Fields that are the same in the NodeInfo of all ports of a node."""
MAX_ADAPTERS = 16384
"""Ports of adapters whose latest route is remembered."""
MOVED_NS = 100_000_000
"""A link that was plugged in elsewhere is not up again so soon."""
OF_NODE = [at for one in SAME for at in range(*one.span)]
"""Their bytes."""


class NodeTypeReserved(Rule):
    """A node reports a type that does not exist.

    Only channel adapters, switches and routers exist; a manager ignores any other node and everything behind it.

    Update the firmware of the node.
    """

    code, name, severity = "SEM032", "nodetype-reserved", ERROR
    explains = ("PKY011", "SEM034")
    reference = "IBA 14.2.5.3"
    when = ~NodeInfo.node_type.isin({1, 2, 3}) & READ
    message = "node 0x{node_guid:016x} has NodeType {node_type}"
    example = "SubnGetResp(NodeInfo) with NodeType 9"


class NodeInfoVersion(Rule):
    """A node reports a base or class version other than 1.

    No manager speaks another version of subnet management. Omni-Path nodes are not judged: they answer in another format, and with both
    versions 0x80 in this one.

    Update the firmware of the node.
    """

    code, name, severity = "SEM033", "nodeinfo-version-not-1", ERROR
    explains = ("SEM034",)
    reference = "IBA 14.2.5.3"
    omni_path = (NodeInfo.base_version == BASE_VERSION_OPA) & (NodeInfo.class_version == BASE_VERSION_OPA)
    when = ((NodeInfo.base_version != 1) | (NodeInfo.class_version != 1)) & ~omni_path & READ
    message = "node 0x{node_guid:016x} has BaseVersion {base_version} and ClassVersion {class_version}, both must be 1"
    example = "SubnGetResp(NodeInfo) with BaseVersion 3"


class GUIDZero(Rule):
    """A node has no NodeGUID or no PortGUID.

    Managers identify nodes and ports by GUID; two nodes without one become one node, and no GID can be formed.

    Program the GUIDs of the device (for example with the vendor's flash tool) and restart it.
    """

    code, name, severity = "SEM036", "portguid-zero", ERROR
    explains = ("SEM034", "SEM035")
    reference = "IBA 14.2.5.3; kernel: GUID 0 is illegal"
    when = ((NodeInfo.node_guid == 0) | (NodeInfo.port_guid == 0)) & READ
    at = NodeInfo.port_guid
    message = "NodeGUID 0x{node_guid:016x}, PortGUID 0x{port_guid:016x}: zero is no GUID"
    example = "SubnGetResp(NodeInfo) with PortGUID 0"


class NumPortsImpossible(Rule):
    """A node claims to have no ports, or 255 of them.

    Ports are numbered from 1 to at most 254; as an output port, 255 means discard. A manager would explore nothing, or an impossible port.

    Update the firmware of the node.
    """

    code, name, severity = "SEM039", "numports-zero", ERROR
    explains = ("SEM034",)
    reference = "IBA 14.2.5.3, 3.5"
    when = NodeInfo.num_ports.isin({0, 255}) & READ
    message = "node 0x{node_guid:016x} has NumPorts {num_ports}"
    example = "SubnGetResp(NodeInfo) with NumPorts 0"


class PartitionCapZero(Rule):
    """A node claims to have no room for a partition key.

    Each port holds at least one P_Key; without any it could take part in no traffic, not even with the default one.

    Update the firmware of the node.
    """

    code, name, severity = "SEM040", "partitioncap-zero", ERROR
    explains = ("SEM034",)
    reference = "IBA 14.2.5.3"
    when = (NodeInfo.partition_cap == 0) & READ
    message = "node 0x{node_guid:016x} has PartitionCap 0"
    example = "SubnGetResp(NodeInfo) with PartitionCap 0"


class NodeDescriptionText(Rule):
    """A NodeDescription is not valid UTF-8.

    Tools show it, log it and match names with it; invalid bytes break scripts. A text cut in the middle of a character counts too.

    Set the description of the node again (on Linux: node_desc in sysfs, written by the rdma-ndd service).

    One packet is enough.
    """

    code, name, severity = "SEM061", "nodedesc-not-utf8", WARNING
    reference = "IBA 14.2.5.2"
    at = NodeDescription.node_string
    message = "NodeDescription has bytes that are no UTF-8: {text}"
    example = "SubnGetResp(NodeDescription) that begins with the bytes ff fe"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """Decode only texts with bytes other than ASCII. One finding per text."""
        beyond = (table.matrix(NodeDescription) > 127).any(axis=1)
        if not beyond.any():
            return
        for i, seen, view in each(table, NodeDescription, beyond & occurrences_where(HAS_CONTENT, table, NodeDescription)):
            data = table.matrix(NodeDescription)[i].tobytes().split(b"\0", 1)[0]
            try:
                data.decode()
            except UnicodeDecodeError:
                yield fault(seen, {"text": view.node_string}, self.at, of=view, key=data)


class NodeInconsistent(AttributeRule):
    """Two ports of a node disagree about the node.

    NodeInfo is the same at all ports except for PortGUID and LocalPortNum. The subnet manager takes two nodes with one NodeGUID (cloned
    firmware) for one.

    Compare the GUIDs burnt into both adapters.

    Two answers with one NodeGUID, or a NodeRecord and a later answer. An `info` where a switch has another number of ports: its split mode
    may have changed; where only the SystemImageGUID differs: a node may change it and report that with trap 145; after a NodeRecord; and
    where more than a second lies between the answers: the node may have been restarted with new firmware.
    """

    code, name, severity = "SEM034", "nodeinfo-inconsistent-ports", ERROR
    explains = ("SEM038",)
    reference = "IBA 14.2.5.3"
    message = "NodeInfo of 0x{guid:016x}: {what} is {now}, it was {before} before"
    example = "two GetResp(NodeInfo) with one NodeGUID and different DeviceID"
    at = NodeInfo.node_guid
    records = NodesRecorded
    why = "said otherwise of the same NodeGUID"
    holds_ns = RESTARTS_NS

    def suspicious(self, smps: AttributeSmps) -> Mask:
        different = (smps.bodies != smps.before)[:, OF_NODE].any(axis=1)
        return smps.answers & (smps.since > 0) & different

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        now, before = NodeInfo(smp.body.tobytes()), NodeInfo(smp.before.tobytes())
        for one in SAME:
            if getattr(now, one.name) != getattr(before, one.name):
                values = {"now": getattr(now, one.name), "before": getattr(before, one.name)}
                return {"guid": now.node_guid, "what": one.label, **values}, self.earlier(smp)
        return None

    def flow_of(self, smp: AttributeSmp) -> Any:
        """What proves less is a finding of its own."""
        return smp.key, self._proves_less(smp)

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        hit = super().made(smp, arguments, proof)
        hit.severity = INFO if self._proves_less(smp) else None
        return hit

    def _proves_less(self, smp: AttributeSmp) -> bool:
        now, before = NodeInfo(smp.body.tobytes()), NodeInfo(smp.before.tobytes())
        different = {one for one in SAME if getattr(now, one.name) != getattr(before, one.name)}
        possible = now.node_type == SWITCH and now.local_port_num <= now.num_ports and different == {NodeInfo.num_ports}
        return smp.columns.recorded or possible or different == {NodeInfo.system_image_guid}


class PortGuidTwice(AttributeRule):
    """Two ports have the same PortGUID.

    GIDs are built from it, and the subnet manager identifies ports by it: one of the two ports gets no LID, or both fight for one.

    Compare the GUIDs burnt into both devices.

    Two NodeInfos with one PortGUID, of different nodes or of different ports of an adapter or router. Or one port of an adapter or router
    that answers behind two ports of one switch, within a tenth of a second: no cable is moved so fast. Or two NodeInfos of one switch
    with different PortGUIDs, since all its ports show that of its port 0. An `info` for two ports of one adapter, which may be the planes
    of one XDR port; and where more than a second lies between the answers: the adapter may have been replaced.
    """

    code, name, severity = "SEM035", "portguid-not-unique-ca", ERROR
    reference = "IBA 14.2.5.3"
    message = "PortGUID 0x{guid:016x} is at port {number} of node 0x{node:016x} and at port {other_number} of node 0x{other:016x}"
    example = "two GetResp(NodeInfo) of channel adapters with different NodeGUID and the same PortGUID"
    source = PortGuids
    at = NodeInfo.port_guid
    why = "the other port"
    holds_ns = RESTARTS_NS

    def __init__(self) -> None:
        super().__init__()
        self.behind = BoundedDict[tuple[SenderId, Guid, Code], tuple[bytes, int, int]](MAX_ADAPTERS, "ports of adapters behind switches")
        """By sender, PortGUID and number: the directed route of its latest NodeInfo, its frame and time."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        other_port = smps.now(NodeInfo.local_port_num) != smps.was(NodeInfo.local_port_num)
        other_port &= (smps.now(NodeInfo.node_type) != SWITCH) & (smps.was(NodeInfo.node_type) != SWITCH)
        other_node = smps.now(NodeInfo.node_guid) != smps.was(NodeInfo.node_guid)
        return smps.answers & (smps.since > 0) & (other_node | other_port)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        now, before = NodeInfo(smp.body.tobytes()), NodeInfo(smp.before.tobytes())
        ports = {"number": now.local_port_num, "other_number": before.local_port_num}
        return {"guid": now.port_guid, "node": now.node_guid, "other": before.node_guid, **ports}, self.earlier(smp)

    def flow_of(self, smp: AttributeSmp) -> Any:
        """What proves less is a finding of its own."""
        return smp.key, _of_one_node(smp)

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        hit = super().made(smp, arguments, proof)
        hit.severity = INFO if _of_one_node(smp) else None
        return hit

    @on_event(ChunkFollowed)
    def behind_two_ports(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """One port of an adapter hangs at one port of a switch."""
        smps = context.get(PortGuids).of(event)
        direct = smps.answers & smps.smps.pure[smps.index] & (smps.now(NodeInfo.node_type) != SWITCH)
        some = np.flatnonzero(direct & (smps.now(NodeInfo.port_guid) != 0))
        columns = (
            some, smps.index[some], smps.frames[some], event.table.chunk.time_ns[smps.rows[some]],
            smps.sender[some], smps.now(NodeInfo.port_guid)[some], smps.now(NodeInfo.local_port_num)[some],
        )  # fmt: skip
        for i, place, frame, time_ns, *port in zip(*(column.tolist() for column in columns), strict=True):
            path, key, number = smps.smps.path(place), (SenderId(port[0]), Guid(port[1]), port[2]), port[2]
            before = self.behind.get(key)
            self.behind.put(key, (path, frame, time_ns), frame, time_ns)
            if before is None or len(path) < 2 or before[0][:-1] != path[:-1] or before[0] == path:
                continue
            if not 0 < time_ns - before[2] <= MOVED_NS:  # equal times tell nothing
                continue
            smp = AttributeSmp(smps, i)
            arguments = {"guid": key[1], "number": number, "node": smp.now(NodeInfo.node_guid), "now": path[-1], "before": before[0][-1]}
            yield fault(
                Seen(event.table, smp.rows), arguments, NodeInfo.port_guid, of=Seen(event.table, smp.rows).first(NodeInfo),
                proof=[(before[1], "the other port of that switch")], key=key, about=(smp.slot,),
                message="PortGUID 0x{guid:016x} (port {number} of node 0x{node:016x}) answers behind port {now} of a switch, "
                "and behind its port {before} just before: two devices have it",
            )  # fmt: skip

    @on_event(ChunkFollowed)
    def of_one_switch(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """A switch shows one PortGUID, whichever port is asked."""
        smps = context.get(NodeInfos).of(event)
        known = smps.answers & (smps.since > 0) & (smps.now(NodeInfo.node_type) == SWITCH) & (smps.was(NodeInfo.node_type) == SWITCH)
        given = (smps.now(NodeInfo.port_guid) != 0) & (smps.was(NodeInfo.port_guid) != 0)
        for smp in smps.each(known & given & (smps.now(NodeInfo.port_guid) != smps.was(NodeInfo.port_guid))):
            seen, node = Seen(event.table, smp.rows), smp.now(NodeInfo.node_guid)
            arguments = {"node": node, "guid": smp.now(NodeInfo.port_guid), "before": smp.was(NodeInfo.port_guid)}
            yield fault(
                seen, arguments, NodeInfo.port_guid, of=seen.first(NodeInfo), proof=self.earlier(smp), key=node, about=(smp.slot,),
                message="switch 0x{node:016x} shows PortGUID 0x{guid:016x} after PortGUID 0x{before:016x}; all ports have that of port 0",
            )  # fmt: skip


def _of_one_node(smp: AttributeSmp) -> bool:
    """Whether two answers are of one node: libibumad takes its ports with one GUID for the planes of one port."""
    return smp.now(NodeInfo.node_guid) == smp.was(NodeInfo.node_guid)


class DescriptionChanged(AttributeRule):
    """The name of a node changed.

    Nothing is wrong by itself; tools and logs use the new NodeDescription from here on.

    Nothing if the host was just renamed; a name that flips between two nodes points to a wrong cable map or cloned hosts.

    Two answers of the node with different names, or a NodeRecord and a later answer.
    """

    code, name, severity = "SEM060", "nodedesc-change", INFO
    reference = "IBA 14.2.5.2; opensm trap 144"
    message = "{port} changed its name from {before} to {now}"
    example = "two GetResp(NodeDescription) of a node, the second with another text"
    at = NodeDescription.node_string
    records = DescriptionsRecorded
    why = "showed another name"

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.answers & (smps.since > 0) & (smps.bodies != smps.before).any(axis=1)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        before, now = (NodeDescription(body.tobytes()).node_string for body in (smp.before, smp.body))
        return ({"before": repr(before), "now": repr(now)}, self.earlier(smp)) if before != now else None


class DescriptionReadOnly(AttributeRule):
    """A Set(NodeDescription) goes to a node that does not take a new description.

    A description may be set where CapabilityMask2 has IsSetNodeDescriptionSupported. Elsewhere it is read-only, and the node keeps its own.

    Set the description at the host (on Linux in node_desc of its device).

    The Set, and PortInfo of the port that receives it. An `info` if the answer shows the new description: the node took it.
    """

    code, name, severity = "SEM065", "nodedescription-not-settable", WARNING
    reference = "IBA 14.2.5.2; opensm IB_PORT_CAP2_IS_SET_NODE_DESC_SUPPORTED"
    message = "Set(NodeDescription) of {port}, whose CapabilityMask2 lacks IsSetNodeDescriptionSupported"
    example = "GetResp(PortInfo) with CapabilityMask2 0, then SubnSet(NodeDescription)"
    by_entry = True
    at = NodeDescription.node_string
    taken = (NodeDescription.node_string,)
    why = "CapabilityMask2"
    supported = previous(PortInfo.is_capability_mask2_supported), previous(PortInfo.is_set_node_description_supported)
    when = WRITTEN & ((supported[0] == 0) | (supported[1] == 0))
