"""Who sends to which multicast group, with what keys, how much - and what did the group's record say?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.table.locate import Int, u16
from ibdissect.table.mask import occurrences_where
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.mad import MAD
from ibdissect.wire.opcodes import UD
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.text import gid_text
from ibdissect.wire.transport import BTH, DETH

from .asked import mixed

FIRST_MULTICAST, PERMISSIVE = 0xC000, 0xFFFF
SERVICE = 0xE0
MAX_SENDERS, MAX_GROUPS = 16384, 16384
MAPPED = bytes(10) + b"\xff\xff"
SA_CLASS, RESPONSE_BIT = 0x03, 0x80
KEY = 48
"""Bytes that tell senders apart: group, source, LID, P_Key, Q_Key, source QP; a whole number of words."""


class GroupRecord(NamedTuple):
    """A group as its latest MCMemberRecord shows it."""

    frame: int
    mlid: int
    p_key: int
    q_key: int
    """0 where the SA hides it."""
    mtu: int
    """Bytes, 0 when the code is reserved."""
    rate: int
    """Code of the rate."""


@record(eq=True, frozen=False)
class Sender:
    """One queue pair that sends to one group."""

    group: bytes
    """GID; IPv4 groups as ::ffff:a.b.c.d; zeros where the packets have no GRH."""
    source: bytes
    """GID or mapped IPv4 address; where there is no GRH, the LID in the last two bytes."""
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

    @property
    def group_text(self) -> str:
        """The group as people write it."""
        return _text(self.group) if any(self.group) else f"LID 0x{self.mlid:04x}"

    @property
    def source_text(self) -> str:
        """The sender as people write it."""
        return f"LID {int.from_bytes(self.source, 'big')}" if not any(self.source[:14]) else _text(self.source)


def _text(address: bytes) -> str:
    return ".".join(map(str, address[12:])) if address.startswith(MAPPED) else gid_text(address)


class Multicast:
    """Senders and groups of a capture, bounded. `of` every chunk in order, by whoever asks first."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.senders: dict[bytes, Sender] = {}
        self.groups: dict[bytes, GroupRecord] = {}
        """By MGID."""
        self.dropped = Dropped("multicast groups and senders")
        self.now: list[tuple[Sender, Int]] = []
        """The senders of the present chunk with their rows."""

    def of(self, table: ChunkTable) -> Multicast:
        """Take in a chunk."""
        if self._of is not table:
            self._of = table
            self.now = []
            self._records(table)
            self._packets(table)
        return self

    def _records(self, table: ChunkTable) -> None:
        found = table.occurrences(MCMemberRecord)
        if not len(found):
            return
        told = occurrences_where((MAD.mgmt_class == SA_CLASS) & (MAD.method >= RESPONSE_BIT) & (MAD.status == 0), table, MCMemberRecord)
        for i in np.flatnonzero(told).tolist():
            view: MCMemberRecord = table.view(MCMemberRecord, i)
            mgid = bytes(view.mgid)
            if mgid in self.groups or len(self.groups) < MAX_GROUPS:
                known = self.groups.get(mgid)
                mtu = 128 << view.mtu if 1 <= view.mtu <= 5 else 0
                q_key = view.q_key or (known.q_key if known is not None else 0)
                record = GroupRecord(table.chunk.first + int(found.rows[i]), view.mlid, view.p_key, q_key, mtu, view.rate)
                if known is None or known[1:] != record[1:]:
                    self.groups[mgid] = record
            else:
                self.dropped.add(table.chunk.first + int(found.rows[i]), int(table.chunk.time_ns[found.rows[i]]))

    def _packets(self, table: ChunkTable) -> None:
        rows = self._multicast(table)
        if not len(rows):
            return
        loc, data = table.located, table.chunk.data
        key = np.zeros((len(rows), KEY), np.uint8)
        for name, source, destination, size in (("lrh", 6, 2, 2), ("grh", 8, 24, 16), ("ip6", 8, 24, 16), ("ip4", 12, 16, 4)):
            if name not in loc.start:
                continue
            index = np.flatnonzero(loc.start[name][rows] >= 0)
            at = loc.start[name][rows[index]]
            if name == "lrh":
                key[index, 32:34] = gather(data, at + destination, 2)
                key[index, 30:32] = gather(data, at + source, 2)
                continue
            if name == "ip4":
                key[index, 0:12] = key[index, 16:28] = np.frombuffer(MAPPED, np.uint8)
            key[index, 16 - size : 16] = gather(data, at + destination, size)
            key[index, 32 - size : 32] = gather(data, at + source, size)
        bth = loc.start["bth"][rows]
        key[:, 34:36] = gather(data, bth + BTH.p_key.bit // 8, 2)
        key[:, 36:40] = gather(data, bth + BTH.size + DETH.q_key.bit // 8, 4)
        key[:, 40:43] = gather(data, bth + BTH.size + DETH.srcqp.bit // 8, 3)
        hashed = mixed(key)
        order = np.argsort(hashed, kind="stable")
        starts = np.flatnonzero(np.concatenate(([True], hashed[order][1:] != hashed[order][:-1])))
        payload = loc.at("payload")[rows]
        length = np.where(payload >= 0, loc.payload_end[rows] - payload, 0)
        for mine in np.split(order, starts[1:]):
            sender = self._sender(table, key[mine[0]], int(rows[mine[0]]))
            if sender is not None:
                sender.packets += len(mine)
                sender.payload += int(length[mine].sum())
                sender.largest = max(sender.largest, int(length[mine].max()))
                sender.last_ns = int(table.chunk.time_ns[rows[mine[-1]]])
                self.now.append((sender, rows[mine]))

    def _sender(self, table: ChunkTable, key: npt.NDArray[np.uint8], row: int) -> Sender | None:
        name = key.tobytes()
        found = self.senders.get(name)
        if found is None and len(self.senders) >= MAX_SENDERS:
            self.dropped.add(table.chunk.first + row, int(table.chunk.time_ns[row]))
        elif found is None:
            mlid, p_key, q_key, source_qp = (int.from_bytes(name[a:b], "big") for a, b in ((32, 34), (34, 36), (36, 40), (40, 43)))
            time_ns = int(table.chunk.time_ns[row])
            found = self.senders[name] = Sender(
                name[:16], name[16:32], mlid, p_key, q_key, source_qp, table.chunk.first + row, time_ns, time_ns
            )  # fmt: skip
        return found

    @staticmethod
    def _multicast(table: ChunkTable) -> Int:
        """Rows of unreliable datagrams to a multicast address."""
        loc, data = table.located, table.chunk.data
        bth = loc.start.get("bth")
        if bth is None:
            return np.empty(0, np.int64)
        rows = np.flatnonzero((bth >= 0) & ((loc.opcode & SERVICE) == UD))
        rows = rows[bth[rows] + BTH.size + DETH.size <= loc.limit[rows]]
        if not len(rows):
            return rows
        to = np.zeros(len(rows), np.bool_)
        for name, offset in (("lrh", 2), ("grh", 24), ("ip6", 24), ("ip4", 16)):
            if name not in loc.start:
                continue
            there = np.flatnonzero(loc.start[name][rows] >= 0)
            at = loc.start[name][rows[there]] + offset
            if name == "lrh":
                lid = u16(data, at)
                to[there] = (lid >= FIRST_MULTICAST) & (lid != PERMISSIVE)
            elif name == "ip4":
                to[there] = data[at] >> 4 == 0xE
            else:
                to[there] |= data[at] == 0xFF
        return rows[to]
