"""What must hold of any bytes, room by room: one function for each target of guided fuzzing; what it raises is a fault."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ibdissect import Capture
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dfilter.complete import complete
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.printers import dotted, dump
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import outline
from ibdissect.errors import CaptureError, FilterError
from ibdissect.lint.finding import CaptureReport
from ibdissect.mad.rmpp_reassembly import Transfers, records
from ibdissect.pipeline.check import CheckOptions, check_reading
from ibdissect.pipeline.reading import Reading
from ibdissect.rules import load
from ibdissect.traffic.statistics import Statistics
from ibdissect.words import Rule

from . import agree
from .container import pcapng
from .items import cm_packets, packets, rmpp_packets
from .mutate import Packet
from .scrubbing import scrubbed_well
from .second import opposed
from .seeds import of_declarations

SMALL = 64
"""Bytes of a window so small that every record is a chunk of its own."""
LONGEST_FILTER = 400
BY_CHUNK = ("RC",)
"""Rules about streams: whether packets with a wrong ICRC count depends on whether all of a chunk have one."""


class Wrong(AssertionError):
    """Something that must hold does not."""


def reader(data: bytes) -> None:
    """A file is read or refused in words; the same frames in large and in small windows, and those that lint reads."""
    large, small = _frames(data), _frames(data, SMALL)
    if large != small:
        raise Wrong(f"{len(large[0])} frames ({large[1]}) in one window, {len(small[0])} ({small[1]}) in small ones")


def _frames(data: bytes, window: int = 1 << 25) -> tuple[list[tuple[object, ...]], str]:
    found: list[tuple[object, ...]] = []
    try:
        opened = open_capture(io.BytesIO(data), window=window)
    except CaptureError as refused:
        return found, str(refused)
    try:
        for chunk in opened.chunks():
            for row in range(len(chunk)):
                if chunk.first + row != len(found) + 1:
                    raise Wrong(f"frame {chunk.first + row} comes {len(found) + 1}th")
                about = (chunk.time_ns, chunk.link, chunk.length, chunk.interface, chunk.caplen)
                found.append((chunk.frame_bytes(row), *(int(array[row]) for array in about)))
        return found, "" if not opened.damage else opened.damage[0].kind
    except CaptureError as refused:
        return found, str(refused)
    finally:
        opened.close()


def locate(data: bytes) -> None:
    """Structures lie within their frames, and every field of them can be read."""
    for table in _tables(packets(data)):
        _none(agree.columns(table))


def walk(data: bytes) -> None:
    """Columns, trees and JSON lines say the same of every packet, and printing them is harmless."""
    for table in _tables(packets(data)):
        seen = agree.Seen()
        for _, tree in agree.trees(table, _views(), seen):
            for printed in (outline(tree), dump(tree), dotted(tree)):
                if not printed.replace("\n", "").isprintable():
                    raise Wrong("control characters in text")
        _none(seen.found)


def scapy(data: bytes) -> None:
    """Scapy's layers raise nothing, and see what the columns see."""
    for table in _tables(packets(data)):
        found, raised, _ = opposed(table)
        for _, error in raised:
            raise Wrong("a layer raised") from error
        _none(found)


def summary(data: bytes) -> None:
    """Info lines are of one line and harmless, whichever rows they are made for; statistics and transfers take any packet."""
    statistics, transfers = Statistics(), Transfers()
    for table in _tables(packets(data)):
        whole = summaries(table, np.arange(len(table)), Presenter())
        for row in range(len(table)):
            line = summaries(table, np.array([row]), Presenter())[0]
            if line != whole[row]:
                raise Wrong(f"row {row} reads {whole[row]} among others, {line} alone")
            if not "".join((line.source, line.destination, line.protocol, line.info)).isprintable():
                raise Wrong("control characters in a summary")
        statistics.feed(table, None)
        for transfer in transfers.feed(table).values():
            list(records(transfer, table.catalog))
    statistics.result(20)


def dfilter(data: bytes) -> None:
    """A filter is refused in words, or selects rows; the opposite selects the others; what the filter bar offers fits."""
    text = data.decode("utf-8", "replace")[:LONGEST_FILTER]
    catalog = _samples()[0].catalog
    for cursor in {0, len(text) // 2, len(text)}:
        for offered in complete(text, cursor, catalog):
            if not 0 <= offered.start <= cursor:
                raise Wrong(f"{offered} is offered at {cursor}")
    try:
        compiled = compile_filter(text, catalog)
    except FilterError as refused:
        if not str(refused):
            raise Wrong("refused without a word") from refused
        return
    try:
        opposite = compile_filter(f"!({text})", catalog) if text.strip() else None
    except FilterError:
        opposite = None  # what is too deep with one more pair of parentheses
    for table in _samples():
        rows = compiled.rows(table)
        if rows.shape != (len(table),) or rows.dtype != np.bool_:
            raise Wrong(f"{rows.shape} {rows.dtype} for {len(table)} rows")
        if opposite is not None and (opposite.rows(table) == rows).any():
            raise Wrong("a filter and its opposite select the same frame")


def rmpp(data: bytes) -> None:
    """Transfers, and the rules about them, say the same whether datagrams come in one chunk or one by one."""
    _transfers(rmpp_packets(data))
    _judged(rmpp_packets(data), ("RMP", "TRN", "SA", "MAD", "AT"))


def _transfers(some: Sequence[Packet]) -> None:
    transfers = Transfers()
    for table in _tables(some):
        for transfer in transfers.feed(table).values():
            for record in records(transfer, table.catalog):
                if sum(span.length for span in record.spans) > len(record.data):
                    raise Wrong("a record has more bytes in frames than it has")
    for transfer in transfers.unfinished():
        list(transfer.records())


def cm(data: bytes) -> None:
    """Connections and what they carry: the same verdicts in one chunk and one by one, and the same trees."""
    _judged(cm_packets(data), ("CM", "CON", "RC", "QK", "PK"))
    for table in _tables(cm_packets(data)):
        seen = agree.Seen()
        list(agree.trees(table, _views(), seen))
        _none(seen.found)


def lint(data: bytes) -> None:
    """All rules: nothing raised, findings within the capture, the same ones in one chunk and packet by packet."""
    _judged(packets(data), ("",))


def scrub(data: bytes) -> None:
    """A scrubbed capture reads back: as many frames of the same size, the same headers, no key of the original."""
    for what in scrubbed_well(pcapng(packets(data))):
        raise Wrong(what)


def tui(data: bytes) -> None:
    """Every line of the packet list, the tree and the bytes can be made, fits its width, and is harmless."""
    from .screenless import lines_of  # the screen's library takes long to load

    for what in lines_of(pcapng(packets(data))):
        raise Wrong(what)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "reader": reader, "locate": locate, "walk": walk, "scapy": scapy, "summary": summary, "filter": dfilter, "rmpp": rmpp, "cm": cm,
    "lint": lint, "scrub": scrub, "tui": tui,
}  # fmt: skip


def _tables(some: Sequence[Packet]) -> list[ChunkTable]:
    with Capture(io.BytesIO(pcapng(some)), show_keys=True) as capture:
        tables = [table for table in capture.tables() if len(table)]
    if sum(map(len, tables)) != len(some):
        raise Wrong(f"{sum(map(len, tables))} of {len(some)} packets read")
    return tables


def _none(found: Sequence[agree.Disagreement]) -> None:
    for one in found:
        raise Wrong(f"{one.what} {one.rows[:10]}")


def _judged(some: Sequence[Packet], families: tuple[str, ...]) -> None:
    """Lint a capture of the packets in one window, and in windows of a packet each."""
    blob, rules = pcapng(some), _rules(families)
    reports = []
    for window in (1 << 25, SMALL):
        opened = open_capture(io.BytesIO(blob), window=window)
        try:
            reports.append(check_reading(Reading(opened), CheckOptions(rules=rules, max_findings=None)))
        finally:
            opened.close()
        if reports[-1].status != "ok" or reports[-1].frames != len(some):
            raise Wrong(f"{reports[-1].frames} of {len(some)} frames checked: {reports[-1].status} {reports[-1].error}")
    whole, single = map(_said, reports)
    if "" in families:
        whole, single = ({one for one in said if not one[0].startswith(BY_CHUNK)} for said in (whole, single))
    if whole != single:
        raise Wrong(f"only in one chunk {sorted(whole - single)[:5]}, only packet by packet {sorted(single - whole)[:5]}")


def _said(report: CaptureReport) -> set[tuple[str, int, int, str]]:
    for finding in report.findings:
        if not finding.message.isprintable() or not finding.message or not 0 <= finding.frame <= report.frames:
            raise Wrong(f"{finding.code} of frame {finding.frame}: {finding.message!r}")
    return {(finding.code, finding.frame, finding.count, finding.message) for finding in report.findings}


@cache
def _rules(families: tuple[str, ...]) -> list[type[Rule]]:
    return [rule for rule in load() if rule.code.startswith(families)]


@cache
def _views() -> agree.Views:
    return agree.Views()


@cache
def _samples() -> tuple[ChunkTable, ...]:
    """One packet of every declaration, to be asked by filters."""
    return tuple(_tables([(seed.link, seed.data, len(seed.data)) for seed in of_declarations()[::3]]))
