"""Which frames are copies of an earlier frame, as from a port that is mirrored twice?"""

from __future__ import annotations

import numpy as np
from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.scattered import gather
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.mad import BASE_VERSION_IB
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION

from .addresses import GID_SIZE, SHOWN, by_header
from .locate import Bool, Int
from .routed import Routed
from .rows import U64, digest, digest_at, is_in, mix
from .sa_tables import MAD_SIZE
from .table import ChunkTable

SURELY_NS, AT_MOST_NS = 1000, 3000
"""Nobody sends a packet again within 1 us. Copies of a mirror come up to 3 us apart, and so do a few real repetitions."""
SHARE = 32
"""Of ACKs (responders acknowledge two equal requests at once), and between 1 and 3 us, frames are copies only if so far one of so many
frames was repeated: a mirror repeats many."""
APART = 8
"""A copy comes at most this many frames after its original."""
SHORTEST = 16
"""Shorter frames may be equal by chance."""
DATAGRAMS_SURELY_NS, DATAGRAMS_NS = 500_000, 5_000_000
"""Nobody repeats a management datagram within half a millisecond: the shortest timers are a hundred times as long. Two mirrors saw it,
or on both sides of a router."""
USUAL = 4
"""Up to DATAGRAMS_NS, equal datagrams are copies if at least so many came before, and one of so many datagrams was repeated so far."""
MOST = 8
"""More equal datagrams than an original and so many copies come from a sender in a loop."""
MAX_RECENT = 4096
"""A datagram is compared with so many before it; copies of others count as packets."""
_WHOLE, _WORD = BTH.size + DETH.size + MAD_SIZE[BASE_VERSION_IB], 4
"""Bytes of a management datagram from its BTH on; routers change nothing in them."""


class CopyRows(Record, frozen=True):
    """The copies of a chunk, in frame order; arrays of equal length."""

    rows: Int
    behind: Int
    """How many frames a copy comes after the nearest frame that is equal."""
    later_ns: Int
    """Time from that frame to the copy."""
    size: Int
    """Bytes that are equal: of the frame or the packet in a tunnel, or from its IP header on; of routed packets from the BTH on."""
    routed: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows among these that a router forwarded in between."""


class Copies:
    """Recognises the copies of a capture. Feed chunks in order."""

    def __init__(self) -> None:
        self.frames = self.repeated = 0
        self.datagrams = self.datagrams_repeated = 0
        self.recent = np.zeros((4, 0), np.int64)
        """The last management datagrams: hash, frame, time, and how many equal ones came shortly before each."""
        self.routed = Routed()
        self.tail: list[tuple[int, bytes, int]] = []
        """Time and bytes of the last frames of the chunks before, and where what copies have in common begins in them."""

    def leave_out(self, table: ChunkTable) -> CopyRows:
        """The copies of a chunk. Their headers are removed from the table, so that nobody takes them for packets."""
        found = self.find(table)
        if len(found.rows):
            table.leave_out(found.rows)
        return found

    def find(self, table: ChunkTable) -> CopyRows:
        """The copies of a chunk; call it or `leave_out` once for each."""
        chunk, start = table.chunk, table.located.start
        inner = start.get("inner")
        if inner is not None:  # the copies of a mirrored packet differ in the tunnel's headers, which number them
            first = np.maximum(inner, chunk.offset)
            chunk = replace(chunk, offset=first, caplen=chunk.offset + chunk.caplen - first)
        # Others differ below IP: `tcpdump -i any` records a packet with its VLAN tag and without it.
        begin = np.maximum.reduce([chunk.offset, *(start[name] for name in ("ip4", "ip6") if name in start)])
        return joined(self._with_datagrams(table, self._real(table, chunk, begin)), self.routed.again(table))

    def _with_datagrams(self, table: ChunkTable, near: CopyRows) -> CopyRows:
        """With the management datagrams that hold the bytes of an earlier one, sent between the same ports."""
        loc, mad = table.located, table.located.start.get("mad")
        if mad is None:
            return near
        at = loc.at("bth")
        rows = np.flatnonzero((mad - at == _WHOLE - MAD_SIZE[BASE_VERSION_IB]) & (loc.payload_end - at >= _WHOLE) & (at >= 0))
        if not len(rows):
            return near
        marks = mix([digest_at(table.chunk.data, at[rows] + _WORD, _WHOLE - _WORD), _ways(table, rows), *_first_word(table, at[rows])])
        now = np.stack([marks.view(np.int64), rows + table.chunk.first, table.chunk.time_ns[rows], np.zeros_like(rows)])
        known = self.recent.shape[1]
        every = np.concatenate([self.recent, now], axis=1)
        order = np.argsort(every[0], kind="stable")
        mark, frame, time_ns, rank = every[:, order]
        later = np.abs(np.diff(time_ns, prepend=0))  # than the equal one before
        equal = np.zeros(len(order), np.bool_)
        equal[1:] = (mark[1:] == mark[:-1]) & (later[1:] <= DATAGRAMS_NS) & (np.diff(order) <= MAX_RECENT)
        index = np.arange(len(order))
        first = np.maximum.accumulate(np.where(equal, 0, index))
        every[3, order] = rank = index - first + rank[first]
        self.recent = every[:, -MAX_RECENT:]
        mine = np.flatnonzero(equal & (rank <= MOST) & (order >= known))
        mine = mine[np.argsort(order[mine])]
        repeated = self.datagrams_repeated + np.arange(len(mine))
        usual = (repeated >= USUAL) & ((repeated + 1) * USUAL >= self.datagrams + order[mine] - known + 1)
        self.datagrams, self.datagrams_repeated = self.datagrams + len(rows), self.datagrams_repeated + len(mine)
        mine = mine[usual | (later[mine] <= DATAGRAMS_SURELY_NS)]
        mine = mine[~is_in(frame[mine] - table.chunk.first, near.rows)]
        if not len(mine):
            return near
        more = frame[mine] - table.chunk.first, frame[mine] - frame[mine - 1], later[mine]
        columns = [np.append(one, other) for one, other in zip((near.rows, near.behind, near.later_ns), more, strict=True)]
        columns.append(np.append(near.size, np.full(len(mine), _WHOLE)))
        again = np.argsort(columns[0], kind="stable")
        return CopyRows(*(column[again] for column in columns))

    def _real(self, table: ChunkTable, chunk: Chunk, begin: Int) -> CopyRows:
        """Which repeated frames are copies. Acknowledgements, and what follows after more than 1 us, count only if the capture has many.

        Frames that were cut off before the end of their BTH are equal although their PSNs are not.
        """
        rows, behind, later, size = self._repeated(chunk, begin)
        known = (table.chunk.caplen[rows] == table.chunk.length[rows]) | (table.located.at("bth")[rows] >= 0)
        rows, behind, later, size = rows[known], behind[known], later[known], size[known]
        share = (self.repeated + np.arange(1, len(rows) + 1)) * SHARE >= self.frames + rows + 1
        acknowledged = (table.located.at("bth")[rows] >= 0) & (table.located.opcode[rows] & OPERATION == ACKNOWLEDGE)
        good = ((later <= SURELY_NS) & ~acknowledged) | share
        self.frames, self.repeated = self.frames + len(chunk), self.repeated + len(rows)
        first = max(0, len(chunk) - APART)
        last = [(int(chunk.time_ns[row]), *_frame(chunk, begin, row)) for row in range(first, len(chunk))]
        self.tail = (self.tail + last)[-APART:]
        return CopyRows(rows[good], behind[good], later[good], size[good])

    def _repeated(self, chunk: Chunk, begin: Int) -> tuple[Int, Int, Int, Int]:
        """Rows that repeat a frame of the last 3 us, how many frames and nanoseconds before, and how many bytes are equal."""
        times, end = chunk.time_ns, chunk.offset + chunk.caplen
        size = end - begin
        pairs: dict[int, tuple[int, int, int]] = {}
        rising = bool((times[1:] >= times[:-1]).all())
        for behind in range(1, min(APART, len(chunk) - 1) + 1):
            later = np.abs(times[behind:] - times[:-behind])  # the clock of a second mirror may be a little behind
            near: Bool = later <= AT_MOST_NS
            if rising and not near.any():
                break  # frames that are farther apart are not nearer in time
            near &= (size[behind:] == size[:-behind]) & (size[behind:] >= SHORTEST)
            rows = near.nonzero()[0] + behind
            if not len(rows):
                continue
            # The last bytes hold a CRC or payload: nearly all pairs differ there already.
            for back in range(1, 5):
                rows = rows[chunk.data[end[rows] - back] == chunk.data[end[rows - behind] - back]]
            for row in rows.tolist():
                if row not in pairs and (equal := _equal(*_frame(chunk, begin, row), *_frame(chunk, begin, row - behind))):
                    pairs[row] = behind, int(later[row - behind]), equal
        for row in range(min(APART, len(chunk))):
            for behind in range(row + 1, min(APART, row + len(self.tail)) + 1):
                time_ns, data, first = self.tail[row - behind]
                later_ns = abs(int(times[row]) - time_ns)
                if row not in pairs and later_ns <= AT_MOST_NS and (equal := _equal(*_frame(chunk, begin, row), data, first)) >= SHORTEST:
                    pairs[row] = behind, later_ns, equal
        found = np.array([(row, *pairs[row]) for row in sorted(pairs)], np.int64).reshape(-1, 4)
        return found[:, 0], found[:, 1], found[:, 2], found[:, 3]


def joined(found: CopyRows, more: tuple[Int, Int, Int, Int]) -> CopyRows:
    """With further copies: rows, how many frames and nanoseconds later, and bytes that are equal."""
    new = ~is_in(more[0], found.rows)
    if not new.any():
        return found
    columns = [np.append(one, other[new]) for one, other in zip((found.rows, found.behind, found.later_ns, found.size), more, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return CopyRows(columns[0][order], columns[1][order], columns[2][order], columns[3][order], more[0][new])


def _ways(table: ChunkTable, rows: Int) -> U64:
    """A hash of who sends to whom: of the addresses that a router keeps, otherwise of the LIDs."""
    found = np.zeros(len(rows), np.uint64)
    for header, index, at in by_header(table, rows, SHOWN):
        raw = np.zeros((len(at), 2 * GID_SIZE), np.uint8)
        for place, offset in enumerate((header.source, header.destination)):
            raw[:, place * GID_SIZE : place * GID_SIZE + header.size] = gather(table.chunk.data, at + offset, header.size)
        found[index] = digest(raw)
    return found


def _first_word(table: ChunkTable, at: Int) -> tuple[U64]:
    """The first word of each BTH: OpCode and P_Key."""
    return (gather(table.chunk.data, at, _WORD).view(">u4")[:, 0].astype(np.uint64),)


def _frame(chunk: Chunk, begin: Int, row: int) -> tuple[bytes, int]:
    """The bytes of a frame, and where what copies have in common begins in them."""
    return chunk.frame_bytes(row), int(begin[row] - chunk.offset[row])


def _equal(one: bytes, start: int, other: bytes, begin: int) -> int:
    """How many bytes two frames have in common: all, or those from `start` and `begin` on; 0 if those differ."""
    if one == other:
        return len(one)
    return len(one) - start if one[start:] == other[begin:] else 0
