"""ERF headers: wrong lengths, losses, interfaces, record types."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.lint.rule import ERROR, INFERRED, INFO, SEEN, Context, Hit, Moment, Rule, Seen, each, fault, on_chunk
from ibdissect.wire.encapsulation import ERF, ERF_INFINIBAND, ERF_INFINIBAND_LINK, ERF_TYPES

INFINIBAND = (ERF_INFINIBAND, ERF_INFINIBAND_LINK)
LAST_PUBLIC = 31
"""Types up to here that have no name yet are reserved for future ones."""
BURST, BURST_NS = 4096, 4_000_000
"""ibdump's buffer in packets (2^12 unless set by --max-burst), and a time in which its process may not run: one tick at 250 Hz."""


class ErfRecordLength(Rule):
    """The length in an ERF header is impossible.

    A record holds its header of 16 bytes, extension headers and at most the frame, padded to 8 bytes. Another length comes from a faulty
    tool, and other readers will misread what follows.

    Suspect the tool that wrote the capture; compare the same traffic captured with another one.

    One ERF header is enough.
    """

    code, name, severity = "CAP002", "erf-rlen-odd", INFO
    reference = "Endace ERF; ibdump writes wlen + 16"
    at = ERF.record_length
    message = "ERF record length {record_length} does not fit a frame of {wire_length} bytes"
    example = "an ERF header with record length 5"

    @on_chunk
    def lengths(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """ERF headers whose rlen is below 16, or leaves more room than the frame with padding can fill."""
        found = table.occurrences(ERF)
        rlen = table.values(ERF.record_length)
        most = table.chunk.offset.take(found.rows)
        most -= found.at  # header, extension headers, sub-header
        most += table.values(ERF.wire_length)
        most += 7
        for _, seen, view in each(table, ERF, (rlen < 16) | (rlen > most)):
            arguments = {"record_length": view.record_length, "wire_length": view.wire_length}
            # The header precedes the frame's first byte, so no byte of the frame can be marked.
            yield fault(Moment(seen.frame, seen.time_ns), arguments, ERF.record_length, view.record_length)


class BurstMayDrop(Rule):
    """More packets arrived in one burst than ibdump buffers.

    ibdump keeps 4096 packets between card and disk unless told otherwise, and does not report losses. After such a burst, the capture
    itself may have caused gaps in sequence numbers and missing answers.

    Capture with a larger buffer (`ibdump --max-burst 16` and more), to a RAM disk, or with a filter on the port.

    4096 packets within 4 ms in a file as ibdump writes it: ERF records without padding and with loss counter 0.
    """

    code, name, severity = "CAP003", "ibdump-drop-risk", INFO
    about_capture = True
    reference = "ibdump README, known issues"
    message = "more than 4096 packets within 4 ms: ibdump may have lost some without saying so"
    example = "5000 packets with the same time in an ERF capture"

    def __init__(self) -> None:
        self.recent = np.empty(0, np.int64)

    @on_chunk
    def bursts(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        """One finding a capture; only ERF records as ibdump writes them (loss counter 0, length without padding)."""
        chunk = table.chunk
        if not len(chunk) or not len(table.occurrences(ERF)):
            return
        rlen, wlen = table.values(ERF.record_length), table.values(ERF.wire_length)
        if not (rlen.astype(np.int64) == wlen.astype(np.int64) + 16).all() or table.values(ERF.loss_counter).any():
            return
        times = np.concatenate([self.recent, chunk.time_ns])
        carried = len(self.recent)
        self.recent = times[-BURST:]
        span = times[BURST:] - times[:-BURST]
        full = np.flatnonzero((span >= 0) & (span < BURST_NS))
        if not full.size:
            return
        starts = int(np.count_nonzero(np.diff(full) > 1)) + 1
        row = max(0, int(full[0]) + BURST - carried)
        yield fault(Seen(table, row), {}, evidence=INFERRED, count=starts, key="burst")


class ErfLoss(Rule):
    """The capture card counted packets that it could not deliver.

    Packets are missing before this one. The capture, not the fabric, may have caused gaps and unanswered requests near it.

    Treat findings about missing packets around this frame with care; capture again to a faster disk.
    """

    code, name, severity = "CAP004", "erf-packets-lost", INFO
    about_capture = True
    reference = "Endace ERF: lctr; ibdump always writes 0"
    when = (ERF.loss_counter != 0) & ERF.type.isin(INFINIBAND)
    message = "the capture card lost {loss_counter:packet} before this one"
    example = "an ERF header with loss counter 3"


class TwoInterfaces(Rule):
    """The file holds packets of two capture interfaces.

    The capture shows both directions of a link, or two links. Card ports delay packets differently: an answer may precede its request, and
    a packet may appear twice.

    Filter by interface where order matters.

    Two records with different interface numbers.
    """

    code, name, severity = "CAP006", "interfaces-mixed", INFO
    about_capture = True
    reference = "Endace ERF: capture-interface bits"
    message = "from here on packets of capture interface {interface} are mixed with those of interface {other}"
    example = "two ERF records, of interface 0 and interface 1"

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None
        self.done = False

    @on_chunk
    def second_interface(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        """One finding a capture, at the first packet of a second interface."""
        if self.done:
            return
        chunk = table.chunk
        rows = np.flatnonzero(chunk.pseudo >= 0)
        if not rows.size:
            return
        interfaces = chunk.interface[rows]
        if self.first is None:
            self.first = int(interfaces[0]), chunk.first + int(rows[0])
        known, frame = self.first
        other = np.flatnonzero(interfaces != known)
        if other.size:
            self.done = True
            row = int(rows[other[0]])
            yield fault(
                Seen(table, row), {"interface": int(chunk.interface[row]), "other": known},
                proof=[(frame, f"first packet of interface {known}")], evidence=SEEN,
            )  # fmt: skip


class ErfType(Rule):
    """An InfiniBand capture contains ERF records of a type that Endace does not have.

    Such records cannot be read: they are damaged, or a tool wrote the wrong type. Their packets are missing from the analysis.

    Look at the bytes of the record; if they start with a Local Route Header, correct the type to 21.

    One such record, in a file with ERF records of InfiniBand. A card may record anything else beside it: types that Endace's list has are
    not reported, and those that it reserves for the future (26, 30, 31) are an `info`.
    """

    code, name, severity = "CAP010", "erf-type-unknown", ERROR
    about_capture = alike = True
    reference = "Endace ERF types; ibdump.h ERF_TYPE_INFINIBAND"
    message = "ERF record type {type} in a capture of InfiniBand (21)"
    example = "a record of type 99 between records of type 21"

    def __init__(self) -> None:
        self.infiniband = False

    @on_chunk
    def gather(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        """The first record of each unexpected type; whether the file holds InfiniBand is known at the end."""
        types = table.values(ERF.type)
        number = np.bincount(types, minlength=128)
        self.infiniband = self.infiniband or bool(number[list(INFINIBAND)].any())
        number[list(ERF_TYPES)] = 0
        chunk, rows = table.chunk, table.occurrences(ERF).rows
        for kind in np.flatnonzero(number).tolist():
            mine = rows[types == kind]
            where, severity = Moment(chunk.first + int(mine[0]), int(chunk.time_ns[mine[0]])), INFO if kind <= LAST_PUBLIC else None
            yield fault(where, {"type": kind}, ERF.type, kind, key=kind, severity=severity, frames=mine + chunk.first)

    def stands(self, hit: Hit, context: Context) -> bool:
        return self.infiniband
