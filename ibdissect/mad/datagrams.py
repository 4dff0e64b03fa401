"""The management datagrams of a chunk as columns: addresses, requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.gather import flags, gather
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import ENDS, GID_SIZE, LID_SIZE, NETWORK, End, by_header, network_bytes
from ibdissect.decode.equal_rows import U64, Entry, mix, places_in
from ibdissect.decode.identity import AddressNumber, Mark, TransactionId
from ibdissect.decode.mads import WORD, DirectedRoutes, Mads
from ibdissect.decode.sending_order import in_time
from ibdissect.wire.headers import DETH, LRH
from ibdissect.wire.mad import MAD, RESPONSE_OF, RMPP, RMPP_CLASSES
from ibdissect.wire.numbers import CM_CLASS, DATA, DIRECTED, GSI_QP, LID_COUNT, RESPONSE_BIT, TRAP
from ibdissect.wire.sm import SMPDirected

ASKS: Bool = flags(method for method in RESPONSE_OF if method != TRAP)
"""Methods that require an answer, bool[256]."""
_OF_RMPP = flags(RMPP_CLASSES)


GIDS_AT = 40
"""Bit of the first column of keys from which on it says which GIDs there are."""
NETWORK_AT = 48
"""Bit of an address as a number from which on it says of which network it is."""


class AddressColumns(Record):
    """Addresses as columns of numbers."""

    size: npt.NDArray[np.uint8]
    """Bytes of the address: 2 for a LID (LID 0 if there is none), 4 for IPv4, 16 for a GID or IPv6."""
    high: U64
    """The first eight bytes of a 16-byte address."""
    low: U64
    """The last eight bytes, or the whole shorter address."""
    network: U64
    """The network of the address (`decode.networks`); 0 is the first."""
    gid: npt.NDArray[np.uint8] | None = None
    """GIDs to show instead of LIDs, uint8[n, 16], zeros for none; None if no LID has one."""

    def take(self, index: Int) -> AddressColumns:
        """Some of the entries."""
        gid = self.gid[index] if self.gid is not None else None
        return AddressColumns(self.size[index], self.high[index], self.low[index], self.network[index], gid)

    def preceded_by(self, first: AddressColumns) -> AddressColumns:
        """The entries of `first`, followed by these."""
        join, gids = np.concatenate, None
        if first.gid is not None or self.gid is not None:
            none = (np.zeros((len(ends.size), GID_SIZE), np.uint8) for ends in (first, self))
            gids = join([ends.gid if ends.gid is not None else zeros for ends, zeros in zip((first, self), none, strict=True)])
        size, high, low = join([first.size, self.size]), join([first.high, self.high]), join([first.low, self.low])
        return AddressColumns(size, high, low, join([first.network, self.network]), gids)

    def addresses(self) -> list[End]:
        """The addresses as Python values."""
        high, low = self.high.tolist(), self.low.tolist()
        found = [End((top << 64 | rest).to_bytes(size, "big")) for size, top, rest in zip(self.size.tolist(), high, low, strict=True)]
        for i in np.flatnonzero(self.network).tolist():
            found[i] = End(found[i] + network_bytes(int(self.network[i])))
        if self.gid is not None:
            for i in np.flatnonzero(self.gid.any(axis=1)).tolist():
                found[i].gid = self.gid[i].tobytes()
        return found


class Datagrams:
    """Columns with one entry per MAD of base version 1, in the order in which they were sent (`table.order`)."""

    def __init__(self, table: ChunkTable) -> None:
        mads = table.once(Mads)
        self.rows, self.at, self.frames, self.times = mads.rows, mads.at, mads.frames, mads.times
        self.mgmt_class, self.method, self.status = mads.mgmt_class, mads.method, mads.status
        self.transaction, self.attribute, self.modifier = mads.transaction, mads.attribute, mads.modifier
        active, version = mads.column(RMPP.active, MAD.size), mads.column(RMPP.rmpp_version, MAD.size)
        self.rmpp: Bool = _OF_RMPP[mads.mgmt_class] & (active == 1) & (version == 1)
        """RMPP is in use; it and `at`, the offset in the chunk's data, are not kept by `take` and `preceded_by`."""
        self.rmpp_type: npt.NDArray[np.uint8] = np.where(self.rmpp, mads.column(RMPP.rmpp_type, MAD.size), 0)
        """RMPPType; 0 if RMPP is not in use."""
        self.rmpp_flags = mads.column(RMPP.rmpp_flags, MAD.size)
        self.segment, self.data2 = mads.column(RMPP.data1, MAD.size), mads.column(RMPP.data2, MAD.size)
        self.answered_elsewhere: Bool = table.values_at(DETH.srcqp, mads.rows) > GSI_QP
        """Sent by another queue pair than 0 and 1, to which the answer goes: what goes there is not taken for a management datagram."""
        self.source, self.destination = _addresses(table, mads.rows)
        routes = table.once(DirectedRoutes)
        self.directed = routes.index
        """Indices of the directed-route SMPs; `lids`, `route` and `routed` have one entry per such SMP."""
        lids = mads.column(SMPDirected.dr_slid).astype(np.uint64) << np.uint64(16) | mads.column(SMPDirected.dr_dlid)
        self.lids: U64 = np.where(routes.complete, lids[self.directed], np.uint64(0))
        self.route: U64 = routes.paths.view(">u8").astype(np.uint64)
        self.routed: Bool = routes.complete
        order = in_time(self.times)
        if order is not None:
            at, rmpp = self.at[order], self.rmpp[order]
            vars(self).update(vars(self.take(order)), at=at, rmpp=rmpp)

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

    def preceded_by(self, first: Datagrams) -> Datagrams:
        """The entries of `first`, followed by these; `rmpp` is not kept."""
        both: Datagrams = object.__new__(Datagrams)
        for name in _COLUMNS:
            setattr(both, name, np.concatenate([getattr(first, name), getattr(self, name)]))
        both.source, both.destination = self.source.preceded_by(first.source), self.destination.preceded_by(first.destination)
        both.directed = np.concatenate([first.directed, self.directed + len(first)])
        both.lids, both.routed = np.concatenate([first.lids, self.lids]), np.concatenate([first.routed, self.routed])
        parts = first.route, self.route
        both.route = np.zeros((len(both.directed), max(part.shape[1] for part in parts)), np.uint64)
        for part, start in zip(parts, (0, len(first.directed)), strict=True):
            both.route[start : start + len(part), : part.shape[1]] = part
        return both

    def among_directed(self, index: Int) -> tuple[Int, Int]:
        """Positions in `index` of directed-route SMPs, and their positions in `directed`."""
        place = places_in(self.directed, index)
        here = np.flatnonzero(place >= 0)
        return here, place[here]

    def gids(self, back: Bool) -> U64:
        """Hash of the GIDs of requester and target in its highest bits, 0 without a GRH: virtual ports of an adapter share LIDs."""
        if self.source.gid is None or self.destination.gid is None:
            return np.zeros(len(self), np.uint64)
        one, other = (mix(list(ends.gid.view(np.uint64).T)) for ends in (self.source, self.destination) if ends.gid is not None)
        hashed: U64 = mix([np.where(back, other, one), np.where(back, one, other)]) >> np.uint64(GIDS_AT) << np.uint64(GIDS_AT)
        return hashed

    def keys(self, back: Bool) -> list[U64]:
        """Columns of numbers that are equal for a request and its answer; `back`, bool[n], marks answers.

        Class, network and GIDs, transaction id, and either requester and target or the directed route. Columns of zeros may be left out.
        """
        source, destination = self.source, self.destination
        columns = [
            self.mgmt_class.astype(np.uint64), self.transaction,
            np.where(back, destination.low, source.low), np.where(back, source.low, destination.low),
        ]  # fmt: skip
        if source.network.any():
            columns[0] |= source.network << np.uint64(24)
        columns[0] |= self.gids(back)
        wide = ((source.size != LID_SIZE) | (destination.size != LID_SIZE)).any()
        if wide:
            sizes = source.size.astype(np.uint64) ^ np.uint64(LID_SIZE), destination.size.astype(np.uint64) ^ np.uint64(LID_SIZE)
            columns[0] |= np.where(back, sizes[1], sizes[0]) << np.uint64(8) | np.where(back, sizes[0], sizes[1]) << np.uint64(16)
            columns += [np.where(back, destination.high, source.high), np.where(back, source.high, destination.high)]
        if len(self.directed):
            at: Any = slice(None) if len(self.directed) == len(self) else self.directed
            if wide:
                columns[0][at] = DIRECTED | source.network[at] << np.uint64(24)
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
    "segment", "data2", "answered_elsewhere",
)  # fmt: skip


class DatagramLists:
    """Selected datagrams as Python lists, for code that handles them one by one; with hashes if given."""

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
        self.marks: list[Mark] = marks[index].tolist() if marks is not None else [Mark(0)] * len(index)
        """Hash of `Datagrams.keys`, equal for a request and its answer."""
        self.askers: list[Mark] = askers[index].tolist() if askers is not None else self.marks
        """Hash of class, transaction and requester."""
        self.routes: list[bytes | None] = [None] * len(index)
        """For directed-route SMPs: both LIDs and InitialPath, equal for a request and its answer; None if cut off."""
        here, place = mads.among_directed(index)
        here, place = here[mads.routed[place]], place[mads.routed[place]]
        size = mads.route.shape[1] * WORD
        raw = mads.route[place].astype(">u8").tobytes()
        for k, (i, lids) in enumerate(zip(here.tolist(), mads.lids[place].tolist(), strict=True)):
            start = k * size + 1
            self.routes[i] = lids.to_bytes(4, "big") + raw[start : start + raw[start - 1]]

    def __len__(self) -> int:
        return len(self.frames)


def _addresses(table: ChunkTable, rows: Int) -> tuple[AddressColumns, AddressColumns]:
    """Sender and receiver of each row; LID 0 if there is none."""
    data, start = table.chunk.data, table.located.start
    network = table.networks[rows].astype(np.uint64) if table.networks is not None else np.zeros(len(rows), np.uint64)
    high, low = np.zeros((2, 2, len(rows)), np.uint64)
    source, destination = (AddressColumns(np.full(len(rows), LID_SIZE, np.uint8), high[i], low[i], network) for i in range(2))
    for header, index, at in by_header(table, rows, ENDS):
        for ends, lid, place in ((source, LRH.slid, at + header.source), (destination, LRH.dlid, at + header.destination)):
            ends.size[index] = header.size
            if header.size == LID_SIZE:
                ends.low[index] = table.values_at(lid, rows[index])
            elif header.size == GID_SIZE:
                words = gather(data, place, GID_SIZE).view(">u8")
                ends.high[index], ends.low[index] = words[:, 0], words[:, 1]
            else:
                ends.low[index] = gather(data, place, header.size).view(">u4").ravel()
    native = np.flatnonzero(start["lrh"][rows] >= 0) if "lrh" in start else rows[:0]
    for header, index, at in by_header(table, rows[native], NETWORK):
        for ends, place in ((source, at + header.source), (destination, at + header.destination)):
            if ends.gid is None:
                ends.gid = np.zeros((len(rows), GID_SIZE), np.uint8)
            ends.gid[native[index], : header.size] = gather(data, place, header.size)
    return source, destination


class Queries:
    """Requests and answers of a chunk as they were sent, as columns; without traps, connection management and RMPP acknowledgements.

    Get it with `table.once(Queries)`.
    """

    def __init__(self, table: ChunkTable) -> None:
        mads = table.once(Datagrams)
        answers = mads.method >= RESPONSE_BIT
        keep = np.flatnonzero((mads.mgmt_class != CM_CLASS) & (answers | ASKS[mads.method]) & ~(mads.rmpp & (mads.rmpp_type != DATA)))
        self.rows: Int = mads.rows[keep]
        self.at: Int = mads.at[keep]
        """Offset of each MAD in the chunk's data."""
        self.asks: Bool = ~answers[keep]
        """True for requests, False for answers."""
        self.mgmt_class, self.method, self.transaction = mads.mgmt_class[keep], mads.method[keep], mads.transaction[keep]
        self.attribute, self.modifier = mads.attribute[keep], mads.modifier[keep]
        self.source, self.destination = (_numbers(ends.take(keep)) for ends in (mads.source, mads.destination))
        """LID or IPv4 address, or a hash of GID or IPv6 address; each with its network."""
        self.gids: U64 = mads.gids(answers)[keep]
        """Hash of the GIDs of requester and target, 0 without a GRH."""
        self.place: Int = np.full(len(table), -1, np.int64)
        """Index of the query in each row of the chunk, -1 for none."""
        self.place[self.rows] = np.arange(len(self.rows))

    def each(self, wanted: Any) -> Iterator[Entry]:
        """Some of them, bool[n] or int64[k], one by one."""
        return (Entry(self, i) for i in np.arange(len(self.rows))[wanted].tolist())


def transaction_of(one: Entry) -> TransactionId:
    """The transaction of a query."""
    ends = AddressNumber(one.source), AddressNumber(one.destination)
    requester, responder = ends if one.asks else ends[::-1]
    return TransactionId(requester, responder, one.gids, one.transaction)


def number_text(number: int) -> str:
    """The text of an address in `Queries`; a hash has none."""
    address = number & (1 << NETWORK_AT) - 1
    return f"LID {address}" if address < LID_COUNT else "this address"


def number_of(end: End) -> AddressNumber:
    """The number of an address in `Queries`."""
    high, low = divmod(int.from_bytes(end.address, "big"), 1 << 64)
    size, network = np.array([len(end.address)], np.uint8), np.array([end.network], np.uint64)
    return AddressNumber(int(_numbers(AddressColumns(size, np.array([high], np.uint64), np.array([low], np.uint64), network))[0]))


def _numbers(ends: AddressColumns) -> U64:
    """One number per address: LID or IPv4 address, otherwise a hash; 0 if there is none. Its highest bits say of which network it is."""
    wide = np.flatnonzero(ends.size == 16)
    if not len(wide) and not ends.network.any():
        return ends.low
    numbers = ends.low.copy()
    numbers[wide] = mix([ends.high[wide], ends.low[wide]])
    numbers ^= ends.network << np.uint64(NETWORK_AT)
    return numbers
