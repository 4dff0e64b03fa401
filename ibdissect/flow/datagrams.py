"""The management datagrams of a chunk as lists: what matching requests with answers needs of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.table.locate import Int, u16
from ibdissect.table.table import ChunkTable, extract, gather
from ibdissect.wire.mad import MAD, RMPP, RMPP_CLASSES
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import Field
from ibdissect.wire.text import gid_text

DIRECTED = 0x81
HEAD = 24 + RMPP.size
"""Bytes of every MAD that are read: common header and RMPP header."""
PATH_AT, PATH_SIZE = SMPDirected.initial_path.bit // 8, 64
Address = int | bytes
"""A LID, or the bytes of a GID or IP address."""
PERMISSIVE = 0xFFFF


def address_text(address: Address) -> str:
    """As people write it."""
    if isinstance(address, int):
        return f"LID {address}"
    return ".".join(map(str, address)) if len(address) == 4 else gid_text(address)


class Datagrams:
    """Lists with one entry per MAD of base version 1, in frame order."""

    def __init__(self, table: ChunkTable) -> None:
        loc, data = table.located, table.chunk.data
        mad = loc.start.get("mad")
        rows = np.flatnonzero(mad >= 0) if mad is not None else np.empty(0, np.int64)
        at = mad[rows] if mad is not None else rows
        fits = (at + HEAD <= loc.payload_end[rows]) & (data[np.minimum(at, max(0, data.size - 1))] == 1) if len(rows) else rows > 0
        self.rows: Int = rows[fits]
        self.at: Int = at[fits]
        self.data = data
        head = gather(data, self.at, HEAD)

        def column(field: Field[Any], offset: int = 0) -> list[int]:
            values: list[int] = extract(head, field.bit + offset * 8, field.bits).tolist()
            return values

        self.frames: list[int] = (table.chunk.first + self.rows).tolist()
        self.times: list[int] = table.chunk.time_ns[self.rows].tolist()
        self.mgmt_class, self.method, self.status = column(MAD.mgmt_class), column(MAD.method), column(MAD.status)
        self.transaction, self.attribute = column(MAD.transaction_id), column(MAD.attribute_id)
        self.modifier = column(MAD.attribute_modifier)
        active = np.isin(head[:, 1], list(RMPP_CLASSES)) & (head[:, 26] & 1 == 1) & (head[:, 24] == 1)
        self.rmpp_type: list[int] = np.where(active, head[:, 25], 0).tolist()
        """0 where RMPP is not in use."""
        self.rmpp_flags = column(RMPP.rmpp_flags, 24)
        self.segment, self.data2 = column(RMPP.data1, 24), column(RMPP.data2, 24)
        self.source, self.destination = _addresses(table, self.rows)

    def __len__(self) -> int:
        return len(self.frames)

    def route(self, i: int) -> bytes | None:
        """What a directed-route request and its answer have in common: LIDs of both ends and InitialPath; None where it is cut off."""
        at = int(self.at[i])
        block = self.data[at : at + PATH_AT + PATH_SIZE].tobytes()
        if len(block) < PATH_AT + PATH_SIZE:
            return None
        hops = block[SMPDirected.hop_count.bit // 8]
        return block[32:36] + block[PATH_AT + 1 : PATH_AT + 1 + min(hops, PATH_SIZE - 1)]


def _addresses(table: ChunkTable, rows: Int) -> tuple[list[Address], list[Address]]:
    """Source and destination of each row; 0 where there is none."""
    loc, data = table.located, table.chunk.data
    source: list[Address] = [0] * len(rows)
    destination: list[Address] = [0] * len(rows)
    for name, near, far, size in (("ip4", 12, 16, 4), ("ip6", 8, 24, 16), ("grh", 8, 24, 16), ("lrh", 6, 2, 2)):
        if name not in loc.start or not len(rows):
            continue
        start = loc.start[name][rows]
        index = np.flatnonzero(start >= 0)
        if size == 2 and len(index) == len(rows):
            return u16(data, start + near).tolist(), u16(data, start + far).tolist()
        for offset, column in ((near, source), (far, destination)):
            values = _values(data, start[index] + offset, size)
            for i, value in zip(index.tolist(), values, strict=True):
                column[i] = value
    return source, destination


def _values(data: npt.NDArray[np.uint8], at: Int, size: int) -> list[Address]:
    if size == 2:
        found: list[Address] = u16(data, at).tolist()
        return found
    return gather(data, at, size).view(f"V{size}").ravel().tolist()
