"""Facts that only SA records show, no subnet management packet, and the multicast groups.

A record is the subnet manager's view, so it fills gaps but never replaces what a port showed itself; a LID that it gives to another node is
nobody's until a port shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.history import AFTER_ALL
from ibdissect.wire import sa_records as r
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import Notice, TrapGID
from ibdissect.wire.numbers import DELETE_RESP, FIRST_MULTICAST, REPORT, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.sa_paths import LinkRecord, MCMemberRecord
from ibdissect.wire.sm import NodeInfo, SMInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo

from .model import Subnet
from .multicast_groups import GroupFacts
from .nodes import SWITCH, NodeFacts, Port, SmFacts, SwitchFacts
from .p_keys import BLOCK

NO_GID = bytes(16)
Learn = Callable[[Subnet, Any, int], None]
"""Learns a record from a frame."""


class SaRecords:
    """The records of a chunk, those of one frame ordered so that later kinds can rely on earlier ones."""

    def __init__(self, table: ChunkTable) -> None:
        self._open: list[tuple[int, int, int, Learn, type[Any], bytes]] = []
        """Records still to be learnt, the next one last: frame, kind, index, function that learns it, structure, bytes."""
        classes = {mgmt_class for mgmt_class, _ in table.attributes()}
        for kind, (struct, learn) in enumerate(_KINDS if SA_CLASS in classes else ()):
            found = table.occurrences(struct)
            method = table.chunk.data[table.located.at("mad")[found.rows] + MAD.method.bit // 8]
            answers: Bool = (method & RESPONSE_BIT) != 0
            if struct is Notice:
                answers = (method == REPORT) & (table.values_at(MAD.mgmt_class, found.rows) == SA_CLASS)
            index = np.flatnonzero(answers).tolist()
            rows = table.matrix(struct) if index else ()
            for i in index:
                left = struct is MCMemberRecord and method[i] == DELETE_RESP
                self._open.append((table.chunk.first + int(found.rows[i]), kind, i, _left if left else learn, struct, rows[i].tobytes()))
        self._open.sort(key=lambda one: one[:3], reverse=True)

    @property
    def due(self) -> int:
        """The frame of the next record."""
        return self._open[-1][0] if self._open else AFTER_ALL

    def learn(self, subnet: Subnet, frame: int) -> None:
        """Learn the records before a frame."""
        while self.due < frame:
            at, _, _, learn, struct, data = self._open.pop()
            learn(subnet, struct(data), at)
        if subnet.groups.dropped:
            subnet.dropped["groups"] = subnet.groups.dropped
            subnet.groups.dropped = 0


def _node(subnet: Subnet, record: Any, frame: int) -> None:
    info: NodeInfo = record.node_info
    if not info.node_guid:
        return
    owner = subnet.by_lid(record.lid)
    if owner is not None and not owner.node.guid:
        subnet.drop(owner.node, frame)
    elif owner is not None and owner.node.guid != info.node_guid:
        subnet.assign(owner, 0, 0, frame)  # the manager gave it another one, or knows nothing: whose the LID is, a port has to show
    node, new = subnet.node(info.node_guid, frame)
    if new:
        node.kind, node.system_guid, node.device_id, node.vendor_id = info.node_type, info.system_image_guid, info.device_id, info.vendor_id
        node.learn(node.facts, NodeFacts(info.num_ports, info.partition_cap), frame)
    if not node.name:
        node.name = bytes(record.buffer[record.offset + 44 : record.offset + 108]).rstrip(b"\0")
    port = subnet.port(node, 0 if node.kind == SWITCH else info.local_port_num, frame)
    port.guid = port.guid or info.port_guid
    if port.lids.now is None and 0 < record.lid < FIRST_MULTICAST and (owner is None or owner.node.guid in (0, node.guid)):
        subnet.assign(port, record.lid, 0, frame)


def _at(subnet: Subnet, lid: int, number: int, frame: int) -> Port | None:
    """Port `number` of the switch with a LID, or the adapter port that has the LID."""
    port = subnet.by_lid(lid)
    if port is None or port.node.kind != SWITCH:
        return port
    return subnet.port(port.node, number, frame) if number <= port.node.num_ports else None


def _port_info(subnet: Subnet, record: Any, frame: int) -> None:
    port = _at(subnet, record.end_port_lid, record.port_num, frame)
    if port is not None and port.infos.now is None:
        info: PortInfo = record.port_info
        port.infos.learn(bytes(info.buffer[info.offset : info.offset + 64]), frame)


def _switch_info(subnet: Subnet, record: Any, frame: int) -> None:
    port = subnet.by_lid(record.lid)
    if port is not None and port.node.switch.now is None and port.node.kind in (0, SWITCH):
        info: SwitchInfo = record.switch_info
        port.node.learn(port.node.switch, SwitchFacts._make(getattr(info, name) for name in SwitchFacts._fields), frame)
        port.node.linear_top.learn(info.linear_fdb_top, frame)
        port.node.port_state_change = info.port_state_change


def _link(subnet: Subnet, record: Any, frame: int) -> None:
    near, far = _at(subnet, record.from_lid, record.from_port, frame), _at(subnet, record.to_lid, record.to_port, frame)
    if near is not None and far is not None and near is not far and near.peer is None and far.peer is None:
        near.face(far, frame)
        far.face(near, frame)


def _body(record: Any, at: int, size: int = 64) -> bytes:
    return bytes(record.buffer[record.offset + at : record.offset + at + size])


def _forwarding(subnet: Subnet, record: Any, frame: int) -> None:
    """A block of a linear, random or multicast forwarding table."""
    port = subnet.by_lid(record.lid)
    if port is None or port.node.kind not in (0, SWITCH):
        return
    tables = port.node.tables()
    block, body, kept = record.block_num, _body(record, 8), True
    if isinstance(record, r.LinearForwardingTableRecord):
        if block >= len(tables.linear.frames) or not tables.linear.frames[block]:
            tables.linear.learn(block, body, frame)
    elif isinstance(record, r.RandomForwardingTableRecord):
        kept = block in tables.random or tables.learn_random(block, body, frame)
    else:
        modifier = record.position << 28 | block
        kept = modifier in tables.multicast or tables.learn_multicast(modifier, body, frame)
    if not kept:
        subnet.count_drop("blocks of forwarding tables")
    subnet.weigh(port.node)


def _sl_to_vl(subnet: Subnet, record: Any, frame: int) -> None:
    port = _at(subnet, record.lid, record.output_port_num, frame)
    if port is not None:
        number = record.input_port_num if port.node.kind == SWITCH else 0
        if subnet.lanes(port).map(number) is None:
            subnet.lanes(port).learn_map(number, subnet.share(_body(record, 8, 8)), frame)


def _arbitration(subnet: Subnet, record: Any, frame: int) -> None:
    port = _at(subnet, record.lid, record.output_port_num, frame)
    if port is not None and 1 <= record.block_num <= 4 and not subnet.lanes(port).arbitration[record.block_num - 1]:
        subnet.lanes(port).learn_arbitration(record.block_num, subnet.share(_body(record, 8)), frame)


def _p_keys(subnet: Subnet, record: Any, frame: int) -> None:
    port = _at(subnet, record.lid, record.port_num, frame)
    if port is None:
        return
    number, size = record.block_num, port.p_key_capacity(frame) or 0
    swapped = (number & 0xFF) << 8 | number >> 8
    if swapped * BLOCK < size <= number * BLOCK:  # OpenSM writes it in the byte order of its host (osm_sa_pkey_record.c)
        number = swapped
    if port.p_keys is None or port.p_keys.block(number) is None:
        subnet.learn_p_keys(port, number, _body(record, 8), frame)


def _manager(subnet: Subnet, record: Any, frame: int) -> None:
    info: SMInfo = record.sm_info
    if info.guid and info.guid not in subnet.sms:
        sm = subnet.sm(info.guid)
        sm.frame = frame
        sm.facts.learn(SmFacts(info.sm_state, info.priority, record.lid), frame)


def _left(subnet: Subnet, record: Any, frame: int) -> None:
    group = subnet.groups.by_mgid.get(bytes(record.mgid))
    if group is not None:
        subnet.groups.join(group, bytes(record.port_gid), 0, frame)
        if not group.members:
            subnet.groups.forget(group.mgid, frame)


def _member(subnet: Subnet, record: Any, frame: int) -> None:
    groups = subnet.groups
    facts = GroupFacts(record.mlid, record.p_key, record.q_key, record.mtu, record.rate, record.sl)
    group = groups.learn(bytes(record.mgid), facts, frame)
    if record.port_gid != NO_GID:
        groups.join(group, bytes(record.port_gid), record.join_state, frame)


GROUP_DELETED = 67
"""A trap that the SA reports."""


def _report(subnet: Subnet, record: Any, frame: int) -> None:
    """The SA reports that a group is gone."""
    if record.is_generic and record.trap_number == GROUP_DELETED:
        subnet.groups.forget(bytes(TrapGID(record.buffer, record.offset + Notice.data_details.span[0]).gidaddr), frame)


_KINDS: tuple[tuple[type[Any], Learn], ...] = (
    (r.NodeRecord, _node),
    (r.PortInfoRecord, _port_info),
    (r.SwitchInfoRecord, _switch_info),
    (r.SMInfoRecord, _manager),
    (LinkRecord, _link),
    (r.LinearForwardingTableRecord, _forwarding),
    (r.RandomForwardingTableRecord, _forwarding),
    (r.MulticastForwardingTableRecord, _forwarding),
    (r.SLtoVLMappingTableRecord, _sl_to_vl),
    (r.VLArbitrationTableRecord, _arbitration),
    (r.PKeyTableRecord, _p_keys),
    (MCMemberRecord, _member),
    (Notice, _report),
)
