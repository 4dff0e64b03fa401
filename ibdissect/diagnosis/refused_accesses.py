"""Memory accesses of refused requests: address, operation and R_Key. Keys are secrets: who tells of one masks it."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import ChunkTable
from ibdissect.decode.identity import Frame
from ibdissect.wire.headers import AETH, BTH, RETH, AtomicETH
from ibdissect.wire.opcodes import COMPARE_SWAP, FETCH_ADD, OPERATION, READ_REQUEST
from ibdissect.wire.text import counted

ACCESS_ERROR = 0x62
"""The syndrome of a NAK remote access error."""
OPERATIONS = {READ_REQUEST: "READ", COMPARE_SWAP: "CmpSwap", FETCH_ADD: "FetchAdd"}
ATOMIC = 8
"""Bytes that an atomic operation reads and writes."""
KEPT_REQUESTS = 1 << 16
"""Requests that are remembered until they are answered: the newest."""


class Access(Record, frozen=True):
    """The memory that a request names."""

    address: int
    length: int
    r_key: int
    operation: str = "WRITE"
    """WRITE, READ or an atomic."""

    @property
    def said(self) -> str:
        """In words."""
        return f"{counted(self.length, 'byte', ',')} at 0x{self.address:016x}"


class Accesses:
    """Feed windows in order, each after the lanes had it."""

    def __init__(self) -> None:
        self._found: dict[Frame, Access] = {}
        self._newest: deque[tuple[Any, ...]] = deque()
        """Frames, addresses, lengths, R_Keys and operations of the newest requests, a window each."""
        self._kept = 0

    def feed(self, table: ChunkTable, lanes: Any) -> None:
        """The next window. Any: `Lanes`, compiled or not."""
        for header in (RETH, AtomicETH):
            if len(table.occurrences(header)):
                va, key, opcode = (table.column(field) for field in (header.va, header.r_key, BTH.opcode))
                sizes = table.column(RETH.dmalen).values if header is RETH else np.full(len(va.rows), ATOMIC, np.int64)
                what = opcode.values[np.searchsorted(opcode.rows, va.rows)] & OPERATION
                self._newest.append((va.rows + table.chunk.first, va.values, sizes, key.values, what))
                self._kept += len(va.rows)
        while len(self._newest) > 1 and self._kept - len(self._newest[0][0]) >= KEPT_REQUESTS:
            self._kept -= len(self._newest.popleft()[0])
        if (table.column(AETH.syndrome).values == ACCESS_ERROR).any():
            self._learn(lanes)

    def _learn(self, lanes: Any) -> None:
        """What the refused requests so far want, those that are still remembered."""
        halves = {id(half): half for lane in lanes.lanes.values() for half in (lane.requests, lane.answers) if half is not None}
        for half in halves.values():
            frame = int(half.fatal_request)
            if frame and frame not in self._found and (access := self._look(frame)) is not None:
                self._found[frame] = access

    def _look(self, frame: int) -> Access | None:
        for frames, addresses, sizes, keys, what in reversed(self._newest):
            at = int(np.searchsorted(frames, frame))
            if at < len(frames) and frames[at] == frame:
                return Access(int(addresses[at]), int(sizes[at]), int(keys[at]), OPERATIONS.get(int(what[at]), "WRITE"))
        return None

    def of(self, frame: int) -> Access | None:
        """What the request in a frame wants to access; None: it names no memory, was not refused, or is forgotten."""
        return self._found.get(frame) or self._look(frame)
