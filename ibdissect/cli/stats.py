"""`ibdissect stats`: what does a capture contain?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import click
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.capture.chunk import Member
from ibdissect.capture.remote import shown as shown_name
from ibdissect.capture.sets import Unit, files_of
from ibdissect.cli.common import Common, common_options, progress_bar, write_json
from ibdissect.cli.engines import EachCapture, Outcome, engine_option, jobs_option
from ibdissect.cli.output import open_for, set_option, shown_of, source_of, units_of
from ibdissect.lint.set_members import members_object, place_text
from ibdissect.session.check import Stop
from ibdissect.session.reading import Progress
from ibdissect.session.spread import Stopped
from ibdissect.wire.text import Paint, counted, printable, visible_json


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE")
@set_option
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Length of the long lists.")
@jobs_option
@engine_option
@common_options
def command(
    captures: tuple[str, ...], as_set: bool, format_: str, top: int, jobs: int | None, engine: str | None, common: Common
) -> int:  # fmt: skip
    """Print statistics of a capture; `-` reads standard input. Of several captures, folders or globs with --jobs or --engine: of each in
    turn, in JSON as a list. Exit status 2: one could not be read.

    -Y and --frames limit what is counted, but response times, connections, streams and messages are followed in all frames.
    """
    if jobs is not None or engine is not None:
        return _each(units_of(captures, as_set), format_, top, jobs, engine, common)
    capture = source_of(captures, as_set)
    with progress_bar(files_of(capture), quiet=common.quiet) as progress:
        outcome = _counted(capture, common, top, progress=progress)
    counted = outcome.result
    assert counted is not None
    if format_ == "json":
        write_json(counted.object())
    else:
        click.echo("\n".join(lines(counted.result, common.paint(sys.stdout), counted.members)))
    common.tell_damage(outcome.name, outcome.damage)
    return 0


class Counted(Record):
    name: str
    result: dict[str, Any]
    members: Sequence[Member]

    def object(self) -> dict[str, Any]:
        return {"schema": 1, "capture": self.name, **members_object(self.members), **self.result}


def _counted(capture: Unit, common: Common, top: int, *, progress: Progress | None = None, stop: Stop | None = None) -> Outcome[Counted]:
    from ibdissect.flow.statistics import Statistics

    with open_for(capture, common) as opened:
        shown = shown_of(opened, common)
        statistics = Statistics(opened.catalog)
        for table in opened.tables(keys=False, progress=progress):
            statistics.feed(table, shown.rows(table) if shown is not None else None)
            if stop is not None and stop():
                raise Stopped
    result = statistics.result(top)
    if (names := common.port_names) is not None:
        for entry in result["conversations"]:
            entry |= {end: names.address(entry[end]) for end in ("source", "destination")}
    name = shown_name(str(capture))
    found = Counted(name, result, opened.reader.members)
    return Outcome(name, found, result["frames"], opened.damage, hidden=shown.hidden_checksums if shown is not None else 0)


def _each(units: Sequence[Unit], format_: str, top: int, jobs: int | None, engine: str | None, common: Common) -> int:
    quiet = replace(common, quiet=True, plugins=common.plugin_names)
    each, paint, mark = EachCapture(units, partial(_counted, common=quiet, top=top), jobs, engine, common), common.paint(sys.stdout), "["
    for outcome in each:
        if (counted := outcome.result) is None:
            continue
        if format_ == "json":
            click.echo(f"{mark}{visible_json(json.dumps(counted.object(), ensure_ascii=False))}", nl=False)
            mark = ",\n"
        else:
            click.echo("\n".join([paint(printable(counted.name), "path"), *lines(counted.result, paint, counted.members), ""]))
    if format_ == "json":
        click.echo("]" if mark != "[" else "[]")
    return each.status


def lines(result: dict[str, Any], paint: Paint, members: Sequence[Member] = ()) -> Iterator[str]:
    """The result as text; `members`: the files of a set."""
    seconds = (result["last_ns"] - result["first_ns"]) / 1e9
    yield f"{counted(result['frames'], 'frame')}, {counted(result['bytes'], 'byte')}, {seconds:.3f} s, {result['malformed']} malformed"
    yield from table_lines("Protocol hierarchy", [
        ("  " * (len(entry["path"]) - 1) + entry["path"][-1], *_size(entry)) for entry in result["hierarchy"]
    ], ("", "frames", "bytes"), paint)  # fmt: skip
    yield from table_lines("Management datagrams", [
        (e["class_name"], e["method"], e["attribute_name"], *_size(e)) for e in result["mads"]
    ], ("class", "method", "attribute", "frames", "bytes"), paint)  # fmt: skip
    yield from table_lines("OpCodes", [(f"0x{e['opcode']:02x}", e["name"], *_size(e)) for e in result["opcodes"]],
                     ("", "OpCode", "frames", "bytes"), paint)  # fmt: skip
    yield from table_lines(
        "Partitions", [(f"0x{e['p_key']:04x}", *_size(e)) for e in result["p_keys"]], ("P_Key", "frames", "bytes"), paint
    )
    for side, title in (("source", "Source LIDs"), ("destination", "Destination LIDs")):
        yield from table_lines(title, [(e["lid"], *_size(e)) for e in result["lids"][side]], ("LID", "frames", "bytes"), paint)
    yield from table_lines("Destination QPs", [(f"0x{e['dest_qp']:06x}", *_size(e)) for e in result["queue_pairs"]],
                     ("QP", "frames", "bytes"), paint)  # fmt: skip
    yield from table_lines("Conversations", [(e["source"], e["destination"], *_size(e)) for e in result["conversations"]],
                     ("from", "to", "frames", "bytes"), paint)  # fmt: skip
    yield from table_lines("Response times", [
        (e["class_name"], e["method"], e["attribute_name"], e["answered"], e["unanswered"],
         *(_time(e.get(name)) for name in ("min_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"))) for e in result["response_times"]
    ], ("class", "method", "attribute", "answered", "unanswered", "min", "median", "90 %", "99 %", "max"), paint)  # fmt: skip
    if result["connections"]["requested"]:
        yield ""
        yield paint("Connections", "path") + "  " + ", ".join(f"{count} {name}" for name, count in result["connections"].items())
    yield from table_lines("", [
        (place_text(members, e["frame"]), e["service"],
         e["active"], _queue_pair(e["active_qpn"]), e["passive"], _queue_pair(e["passive_qpn"]),
         e["mtu"], e["retry_count"], _time(e["setup_ns"]), e["outcome"], e["alternate_path"] or "")
        for e in result["connection_list"]
    ], ("frame", "", "active", "QP", "passive", "QP", "MTU", "retries", "set up in", "outcome", "alternate path"), paint)  # fmt: skip
    yield from table_lines("Datagram services (SIDR)", [
        (place_text(members, e["frame"]), e["source"],
         e["destination"], f"0x{e['service_id']:016x}", e["requests"], _queue_pair(e["qpn"]),
         e["outcome"]) for e in result["datagram_services"]
    ], ("frame", "from", "to", "service", "requests", "QP", "outcome"), paint)  # fmt: skip
    yield from table_lines("Streams", [
        (f"{e['service']} {'responses' if e['responses'] else 'requests'}", e["source"], e["destination"], _queue_pair(e["dest_qp"]),
         *(e[name] for name in _TROUBLE), _codes(e["nak_codes"]), e["rnr_naks"], e["least_credits"])
        for e in result["streams"]
    ], ("", "from", "to", "QP", "packets", "bytes", "repeated", "in message", "READs", "missing", "NAK (code)", "RNR", "credits"),
        paint)  # fmt: skip
    yield from table_lines("Messages", [
        (e["service"], e["source"], e["destination"], _queue_pair(e["dest_qp"]), ", ".join(f"{n} {kind}" for kind, n in e["kinds"].items()),
         *(e[name] for name in ("complete", "bytes")), _rate(e["bits_per_second"]),
         *(_time(e[name]) for name in ("p50_ns", "p95_ns", "p99_ns")), *(e[name] for name in ("retries", "naks", "cnps")))
        for e in result["messages"]
    ], ("", "from", "to", "QP", "messages", "complete", "bytes", "rate", "median", "95 %", "99 %", "sent again", "NAKs", "CNPs"),
        paint)  # fmt: skip
    yield from table_lines("Multicast senders", [
        (e["source"], _queue_pair(e["source_qp"]), e["group"], f"0x{e['p_key']:04x}", e["packets"], e["payload_bytes"],
         e["largest"], e["group_mtu"], _rate(e["bits_per_second"]), e["group_rate"] or "-",
         "-" if e["disagrees"] is None else ", ".join(e["disagrees"]) or "no") for e in result["multicast"]
    ], ("from", "QP", "group", "P_Key", "packets", "bytes", "largest", "MTU", "rate", "group's", "disagrees"), paint)  # fmt: skip
    marked = [e for e in result["congestion"] if any(e[name] for name in _MARKS) or e["queue_pairs"]]
    yield from table_lines("Congestion and paths", [
        (e["source"], e["destination"], *(e[name] for name in _MARKS), e["queue_pairs"], e["source_ports"]) for e in marked
    ], ("from", "to", "ECN CE", "FECN", "BECN", "CNP", "fragments", "QPs", "source ports"), paint)  # fmt: skip


_TROUBLE = ("packets", "payload_bytes", "repeated", "middle_restarts", "repeated_reads", "missing")
_MARKS = ("ce", "fecn", "becn", "cnp", "fragments")


def _queue_pair(number: int | None) -> str | None:
    return None if number is None else f"0x{number:06x}"


def _codes(naks: dict[str, int]) -> str:
    """`4 (0), 1 (2)`."""
    return ", ".join(f"{count} ({code})" for code, count in naks.items()) or "0"


def _rate(bits_per_second: int | None) -> str | None:
    return None if bits_per_second is None else f"{bits_per_second / 1e6:.3f} Mb/s"


def table_lines(title: str, rows: Iterable[tuple[str | int | None, ...]], heads: tuple[str, ...], paint: Paint) -> Iterator[str]:
    """A titled table with right-aligned numbers, and a dash for None; nothing if there are no rows."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    if not texts:
        return
    widths = [max(len(head), *(len(row[i]) for row in texts)) for i, head in enumerate(heads)]
    right = [all(_is_number(row[i]) for row in texts) for i in range(len(heads))]
    if title:
        yield ""
        yield paint(title, "path")
    for row, style in ((heads, "faint"), *((row, "") for row in texts)):
        cells = [cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(row, widths, right, strict=True)]
        text = "  " + "  ".join(cells).rstrip()
        yield paint(text, style) if style else text


def _is_number(text: str) -> bool:
    return text == "-" or text.removesuffix(" ms").replace(".", "", 1).isdecimal()


def _size(entry: dict[str, Any]) -> tuple[int, int]:
    return entry["frames"], entry["bytes"]


def _time(ns: int | None) -> str | None:
    return None if ns is None else f"{ns / 1e6:.3f} ms"
