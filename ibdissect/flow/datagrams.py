"""The management datagrams of a chunk as columns: what matching requests with answers needs of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.record import record
from ibdissect.table.addresses import address_text as bytes_text
from ibdissect.table.distinct import U64
from ibdissect.table.locate import Bool, Int, u16
from ibdissect.table.table import ChunkTable, extract, gather
from ibdissect.wire.mad import MAD, RMPP, RMPP_CLASSES
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.spec import Field

DIRECTED = 0x81
HEAD = 24 + RMPP.size
"""Bytes of every MAD that are read: common header and RMPP header."""
PATH_AT, PATH_SIZE = SMPDirected.initial_path.bit // 8, 64
LIDS_AT = SMPDirected.dr_slid.bit // 8
WORD, LID_SIZE = 8, 2
Address = int | bytes
"""A LID, or the bytes of a GID or IP address."""
PERMISSIVE = 0xFFFF


def address_text(address: Address) -> str:
    """As people write it."""
    if isinstance(address, int):
        return f"LID {address}"
    return bytes_text(address)


@record(eq=True, frozen=False)
class Ends:
    """Addresses as three columns of numbers."""

    size: npt.NDArray[np.uint8]
    """Bytes of the address: 2 a LID (0 where there is none), 4 IPv4, 16 a GID or IPv6."""
    high: U64
    """The first eight bytes of an address of 16."""
    low: U64
    """The rest of it, or all of it."""

    def take(self, index: Int) -> Ends:
        """The same of some entries."""
        return Ends(self.size[index], self.high[index], self.low[index])

    def behind(self, first: Ends) -> Ends:
        """The entries of `first`, then these."""
        join = np.concatenate
        return Ends(join([first.size, self.size]), join([first.high, self.high]), join([first.low, self.low]))

    def addresses(self) -> list[Address]:
        """As Python values."""
        found: list[Address] = self.low.tolist()
        for i in np.flatnonzero(self.size != LID_SIZE).tolist():
            whole = int(self.high[i]) << 64 | int(self.low[i])
            found[i] = whole.to_bytes(int(self.size[i]), "big")
        return found


class Datagrams:
    """Columns with one entry per MAD of base version 1, in frame order."""

    def __init__(self, table: ChunkTable) -> None:
        loc, data = table.located, table.chunk.data
        mad = loc.start.get("mad")
        rows = np.flatnonzero(mad >= 0) if mad is not None else np.empty(0, np.int64)
        at = mad[rows] if mad is not None else rows
        fits = (at + HEAD <= loc.payload_end[rows]) & (data[np.minimum(at, max(0, data.size - 1))] == 1) if len(rows) else rows > 0
        if not fits.all():
            rows, at = rows[fits], at[fits]
        self.rows: Int = rows
        head = gather(data, at, HEAD)

        def column(field: Field[Any], offset: int = 0) -> npt.NDArray[Any]:
            return extract(head, field.bit + offset * 8, field.bits)

        self.frames: Int = table.chunk.first + rows
        self.times: Int = table.chunk.time_ns[rows]
        self.mgmt_class, self.method, self.status = column(MAD.mgmt_class), column(MAD.method), column(MAD.status)
        self.transaction, self.attribute = column(MAD.transaction_id), column(MAD.attribute_id)
        self.modifier = column(MAD.attribute_modifier)
        of_class = np.zeros(256, np.bool_)
        of_class[list(RMPP_CLASSES)] = True
        active = of_class[self.mgmt_class] & (head[:, 26] & 1 == 1) & (head[:, 24] == 1)
        self.rmpp: Bool = active
        """RMPP is in use; not kept by `take` and `behind`."""
        self.rmpp_type: npt.NDArray[np.uint8] = np.where(active, head[:, 25], 0)
        """0 where RMPP is not in use."""
        self.rmpp_flags = column(RMPP.rmpp_flags, 24)
        self.segment, self.data2 = column(RMPP.data1, 24), column(RMPP.data2, 24)
        self.source, self.destination = _addresses(table, rows)
        self.directed = np.flatnonzero(self.mgmt_class == DIRECTED)
        """Indices of the directed-route ones; `lids` and `route` have an entry for each of these."""
        self.lids, self.route, self.routed = _routes(table, rows[self.directed], at[self.directed])

    def __len__(self) -> int:
        return len(self.frames)

    def take(self, index: Int) -> Datagrams:
        """Copies of some entries."""
        some: Datagrams = object.__new__(Datagrams)
        for name in _COLUMNS:
            setattr(some, name, getattr(self, name)[index])
        some.source, some.destination = self.source.take(index), self.destination.take(index)
        some.directed, place = self.among_directed(index)
        some.lids, some.route, some.routed = self.lids[place], self.route[place], self.routed[place]
        return some

    def behind(self, first: Datagrams) -> Datagrams:
        """The entries of `first`, then these; `rmpp` is not kept."""
        both: Datagrams = object.__new__(Datagrams)
        for name in _COLUMNS:
            setattr(both, name, np.concatenate([getattr(first, name), getattr(self, name)]))
        both.source, both.destination = self.source.behind(first.source), self.destination.behind(first.destination)
        both.directed = np.concatenate([first.directed, self.directed + len(first)])
        both.lids, both.routed = np.concatenate([first.lids, self.lids]), np.concatenate([first.routed, self.routed])
        parts = first.route, self.route
        both.route = np.zeros((len(both.directed), max(part.shape[1] for part in parts)), np.uint64)
        for part, start in zip(parts, (0, len(first.directed)), strict=True):
            both.route[start : start + len(part), : part.shape[1]] = part
        return both

    def among_directed(self, index: Int) -> tuple[Int, Int]:
        """Which of `index` are directed-route SMPs, and their places among those."""
        if not len(self.directed):
            return self.directed, self.directed
        place = np.minimum(np.searchsorted(self.directed, index), len(self.directed) - 1)
        here = np.flatnonzero(self.directed[place] == index)
        return here, place[here]

    def keys(self, back: Bool) -> list[U64]:
        """What a request and its answer have in common, as columns of numbers; `back`, bool[n], names those that go back.

        Class, transaction id, and the way there: requester and target, or the directed route. Columns of zeros may be left out.
        """
        near, far = self.source, self.destination
        columns = [
            self.mgmt_class.astype(np.uint64), self.transaction,
            np.where(back, far.low, near.low), np.where(back, near.low, far.low),
        ]  # fmt: skip
        wide = ((near.size != LID_SIZE) | (far.size != LID_SIZE)).any()
        if wide:
            sizes = near.size.astype(np.uint64) ^ np.uint64(LID_SIZE), far.size.astype(np.uint64) ^ np.uint64(LID_SIZE)
            columns[0] |= np.where(back, sizes[1], sizes[0]) << np.uint64(8) | np.where(back, sizes[0], sizes[1]) << np.uint64(16)
            columns += [np.where(back, far.high, near.high), np.where(back, near.high, far.high)]
        if len(self.directed):
            at: Any = slice(None) if len(self.directed) == len(self) else self.directed
            if wide:
                columns[0][at] = DIRECTED
                columns[4][at] = columns[5][at] = 0
            else:
                columns += [np.zeros(len(self), np.uint64)] * 2
            columns[2][at], columns[3][at] = self.lids, self.routed
            for words in self.route.T:
                column = np.zeros(len(self), np.uint64)
                column[at] = words
                columns.append(column)
        return columns


_COLUMNS = (
    "rows", "frames", "times", "mgmt_class", "method", "status", "transaction", "attribute", "modifier", "rmpp_type", "rmpp_flags",
    "segment", "data2",
)  # fmt: skip


class Listed:
    """Some datagrams as lists of Python values, for what goes by them one by one; with hashes of theirs where they matter."""

    def __init__(self, mads: Datagrams, index: Int, marks: U64 | None = None, askers: U64 | None = None) -> None:
        self.frames: list[int] = mads.frames[index].tolist()
        self.times: list[int] = mads.times[index].tolist()
        self.mgmt_class: list[int] = mads.mgmt_class[index].tolist()
        self.method: list[int] = mads.method[index].tolist()
        self.status: list[int] = mads.status[index].tolist()
        self.transaction: list[int] = mads.transaction[index].tolist()
        self.attribute: list[int] = mads.attribute[index].tolist()
        self.modifier: list[int] = mads.modifier[index].tolist()
        self.rmpp_type: list[int] = mads.rmpp_type[index].tolist()
        self.rmpp_flags: list[int] = mads.rmpp_flags[index].tolist()
        self.segment: list[int] = mads.segment[index].tolist()
        self.data2: list[int] = mads.data2[index].tolist()
        self.source, self.destination = mads.source.take(index).addresses(), mads.destination.take(index).addresses()
        self.marks: list[int] = marks[index].tolist() if marks is not None else [0] * len(index)
        """Hash of what a request and its answer have in common."""
        self.askers: list[int] = askers[index].tolist() if askers is not None else self.marks
        """Hash of class, transaction and requester."""
        self.routes: list[bytes | None] = [None] * len(index)
        """What a directed-route request and its answer have in common: LIDs of both ends and InitialPath; None where it is cut off."""
        here, place = mads.among_directed(index)
        here, place = here[mads.routed[place]], place[mads.routed[place]]
        size = mads.route.shape[1] * WORD
        raw = mads.route[place].astype(">u8").tobytes()
        for k, (i, lids) in enumerate(zip(here.tolist(), mads.lids[place].tolist(), strict=True)):
            start = k * size + 1
            self.routes[i] = lids.to_bytes(4, "big") + raw[start : start + raw[start - 1]]

    def __len__(self) -> int:
        return len(self.frames)


def _addresses(table: ChunkTable, rows: Int) -> tuple[Ends, Ends]:
    """Source and destination of each row; LID 0 where there is none."""
    loc, data = table.located, table.chunk.data
    near, far = (Ends(np.full(len(rows), LID_SIZE, np.uint8), *np.zeros((2, len(rows)), np.uint64)) for _ in range(2))
    for name, source, destination, size in (("ip4", 12, 16, 4), ("ip6", 8, 24, 16), ("grh", 8, 24, 16), ("lrh", 6, 2, 2)):
        if name not in loc.start or not len(rows):
            continue
        start = loc.start[name][rows]
        index = np.flatnonzero(start >= 0)
        start = start[index]
        for ends, at in ((near, start + source), (far, start + destination)):
            ends.size[index] = size
            if size == 16:
                words = gather(data, at, size).view(">u8")
                ends.high[index], ends.low[index] = words[:, 0], words[:, 1]
            else:
                ends.high[index] = 0
                ends.low[index] = u16(data, at) if size == LID_SIZE else gather(data, at, size).view(">u4").ravel()
    return near, far


def _routes(table: ChunkTable, rows: Int, at: Int) -> tuple[U64, U64, Bool]:
    """Of directed-route SMPs: both LIDs, the path behind its number of hops as uint64[n, words], and whether it is there.

    HopCount above 63 counts as 63.
    """
    data = table.chunk.data
    there = at + PATH_AT + PATH_SIZE <= table.located.payload_end[rows]
    n = len(rows)
    if not n:
        return np.zeros(0, np.uint64), np.zeros((0, 1), np.uint64), there
    start = np.where(there, at, 0)
    if data.size < PATH_AT + PATH_SIZE:  # too short for any
        return np.zeros(n, np.uint64), np.zeros((n, 1), np.uint64), there
    lids = gather(data, start + LIDS_AT, 4).view(">u4").ravel().astype(np.uint64)
    hops = np.minimum(data[start + SMPDirected.hop_count.bit // 8], PATH_SIZE - 1)
    hops[~there] = 0
    lids[~there] = 0
    size = (int(hops.max()) // WORD + 1) * WORD
    path = gather(data, start + PATH_AT, size)
    path *= np.arange(size, dtype=np.uint8)[None, :] <= hops[:, None]
    path[:, 0] = hops  # the first entry of the path is not used
    return lids, path.view(">u8").astype(np.uint64), there
