"""Multicast groups: senders, their packets and keys, and the group's record."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.capture.gather import gather, u16
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import IP4_SIZE, LID_SIZE, NETWORK, OF_LRH, SHOWN, by_header
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.equal_rows import by_value, digest
from ibdissect.decode.identity import GroupId, GroupSenderId
from ibdissect.decode.payload_sizes import payload_sizes
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import FIRST_MULTICAST, PERMISSIVE, RESPONSE_BIT, SA_CLASS
from ibdissect.wire.opcodes import UD
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.text import gid_text

SERVICE = 0xE0
MAX_SENDERS, MAX_GROUPS = 16384, 16384
MAPPED = bytes(10) + b"\xff\xff"
KEY = 48
"""Bytes that identify a sender: group, source, LID, P_Key, Q_Key, source QP, network, padded to whole words."""


class GroupRecord(NamedTuple):
    """A group according to its latest MCMemberRecord."""

    frame: int
    mlid: int
    p_key: int
    q_key: int
    """0 if the SA hides it."""
    mtu: int
    """Bytes; 0 if the code is reserved."""
    rate: int
    """Code of the rate."""


class GroupSender(Record):
    """One queue pair that sends to one group."""

    group: bytes
    """GID; IPv4 groups as ::ffff:a.b.c.d; zeros if the packets have no GRH."""
    source: bytes
    """GID or mapped IPv4 address; without GRH the LID in the last two bytes."""
    mlid: int
    """DLID, 0 on Ethernet."""
    p_key: int
    q_key: int
    source_qp: int
    first_frame: int
    first_ns: int
    last_ns: int
    packets: int = 0
    payload: int = 0
    largest: int = 0
    """Bytes of the largest payload."""
    network: int = 0
    """The network of its packets (`decode.networks`)."""

    @property
    def of(self) -> GroupId:
        """The group that it sends to."""
        return GroupId(self.group, self.network)

    @property
    def group_text(self) -> str:
        return _text(self.group) if any(self.group) else f"LID 0x{self.mlid:04x}"

    @property
    def source_text(self) -> str:
        return f"LID {int.from_bytes(self.source, 'big')}" if not any(self.source[:14]) else _text(self.source)


def _text(address: bytes) -> str:
    return ".".join(map(str, address.removeprefix(MAPPED))) if address.startswith(MAPPED) else gid_text(address)


class Multicast:
    """Senders and groups of a capture, bounded. Feed chunks in order."""

    def __init__(self) -> None:
        dropped = Dropped("multicast groups and senders")
        self.senders = KeptDict[GroupSenderId, GroupSender](MAX_SENDERS, dropped)
        self.groups = KeptDict[GroupId, GroupRecord](MAX_GROUPS, dropped)

    def feed(self, table: ChunkTable) -> list[tuple[GroupSender, Int]]:
        """Process a chunk; returns its senders with their rows."""
        self._records(table)
        return list(self._packets(table))

    def _records(self, table: ChunkTable) -> None:
        found = table.occurrences(MCMemberRecord)
        if not len(found):
            return
        answered = occurrences_where((MAD.mgmt_class == SA_CLASS) & (MAD.method >= RESPONSE_BIT) & (MAD.status == 0), table, MCMemberRecord)
        for i in np.flatnonzero(answered).tolist():
            view: MCMemberRecord = table.view(MCMemberRecord, i)
            row = int(found.rows[i])
            group = GroupId(bytes(view.mgid), int(table.networks[row]) if table.networks is not None else 0)
            known = self.groups.get(group)
            mtu = 128 << view.mtu if 1 <= view.mtu <= 5 else 0
            q_key = view.q_key or (known.q_key if known is not None else 0)
            record = GroupRecord(table.chunk.first + row, view.mlid, view.p_key, q_key, mtu, view.rate)
            if known is None or known[1:] != record[1:]:
                self.groups.keep(group, record, record.frame, int(table.chunk.time_ns[row]))

    def _packets(self, table: ChunkTable) -> Iterator[tuple[GroupSender, Int]]:
        rows = self._multicast(table)
        if not len(rows):
            return
        loc, data = table.located, table.chunk.data
        key = np.zeros((len(rows), KEY), np.uint8)
        for header, index, at in by_header(table, rows, SHOWN):
            size = header.size
            if size == IP4_SIZE:
                key[index, 0:12] = key[index, 16:28] = np.frombuffer(MAPPED, np.uint8)
            key[index, 32 - size : 32] = gather(data, at + header.source, size)
            if size != LID_SIZE:
                key[index, 16 - size : 16] = gather(data, at + header.destination, size)
        key[:, 32:34] = table.of_rows(LRH.dlid)[0][rows].astype(">u2").view(np.uint8).reshape(-1, 2)
        bth = loc.start["bth"][rows]
        key[:, 34:36] = gather(data, bth + BTH.p_key.bit // 8, 2)
        key[:, 36:40] = gather(data, bth + BTH.size + DETH.q_key.bit // 8, 4)
        key[:, 40:43] = gather(data, bth + BTH.size + DETH.srcqp.bit // 8, 3)
        if table.networks is not None:
            key[:, 43:45] = table.networks[rows].astype(">u2").view(np.uint8).reshape(-1, 2)
        length = np.maximum(payload_sizes(table, rows), 0)
        for _, mine in by_value(digest(key)):
            sender = self._sender(table, key[mine[0]], int(rows[mine[0]]))
            if sender is not None:
                sender.packets += len(mine)
                sender.payload += int(length[mine].sum())
                sender.largest = max(sender.largest, int(length[mine].max()))
                sender.last_ns = int(table.chunk.time_ns[rows[mine[-1]]])
                yield sender, rows[mine]

    def _sender(self, table: ChunkTable, key: npt.NDArray[np.uint8], row: int) -> GroupSender | None:
        name, frame, time_ns = GroupSenderId(key.tobytes()), table.chunk.first + row, int(table.chunk.time_ns[row])
        places = ((32, 34), (34, 36), (36, 40), (40, 43), (43, 45))
        mlid, p_key, q_key, qp, network = (int.from_bytes(name[a:b], "big") for a, b in places)
        made = partial(GroupSender, name[:16], name[16:32], mlid, p_key, q_key, qp, frame, time_ns, time_ns, network=network)
        return self.senders.get_or_make(name, made, frame, time_ns)

    @staticmethod
    def _multicast(table: ChunkTable) -> Int:
        """Rows of unreliable datagrams sent to a multicast address."""
        loc, data = table.located, table.chunk.data
        bth = loc.start.get("bth")
        if bth is None:
            return np.empty(0, np.int64)
        rows = np.flatnonzero((bth >= 0) & ((loc.opcode & SERVICE) == UD))
        rows = rows[bth[rows] + BTH.size + DETH.size <= loc.limit[rows]]
        if not len(rows):
            return rows
        to = np.zeros(len(rows), np.bool_)
        for order in (NETWORK, (OF_LRH,)):
            for header, index, at in by_header(table, rows, order):
                first = data[at + header.destination]
                if header.size == LID_SIZE:
                    lid = u16(data, at + header.destination)
                    to[index] |= (lid >= FIRST_MULTICAST) & (lid != PERMISSIVE)
                else:
                    to[index] = first >> 4 == 0xE if header.size == IP4_SIZE else first == 0xFF
        return rows[to]
