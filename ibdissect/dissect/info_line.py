"""The one-line summary of each frame: source, destination, protocol, info. For many rows at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import gather, u16
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import LINKS, SHOWN, address_text, by_header
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import by_value, groups
from ibdissect.decode.locate import EXTENDED_SIZE, EXTENDED_STRUCTS
from ibdissect.decode.payload_sizes import payload_sizes
from ibdissect.engine.offsets import MALFORMED
from ibdissect.wire.headers import AETH, AETH_KINDS, BTH, DETH, FLOW_CONTROL_OPS, NAK_CODES, RETH, XRCETH, FlowControl, ImmDt
from ibdissect.wire.numbers import rnr_timer_text
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.ulp.ipoib import PROTOCOLS, IPoIB

from . import info_line_mad, info_line_other, info_line_plugin
from .shown_value import Presenter


class FrameSummary(Record, frozen=True):
    """One line of a packet list."""

    source: str
    destination: str
    protocol: str
    info: str


class Summaries(Record):
    """The lines of several rows, column by column."""

    source: list[str]
    destination: list[str]
    protocol: list[str]
    info: list[str]

    def __len__(self) -> int:
        return len(self.info)

    def __getitem__(self, i: int) -> FrameSummary:
        return FrameSummary(self.source[i], self.destination[i], self.protocol[i], self.info[i])

    def __iter__(self) -> Iterator[FrameSummary]:
        return map(FrameSummary, self.source, self.destination, self.protocol, self.info)


def summaries(table: ChunkTable, rows: Int, presenter: Presenter | None = None) -> Summaries:
    """The lines of the given rows of a chunk."""
    n = len(rows)
    lines = Summaries([""] * n, [""] * n, [""] * n, [""] * n)
    if n:
        _addresses(table, rows, lines)
        located = table.located
        position = np.arange(n)
        mad, bth = located.at("mad")[rows] >= 0, located.at("bth")[rows] >= 0
        info_line_mad.fill(table, rows[mad], position[mad].tolist(), lines.protocol, lines.info, presenter or Presenter())
        _transport(table, rows[bth & ~mad], position[bth & ~mad], lines)
        link = (located.at("link")[rows] >= 0) & ~bth
        _flow_control(table, rows[link], position[link].tolist(), lines)
        other = ~(bth | link)
        info_line_other.fill(table, rows[other], position[other].tolist(), lines.protocol, lines.info)
        if info_line_plugin.with_summary(table.catalog):
            order = np.argsort(rows, kind="stable")
            columns = [[column[i] for i in order] for column in (lines.protocol, lines.info)]
            info_line_plugin.fill(table, rows[order], columns[0], columns[1], presenter or Presenter())
            for i, protocol, info in zip(order.tolist(), *columns, strict=True):
                lines.protocol[i], lines.info[i] = protocol, info
        wrong = located.malformed[rows]
        for i in np.flatnonzero(wrong).tolist():
            lines.info[i] = f"{lines.info[i]} [Malformed: {MALFORMED[wrong[i]]}]".lstrip()
    return lines


def distinct_addresses(table: ChunkTable, side: int) -> Iterator[tuple[list[str], Int, Int]]:
    """The addresses in the lines of all rows, each text made once: some texts, rows that show one of them, and which one each row shows.

    `side`: 0 for sources, 1 for destinations. Rows without an address are left out.
    """
    every = np.arange(len(table))
    for header, index, at in by_header(table, every, (*SHOWN, *LINKS)):
        offset = (header.source, header.destination)[side]
        if offset >= 0:
            values = gather(table.chunk.data, at + offset, header.size)
            first, which = groups(list(values.view(np.uint16).T))  # all addresses have an even number of bytes
            yield [address_text(value.tobytes()) for value in values[first]], every[index], which


def _addresses(table: ChunkTable, rows: Int, lines: Summaries) -> None:
    for header, index, at in by_header(table, rows, (*SHOWN, *LINKS)):
        for offset, column in ((header.source, lines.source), (header.destination, lines.destination)):
            if offset < 0:
                continue
            values = gather(table.chunk.data, at + offset, header.size).view(f"V{header.size}").ravel().tolist()
            known = {value: address_text(value) for value in set(values)}
            if isinstance(index, slice):
                column[:] = map(known.__getitem__, values)
            else:
                for i, value in zip(index.tolist(), values, strict=True):
                    column[i] = known[value]


def _by_opcode(table: ChunkTable, rows: Int) -> Iterator[tuple[int, bool, Int]]:
    """Rows of transport packets by OpCode: the OpCode, whether its extended headers fit, and which of the rows, ascending."""
    if not len(rows):
        return
    opcodes = table.located.opcode[rows].astype(np.int64)
    # Extended headers that do not fit are not read: such rows form their own group.
    short = table.located.at("bth")[rows] + BTH.size + EXTENDED_SIZE[opcodes] > table.located.limit[rows]
    for group, chosen in by_value(opcodes | (short.astype(np.int64) << 8)):
        yield group & 0xFF, group < 0x100, chosen


def _transport(table: ChunkTable, rows: Int, position: Int, lines: Summaries) -> None:
    """Summaries of transport packets except MADs, OpCode by OpCode."""
    located, data = table.located, table.chunk.data
    for code, whole, chosen in _by_opcode(table, rows):
        some = rows[chosen]
        bth = located.at("bth")[some]
        length = payload_sizes(table, some)
        protocol, infos = _infos(table, code, bth, length, whole=whole)
        ecn = data[bth + 4] >> 6
        places = position[chosen].tolist()
        for place, info in zip(places, infos, strict=True):
            lines.protocol[place], lines.info[place] = protocol, info
        if code in _SEND_ONLY:
            _ipoib(table, some, places, lines)
        for i in np.flatnonzero(ecn).tolist():
            lines.info[places[i]] += (" FECN" if ecn[i] & 2 else "") + (" BECN" if ecn[i] & 1 else "")


def opcode_lines(table: ChunkTable, rows: Int) -> Iterator[tuple[Int, str, str, Int]]:
    """Transport packets whose lines begin alike: their rows, protocol, info as far as the queue pair, and `QP << 24 | PSN` of each.

    Messages that may be IPoIB packets are left out.
    """
    data = table.chunk.data
    for code, whole, chosen in _by_opcode(table, rows):
        some = rows[chosen]
        if code in _SEND_ONLY:
            some = np.delete(some, _likely_ipoib(table, some))
        bth = table.located.at("bth")[some]
        order = value_at(data, bth, BTH.destqp).astype(np.int64) << 24 | value_at(data, bth, BTH.psn)
        opcode = OPCODES.get(code)
        if opcode is not None and opcode.operation == "Acknowledge" and whole:
            for syndrome, index in by_value(data[bth + BTH.size]):
                yield some[index], opcode.service, f"{_syndrome(syndrome)} QP ", order[index]
        elif len(some):
            protocol, (info, *_) = _infos(table, code, bth[:1], payload_sizes(table, some[:1]), whole=whole)
            yield some, protocol, info.partition("0x")[0] if opcode is not None else f"OpCode 0x{code:02x} QP ", order


_SEND_ONLY = frozenset({0x04, 0x24, 0x64})
"""SEND Only of RC and UC (IPoIB connected mode, RFC 4755) and of UD (RFC 4391)."""


def _likely_ipoib(table: ChunkTable, rows: Int) -> Int:
    """Which messages begin as IPoIB packets do."""
    data, payload, stop = table.chunk.data, table.located.at("payload")[rows], table.located.payload_end[rows]
    likely = np.flatnonzero((payload >= 0) & (stop - payload >= 24))
    if not likely.size:
        return likely
    is_type = np.isin(u16(data, payload[likely]), list(PROTOCOLS))
    found: Int = likely[is_type & (value_at(data, payload[likely], IPoIB.reserved) == 0)]
    return found


def _ipoib(table: ChunkTable, rows: Int, places: list[int], lines: Summaries) -> None:
    """Summarise messages that are IPoIB packets as such."""
    data, payload, stop = table.chunk.data, table.located.at("payload")[rows], table.located.payload_end[rows]
    for i in _likely_ipoib(table, rows).tolist():
        inner = info_line_other.ipoib(data[payload[i] : stop[i]].tobytes())
        if inner is not None:
            place = places[i]
            lines.info[place] = f"{inner} ({lines.protocol[place]} {lines.info[place]})"
            lines.protocol[place] = "IPoIB"


def _infos(table: ChunkTable, code: int, bth: Int, length: Int, *, whole: bool) -> tuple[str, list[str]]:
    """The protocol and infos of rows with the same OpCode; `whole`: the extended headers fit."""
    data = table.chunk.data
    qp, psn = value_at(data, bth, BTH.destqp).tolist(), value_at(data, bth, BTH.psn).tolist()
    opcode = OPCODES.get(code)
    if opcode is None:
        return "BTH", [f"OpCode 0x{code:02x} QP 0x{q:06x} PSN {p}" for q, p in zip(qp, psn, strict=True)]
    if opcode.service == "CNP":
        return "CNP", [f"Congestion Notification QP 0x{q:06x}" for q in qp]
    base = [f"{opcode.operation} QP 0x{q:06x} PSN {p}" for q, p in zip(qp, psn, strict=True)]
    at, more = bth + BTH.size, [""] * len(base)
    if whole:
        for name in opcode.headers:
            if name == "AETH":
                base = _acknowledge(table, at, opcode.operation, qp, psn, base)
            else:
                more = [a + b for a, b in zip(more, _extended(table, name, at), strict=True)]
            at = at + _SIZES[name]
    if opcode.payload:
        more = [f"{a} len {n if n >= 0 else '?'}" for a, n in zip(more, length.tolist(), strict=True)]
    return opcode.service, [a + b for a, b in zip(base, more, strict=True)]


_SIZES = {name: struct.size for struct, name in EXTENDED_STRUCTS.items()}


def _acknowledge(table: ChunkTable, at: Int, operation: str, qp: list[int], psn: list[int], base: list[str]) -> list[str]:
    """`ACK`, `NAK` with its reason, `RNR NAK` with its time; a response keeps its name, followed by its MSN and any NAK."""
    syndrome = table.chunk.data[at].tolist()
    names = {value: _syndrome(value) for value in set(syndrome)}
    msn = value_at(table.chunk.data, at, AETH.msn).tolist()
    if operation != "Acknowledge":
        return [f"{b} MSN {m}" + ("" if names[s] == "ACK" else f" {names[s]}") for b, s, m in zip(base, syndrome, msn, strict=True)]
    return [f"{names[s]} QP 0x{q:06x} PSN {p} MSN {m}" for s, q, p, m in zip(syndrome, qp, psn, msn, strict=True)]


def _syndrome(value: int) -> str:
    kind, code = value >> 5 & 3, value & 31
    if kind == 1:
        return f"RNR NAK {rnr_timer_text(code)}"
    if kind == 3:
        return f"NAK {NAK_CODES.get(code, f'reserved code {code}')}"
    return AETH_KINDS[kind] if kind == 0 else f"AETH syndrome 0x{value:02x}"


def _extended(table: ChunkTable, name: str, at: Int) -> list[str]:
    """What an extended header adds to the info."""
    data = table.chunk.data
    if name == "DETH":
        return [f" from QP 0x{q:06x}" for q in value_at(data, at, DETH.srcqp).tolist()]
    if name in ("RETH", "AtomicETH"):
        address = gather(data, at, 8).view(">u8").ravel().tolist()
        if name == "AtomicETH":
            return [f" VA 0x{va:x}" for va in address]
        size = value_at(data, at, RETH.dmalen).tolist()
        return [f" VA 0x{va:x} DMA len {n}" for va, n in zip(address, size, strict=True)]
    if name == "ImmDt":
        return [f" imm 0x{value:08x}" for value in value_at(data, at, ImmDt.immdt).tolist()]
    if name == "XRCETH":
        return [f" SRQ 0x{q:06x}" for q in value_at(data, at, XRCETH.xrcsrq).tolist()]
    return [""] * len(at)


def _flow_control(table: ChunkTable, rows: Int, position: list[int], lines: Summaries) -> None:
    at = table.located.at("link")[rows]
    fields = (FlowControl.op, FlowControl.vl, FlowControl.fctbs, FlowControl.fccl)
    for place, op, vl, fctbs, fccl in zip(position, *(value_at(table.chunk.data, at, field).tolist() for field in fields), strict=True):
        lines.protocol[place] = "Link"
        lines.info[place] = f"Flow control {FLOW_CONTROL_OPS.get(op, f'operand {op}')} VL {vl} FCTBS {fctbs} FCCL {fccl}"
