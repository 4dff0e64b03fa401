"""The subnet management packets of a chunk as plain Python lists: what the follower reads of each, gathered at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.table.locate import Int, u16, u24
from ibdissect.table.table import ChunkTable, extract, gather
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeInfo, SMInfo, SMPDirected, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH

from .model import PortFacts, SwitchFacts

GET, SET, TRAP, TRAP_REPRESS, GET_RESP = 0x01, 0x02, 0x05, 0x07, 0x81
NOTICE, NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE = 0x02, 0x10, 0x11, 0x12, 0x15, 0x16
SM_INFO, VENDOR_DIAG = 0x20, 0x30
LID_ROUTED, DIRECTED = 0x01, 0x81
SMP_SIZE, DATA_AT = SMPDirected.size, SMPDirected.data.bit // 8
PATH_AT = SMPDirected.initial_path.bit // 8
TEACHING = (NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE, SM_INFO, VENDOR_DIAG)
"""Attributes whose answers are read."""

_KEYS: tuple[Field[Any], ...] = (PortInfo.m_key, PortInfo.m_key_protect_bits, PortInfo.m_key_lease_period)
_READ: dict[int, tuple[Field[Any], ...]] = {
    NODE_INFO: (
        NodeInfo.node_type, NodeInfo.num_ports, NodeInfo.system_image_guid, NodeInfo.node_guid, NodeInfo.port_guid,
        NodeInfo.partition_cap, NodeInfo.device_id, NodeInfo.local_port_num, NodeInfo.vendor_id,
    ),
    SWITCH_INFO: tuple(getattr(SwitchInfo, name) for name in SwitchFacts._fields),
    PORT_INFO: (*_KEYS, *(getattr(PortInfo, name) for name in PortFacts._fields)),
    SM_INFO: (SMInfo.guid, SMInfo.priority, SMInfo.sm_state),
}  # fmt: skip
"""Fields of an attribute in the order in which `facts` holds them."""


class Smps:
    """Lists with one entry per SMP that can teach or ask something, in frame order."""

    def __init__(self, table: ChunkTable) -> None:
        rows = _rows(table)
        data, loc = table.chunk.data, table.located
        at = loc.at("mad")[rows]
        head = gather(data, at, DATA_AT)

        def column(field: Field[Any]) -> npt.NDArray[Any]:
            return extract(head, field.bit, field.bits)

        method, status, attribute = column(MAD.method), column(MAD.status), column(MAD.attribute_id)
        directed = column(MAD.mgmt_class) == DIRECTED
        answer = (method == GET_RESP) & ((status & np.where(directed, 0x7FFF, 0xFFFF)) == 0) & np.isin(attribute, TEACHING)
        asks = (method == GET) | (method == SET) | (method == TRAP_REPRESS) | ((method == TRAP) & (attribute == NOTICE))
        keep = np.flatnonzero(answer | asks)
        self.rows = rows[keep]
        self.method, self.attribute = method[keep], attribute[keep]
        self.modifier = column(MAD.attribute_modifier)[keep]
        self.mad = at[keep] - table.chunk.offset[self.rows]
        self.directed: list[bool] = directed[keep].tolist()
        self.transaction: list[int] = column(MAD.transaction_id)[keep].tolist()
        self.m_key: list[int] = column(SMPDirected.m_key)[keep].tolist()
        self.hops: list[int] = column(SMPDirected.hop_count)[keep].tolist()
        self.dr_slid: list[int] = column(SMPDirected.dr_slid)[keep].tolist()
        self.dr_dlid: list[int] = column(SMPDirected.dr_dlid)[keep].tolist()
        lrh = loc.at("lrh")[self.rows]
        self.slid: list[int] = u16(data, lrh + LRH.slid.bit // 8).tolist()
        self.dlid: list[int] = u16(data, lrh + LRH.dlid.bit // 8).tolist()
        self.paths = gather(data, at[keep] + PATH_AT, 64).tobytes()
        """InitialPath of each, 64 bytes one behind the other."""
        self.data = data
        self.data_at: list[int] = (at[keep] + DATA_AT).tolist()
        self.facts: list[tuple[int, ...] | None] = [None] * len(keep)
        """Fields of the attribute, for answers and for Set(PortInfo)."""
        teaches = answer[keep] | ((self.method == SET) & (self.attribute == PORT_INFO))
        for number, fields in _READ.items():
            index = np.flatnonzero(teaches & (self.attribute == number))
            if len(index):
                body = gather(data, at[keep][index] + DATA_AT, 64)
                values = [extract(body, field.bit, field.bits).tolist() for field in fields]
                for i, facts in zip(index.tolist(), zip(*values, strict=True), strict=True):
                    self.facts[i] = facts

    def path(self, i: int) -> bytes:
        """The directed route of SMP `i`, without the unused first byte; HopCount above 63 is cut there."""
        return self.paths[i * 64 + 1 : i * 64 + 1 + min(self.hops[i], 63)]

    def body(self, i: int) -> bytes:
        """The 64 bytes of the attribute of SMP `i`."""
        start = self.data_at[i]
        return self.data[start : start + 64].tobytes()


def _rows(table: ChunkTable) -> Int:
    """Rows with a whole SMP of base version 1 to QP0 behind an LRH, in frame order."""
    found = [rows for (mgmt_class, _), rows in table.attributes().items() if mgmt_class in (LID_ROUTED, DIRECTED)]
    if not found:
        return np.empty(0, np.int64)
    rows: Int = np.sort(np.concatenate(found))
    at = table.located.at("mad")[rows]
    good = (at + SMP_SIZE <= table.located.payload_end[rows]) & (table.chunk.data[at] == 1) & (table.located.at("lrh")[rows] >= 0)
    good &= u24(table.chunk.data, table.located.at("bth")[rows] + BTH.destqp.bit // 8) == 0  # only QP0 takes them for SMPs
    kept: Int = rows[good]
    return kept
