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
from ibdissect.wire.spec import Field
from ibdissect.wire.transport import BTH

from .model import SwitchFacts

GET, SET, TRAP, TRAP_REPRESS, GET_RESP = 0x01, 0x02, 0x05, 0x07, 0x81
NOTICE, NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE = 0x02, 0x10, 0x11, 0x12, 0x15, 0x16
SL_TO_VL, VL_ARBITRATION, LINEAR, RANDOM, MULTICAST = 0x17, 0x18, 0x19, 0x1A, 0x1B
SM_INFO, VENDOR_DIAG = 0x20, 0x30
LID_ROUTED, DIRECTED = 0x01, 0x81
SMP_SIZE, DATA_AT = SMPDirected.size, SMPDirected.data.bit // 8
PATH_AT = SMPDirected.initial_path.bit // 8
TABLES = (SL_TO_VL, VL_ARBITRATION, LINEAR, RANDOM, MULTICAST)
TEACHING = (NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE, *TABLES, SM_INFO, VENDOR_DIAG)
"""Attributes whose answers are read."""
_TEACHES = np.zeros(1 << 16, np.bool_)
_TEACHES[list(TEACHING)] = True
PLACE_ONLY, ASKS, TEACHES, COMPLAINS = 0, 1, 2, 3
"""What an SMP needs of the follower: only the port that it goes to or comes from, or more."""
HOPS_AT, WAY_HEAD = 4, 5
"""A way: high half of the transaction id, the number of hops, and InitialPath without its unused first byte."""
MAX_HOPS, WORD = 63, 8
PERMISSIVE = 0xFFFF

_READ: dict[int, tuple[Field[Any], ...]] = {
    NODE_INFO: (
        NodeInfo.node_type, NodeInfo.num_ports, NodeInfo.system_image_guid, NodeInfo.node_guid, NodeInfo.port_guid,
        NodeInfo.partition_cap, NodeInfo.device_id, NodeInfo.local_port_num, NodeInfo.vendor_id,
    ),
    SWITCH_INFO: tuple(getattr(SwitchInfo, name) for name in SwitchFacts._fields),
    SM_INFO: (SMInfo.guid, SMInfo.priority, SMInfo.sm_state, SMInfo.act_count),
}  # fmt: skip
"""Fields of an attribute in the order in which `facts` holds them."""


class Smps:
    """Lists with one entry per SMP that can teach or ask something, in frame order.

    `keyed` says that some port is known to hold an M_Key: only then, or when this chunk shows one, are requests looked at alone.
    """

    def __init__(self, table: ChunkTable, *, keyed: bool = True) -> None:
        rows = _rows(table)
        data, loc = table.chunk.data, table.located
        at = loc.at("mad")[rows]
        head = gather(data, at, DATA_AT)

        def column(field: Field[Any]) -> npt.NDArray[Any]:
            return extract(head, field.bit, field.bits)

        method, status, attribute = column(MAD.method), column(MAD.status), column(MAD.attribute_id)
        directed = column(MAD.mgmt_class) == DIRECTED
        answer = (method == GET_RESP) & ((status & np.where(directed, 0x7FFF, 0xFFFF).astype(np.uint16)) == 0)
        trap = (method == TRAP) & (attribute == NOTICE)
        asks = (method == GET) | (method == SET) | (method == TRAP_REPRESS)
        keep = np.flatnonzero(answer | asks | trap)
        if len(keep) < len(rows):
            rows, at, head = rows[keep], at[keep], head[keep]
            method, attribute, directed, answer, trap = method[keep], attribute[keep], directed[keep], answer[keep], trap[keep]
        self.rows = rows
        self.method, self.attribute, self.answers = method, attribute, answer
        self.modifier = column(MAD.attribute_modifier)
        self.mad = at - table.chunk.offset[rows]
        self.directed_rows = directed
        self.directed: list[bool] = directed.tolist()
        self._transaction = column(MAD.transaction_id)
        self._m_key = column(SMPDirected.m_key)
        hops = column(SMPDirected.hop_count).astype(np.int64)
        slid, dlid = column(SMPDirected.dr_slid), column(SMPDirected.dr_dlid)
        self.dr_slid, self.dr_dlid = slid, dlid
        self.pure: npt.NDArray[np.bool_] = directed & (slid == PERMISSIVE) & (dlid == PERMISSIVE)
        """Directed from end to end."""
        lrh = loc.at("lrh")[rows]
        near, far = u16(data, lrh + LRH.slid.bit // 8), u16(data, lrh + LRH.dlid.bit // 8)
        self.slid: list[int] = near.tolist()
        self.dlid: list[int] = far.tolist()
        self.ways = _ways(data, at, head, np.minimum(hops, MAX_HOPS).astype(np.uint8))
        """The way of each SMP, zeros behind it, uint8[n, words * WORD]; `way` and `path` read it."""
        self._way_bytes, self._way_size = self.ways.tobytes(), self.ways.shape[1]
        self.bodies = gather(data, at + DATA_AT, 64)
        self._raw = self.bodies.tobytes()
        self.facts: list[tuple[int, ...] | None] = [None] * len(rows)
        """Fields of the attribute, for answers; PortInfo is read as bytes."""
        self.kind, self.keyed = self._kinds(answer, trap, keyed)
        """What each SMP needs of the follower; whether M_Keys are in play."""

    def _kinds(self, answer: npt.NDArray[np.bool_], trap: npt.NDArray[np.bool_], keyed: bool) -> tuple[Int, bool]:
        sets = (self.method == SET) & (self.attribute == PORT_INFO)
        about_ports = np.flatnonzero((answer & (self.attribute == PORT_INFO)) | sets)
        keyed = keyed or bool(self.bodies[about_ports, :8].any())
        kind = np.zeros(len(self.rows), np.int64)
        kind[trap] = COMPLAINS
        teaches = answer & _TEACHES[self.attribute]
        kind[teaches] = TEACHES
        if keyed:
            kind[~answer & ~trap] = ASKS
        else:
            kind[((self.method == SET) & (self.attribute == P_KEY_TABLE)) | (self.method == TRAP_REPRESS)] = ASKS
        for number, fields in _READ.items():
            index = np.flatnonzero(teaches & (self.attribute == number))
            if len(index):
                body = self.bodies[index]
                values = [extract(body, field.bit, field.bits).tolist() for field in fields]
                for i, facts in zip(index.tolist(), zip(*values, strict=True), strict=True):
                    self.facts[i] = facts
        return kind, keyed

    def transaction(self, i: int) -> int:
        """Transaction id of SMP `i`."""
        return int(self._transaction[i])

    def m_key(self, i: int) -> int:
        """M_Key that SMP `i` carries."""
        return int(self._m_key[i])

    def path(self, i: int) -> bytes:
        """The directed route of SMP `i`, without the unused first byte; HopCount above 63 is cut there."""
        at, ways = i * self._way_size, self._way_bytes
        return ways[at + WAY_HEAD : at + WAY_HEAD + ways[at + HOPS_AT]]

    def high(self, i: int) -> bytes:
        """High half of the transaction id of SMP `i`, 4 bytes."""
        at = i * self._way_size
        return self._way_bytes[at : at + HOPS_AT]

    def body(self, i: int) -> bytes:
        """The 64 bytes of the attribute of SMP `i`."""
        return self._raw[i * 64 : i * 64 + 64]


def _ways(data: npt.NDArray[np.uint8], at: Int, head: npt.NDArray[np.uint8], hops: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    longest = int(hops.max()) if len(hops) else 0
    ways = np.zeros((len(at), -(-(WAY_HEAD + longest) // WORD) * WORD), np.uint8)
    start = MAD.transaction_id.bit // 8
    ways[:, :HOPS_AT] = head[:, start : start + HOPS_AT]
    ways[:, HOPS_AT] = hops
    if longest:
        path = gather(data, at + PATH_AT + 1, longest)
        path *= np.arange(longest, dtype=np.uint8) < hops[:, None]
        ways[:, WAY_HEAD : WAY_HEAD + longest] = path
    return ways


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
