"""Copies of an earlier frame, as from a port that is mirrored twice."""

from __future__ import annotations

import numpy as np
from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk
from ibdissect.engine.datagram_copies import CE as CE  # also for `points`, which does not know the engine
from ibdissect.engine.datagram_copies import WHOLE, DatagramCopies
from ibdissect.engine.equal_frames import APART, NUMBERED_NS, SHORTEST, near
from ibdissect.engine.equal_frames import AT_MOST_NS as AT_MOST_NS
from ibdissect.engine.in_and_out_copies import PassingPackets
from ibdissect.engine.opcode_parts import IS_RESPONSE
from ibdissect.engine.seen_before import IPv4Senders
from ibdissect.wire.headers import ICRC
from ibdissect.wire.opcodes import ACKNOWLEDGE, OPERATION

from .chunk_table import ChunkTable
from .ecn_marks_of_copies import remarked
from .equal_rows import is_in
from .locate import Int
from .routed_copies import MAX_RECENT as MAX_PACKETS
from .routed_copies import Routed, columns_of, numbers

SURELY_NS = 1000
"""Nobody sends a packet again within 1 us; copies of a mirror come up to AT_MOST_NS apart."""
SHARE = 32
"""Of ACKs (responders acknowledge two equal requests at once), and between 1 and 3 us of answers and of what is no packet, frames are
copies only if so far one of so many was repeated: a mirror repeats many. What its sender numbered is one in any case."""
MAX_RECENT = 4096
"""A datagram is compared with so many before it; copies of others count as packets."""


Found = tuple[Int, ...]
"""Rows, how many frames and nanoseconds before the equal one was, bytes that are equal, and (of packets) marks that it did not have."""
_NO_ROWS: Int = np.empty(0, np.int64)


class CopyRows(Record, frozen=True):
    """The copies of a chunk, in frame order; arrays of equal length."""

    rows: Int
    behind: Int
    """How many frames a copy comes after the nearest frame that is equal."""
    later_ns: Int
    """Time from that frame to the copy."""
    size: Int
    """Bytes that are equal: of the frame or the packet in a tunnel, or from its IP header on; of routed packets from the BTH on."""
    marks: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Marks of congestion that the packet did not have in that frame."""
    routed: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows among these that a router forwarded in between."""


class Copies:
    """Recognises the copies of a capture. Feed chunks in order."""

    def __init__(self) -> None:
        self.frames = self.repeated = 0
        self.datagrams = DatagramCopies(MAX_RECENT)
        self.routed, self.passing = Routed(), PassingPackets(MAX_PACKETS)
        self.tail: list[tuple[int, int, bytes, int, int]] = []
        """Time, number and bytes of the last frames of the chunks before, where what copies have in common begins in them, and how many
        bytes the frame had from there on."""

    def leave_out(self, table: ChunkTable) -> CopyRows:
        """The copies of a chunk. Their headers are removed from the table, so that nobody takes them for packets."""
        found = self.find(table)
        if len(found.rows):
            table.remarked = remarked(table, found.rows, found.marks)
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
        found = joined(self._real(table, chunk, begin), self._datagrams(table))
        routed = self.routed.again(table)
        return joined(joined(found, routed, routed[0]), self._passing(table))

    def _datagrams(self, table: ChunkTable) -> Found:
        """The management datagrams that hold the bytes of an earlier one, sent between the same ports."""
        if "mad" not in table.located.start:
            return numbers([], 5)
        columns = columns_of(table, "lrh", "mad") | {"end": table.located.payload_end}
        rows, behind, later, marks = numbers(self.datagrams.feed(table.chunk.first, table.chunk.data, columns), 4)
        return rows, behind, later, np.minimum(columns["end"] - columns["bth"], WHOLE)[rows], marks

    def _passing(self, table: ChunkTable) -> Found:
        """The packets that a mirror shows on their way out of a switch, too."""
        if "bth" not in table.located.start or self.passing.over:
            return numbers([], 5)
        columns = columns_of(table, "mad", "icrc")
        columns["interface"] = np.ascontiguousarray(table.chunk.interface, np.int64)
        columns["end"] = np.where(columns["icrc"] >= 0, columns["icrc"] + ICRC.size, table.located.limit)
        rows, behind, later, marks = numbers(self.passing.feed(table.chunk.first, table.chunk.data, columns), 4)
        return rows, behind, later, (columns["end"] - columns["bth"])[rows], marks

    def _real(self, table: ChunkTable, chunk: Chunk, begin: Int) -> CopyRows:
        """Which repeated frames are copies. Acknowledgements, and what follows after more than 1 us, count only if the capture has many.

        Frames that were cut off before the end of their BTH are equal although their PSNs are not.
        """
        loc, numbered = table.located, _numbers(table)
        wire = table.chunk.length - (begin - table.chunk.offset)
        rows, behind, later, size = self._repeated(chunk, begin, wire, numbered)
        packet = loc.at("bth")[rows] >= 0
        known = (table.chunk.caplen[rows] == table.chunk.length[rows]) | packet
        rows, behind, later, size, packet = rows[known], behind[known], later[known], size[known], packet[known]
        share = (self.repeated + np.arange(1, len(rows) + 1)) * SHARE >= self.frames + rows + 1
        code = loc.opcode[rows]
        acknowledged, answers = packet & (code & OPERATION == ACKNOWLEDGE), np.frombuffer(IS_RESPONSE, np.bool_)[code]
        good = ((later <= SURELY_NS) & ~acknowledged) | (packet & ~answers & (later <= AT_MOST_NS)) | (np.abs(numbered[rows]) > 1) | share
        self.frames, self.repeated = self.frames + len(chunk), self.repeated + len(rows)
        first = max(0, len(chunk) - APART)
        last = [(int(chunk.time_ns[row]), int(numbered[row]), *_frame(chunk, begin, wire, row)) for row in range(first, len(chunk))]
        self.tail = (self.tail + last)[-APART:]
        good = np.flatnonzero(good)
        return CopyRows(rows[good], behind[good], later[good], size[good], np.zeros(len(good), np.int64))

    def _repeated(self, chunk: Chunk, begin: Int, wire: Int, numbered: Int) -> Found:
        """Rows that repeat a frame of shortly before, how many frames and nanoseconds before, and how many bytes are equal."""
        times = chunk.time_ns
        found = near(chunk.data, times, *map(np.ascontiguousarray, (chunk.offset, chunk.caplen, begin, wire, numbered)))
        pairs = {row: (behind, later, equal) for row, behind, later, equal in found}
        for row in range(min(APART, len(chunk))):
            number, since = int(numbered[row]), numbered[:row]
            closed = number in (0, -1) or bool((since < 0).any() or (since == number).any())
            for behind in range(row + 1, min(APART, row + len(self.tail)) + 1):
                time_ns, other, data, first, length = self.tail[row - behind]
                later_ns = abs(int(times[row]) - time_ns)
                near_by = later_ns <= AT_MOST_NS or (number == other and not closed and later_ns <= NUMBERED_NS)
                if row not in pairs and near_by and (equal := _equal(*_frame(chunk, begin, wire, row), data, first, length)) >= SHORTEST:
                    pairs[row] = behind, later_ns, equal
                closed = closed or number == other or other < 0
        return numbers([(row, *pairs[row]) for row in sorted(pairs)], 4)


def _numbers(table: ChunkTable) -> Int:
    """Of packets whose sender numbers them in their IPv4 header who that is, the number, and where it was captured, else 0; negative of
    NAKs, -1 without one."""
    loc = table.located
    found = np.zeros(len(table), np.int64)
    if "bth" not in loc.start or "ip4" not in loc.start:
        return found
    columns = {"bth": loc.at("bth"), "ip4": loc.at("ip4"), "limit": loc.limit, "taps": table.chunk.interface}
    IPv4Senders(table.chunk.data).numbers({name: np.ascontiguousarray(column) for name, column in columns.items()}, found)
    return found


def joined(found: CopyRows, more: Found, routed: Int = _NO_ROWS) -> CopyRows:
    """With further copies; `routed`: which of them a router forwarded."""
    new = ~is_in(more[0], found.rows)
    if not new.any():
        return found
    before = found.rows, found.behind, found.later_ns, found.size, found.marks
    columns = [np.append(one, other[new]) for one, other in zip(before, more, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    rows, behind, later, size, marks = (column[order] for column in columns)
    return CopyRows(rows, behind, later, size, marks, routed[new] if len(routed) else found.routed)


def _frame(chunk: Chunk, begin: Int, wire: Int, row: int) -> tuple[bytes, int, int]:
    """The bytes of a frame, where what copies have in common begins in them, and how many bytes the frame had from there on."""
    return chunk.frame_bytes(row), int(begin[row] - chunk.offset[row]), int(wire[row])


def _equal(one: bytes, start: int, wire: int, other: bytes, begin: int, length: int) -> int:
    """How many bytes two frames have in common: all, or those from `start` and `begin` on as far as both were captured; 0 if those differ,
    or the frames did not have equally many."""
    if one == other:
        return len(one)
    mine, theirs = one[start:], other[begin:]
    size = min(len(mine), len(theirs))
    same = mine[:size] == theirs[:size] and (len(mine) == len(theirs) or wire == length)
    return size if same else 0
