"""`ibdissect stats`: statistics of captures, as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import click
from msgspec import Struct as Record

from ibdissect.capture.chunk import SetMember
from ibdissect.capture.file_names import Unit, files_of
from ibdissect.cli.common_options import CommonOptions, common_options, write_json
from ibdissect.cli.console import echo, progress_bar
from ibdissect.cli.each_capture import EachCapture, Outcome, engine_option, jobs_option
from ibdissect.cli.output import captures_argument, open_for, selection_of, set_option, source_of, units_of
from ibdissect.lint.set_members import members_object, place_text
from ibdissect.pipeline.check import Stop
from ibdissect.pipeline.ordered_pool import Stopped
from ibdissect.pipeline.reading import Progress
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import Paint, counted, printable, visible_json


@click.command()
@captures_argument
@set_option
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Length of the long lists.")
@jobs_option("Count in N captures at a time, in processes.")
@engine_option
@common_options
def command(
    captures: tuple[str, ...], as_set: bool, format_: str, top: int, jobs: int | None, engine: str | None, common: CommonOptions
) -> int:  # fmt: skip
    """Print statistics of a capture; `-` reads standard input. Several captures, folders or globs are counted one by one (JSON: a list).
    Exit status 2: a capture could not be read.

    -Y and --frames limit what is counted; response times, connections, streams and messages are followed in all frames. docs/numbers.md
    defines each number.
    """
    alone = jobs is None and engine is None
    if alone and not as_set:
        units = units_of(captures, False, quiet=common.quiet)
        alone = [*map(str, units)] == [*captures] and len(units) == 1
    if not alone:
        return _each(units_of(captures, as_set, quiet=common.quiet), format_, top, jobs, engine, common)
    capture = source_of(captures, as_set, quiet=common.quiet)
    with progress_bar(files_of(capture), quiet=common.quiet) as progress:
        outcome = _count(capture, common=common, top=top, progress=progress)
    counted = outcome.result
    assert counted is not None
    if format_ == "json":
        write_json(counted.object())
    else:
        echo("\n".join(lines(counted.result, common.paint(sys.stdout), counted.members)))
    common.tell_damage(outcome.name, outcome.damage)
    return 0


class CaptureStats(Record):
    name: str
    result: dict[str, Any]
    members: Sequence[SetMember]

    def object(self) -> dict[str, Any]:
        return {"schema": 1, "capture": self.name, **members_object(self.members), **self.result}


def _count(
    capture: Unit, *, common: CommonOptions, top: int, progress: Progress | None = None, stop: Stop | None = None
) -> Outcome[CaptureStats]:
    from ibdissect.diagnosis.diagnosis_for_rules import Stories
    from ibdissect.diagnosis.sums_for_stats import by_cause, by_hosts
    from ibdissect.traffic.statistics import Statistics

    with open_for(capture, common) as opened:
        selection = selection_of(opened, common)
        statistics = Statistics(opened.catalog)
        stories = Stories(statistics.streams.lanes)
        for table in opened.tables(keys=False, progress=progress):
            stories.feed(statistics.feed(table, selection.rows(table) if selection is not None else None))
            if stop is not None and stop():
                raise Stopped
    told = stories.diagnosis.connections if stories.diagnosis is not None else []
    result = statistics.result(top) | {"causes": by_cause(told), "times": by_hosts(told)[:top]}
    if (names := common.port_names) is not None:
        for entry in [*result["conversations"], *result["times"]]:
            entry |= {end: names.address(entry[end]) for end in ("source", "destination")}
    name = public_name(str(capture))
    found = CaptureStats(name, result, opened.reader.members)
    return Outcome(name, found, result["frames"], opened.damage, hidden=selection.hidden_checksums if selection is not None else 0)


def _each(units: Sequence[Unit], format_: str, top: int, jobs: int | None, engine: str | None, common: CommonOptions) -> int:
    each, paint, before = EachCapture(units, partial(_count, top=top), jobs, engine, common), common.paint(sys.stdout), ""
    for outcome in each:
        if (counted := outcome.result) is None:
            continue
        if format_ == "json":
            if before:
                echo(f"{before},")  # with the comma once it is known that more follows: a line that has not ended would be lost to the bar
            before = ("" if before else "[") + visible_json(json.dumps(counted.object(), ensure_ascii=False))
        else:
            echo("\n".join([paint(printable(counted.name), "path"), *lines(counted.result, paint, counted.members), ""]))
    if format_ == "json":
        echo(f"{before or '['}]")
    return each.status


TABLES = (
    ("Protocol hierarchy", "hierarchy", "=path|frames|frame bytes=bytes"),
    ("Management datagrams", "mads", "class=class_name|method|attribute=attribute_name|frames|frame bytes=bytes"),
    ("OpCodes", "opcodes", "=opcode|OpCode=name|frames|frame bytes=bytes"),
    ("Partitions", "p_keys", "P_Key=p_key|frames|frame bytes=bytes"),
    ("Source LIDs", "source_lids", "LID=lid|frames|frame bytes=bytes"),
    ("Destination LIDs", "destination_lids", "LID=lid|frames|frame bytes=bytes"),
    ("Destination QPs", "queue_pairs", "QP=dest_qp|frames|frame bytes=bytes"),
    ("Conversations", "conversations", "from=source|to=destination|frames|frame bytes=bytes"),
    ("Response times", "response_times", "class=class_name|method|attribute=attribute_name|answered|unanswered|retries"
     "|min=min_ns|median=p50_ns|90 %=p90_ns|95 %=p95_ns|99 %=p99_ns|max=max_ns|max from first try=first_max_ns"),
    ("", "connection_list", "frame|=service|active|QP=active_qpn|passive|QP=passive_qpn|MTU=mtu|retries allowed=retry_count"
     "|set up in=setup_ns|outcome|alternate path=alternate_path"),
    ("What became of connections", "causes", "verdict|cause|connections|of these no failure=no_failure|messages"
     "|payload bytes=payload_bytes|time lost=lost"),
    ("Where their time went", "times", "from=source|to=destination|connections|time=span_ns|transferring=transferring_ns|ACKs=ack_wait_ns"
     "|no buffers=rnr_wait_ns|losses=loss_recovery_ns|time-outs=timeout_ns|idle=idle_by_application_ns"),
    ("Datagram services (SIDR)", "datagram_services", "frame|from=source|to=destination|service=service_id|requests|QP=qpn|outcome"),
    ("Streams", "streams", "=stream|from=source|to=destination|QP=dest_qp|packets|payload bytes=payload|repeated=repetitions"
     "|in message=middle_restarts|READs=repeated_reads|missing=gone|late|NAK (code)=refused|RNR=rnr_naks|credits=least_credits"),
    ("Messages", "messages", "=service|from=source|to=destination|QP=dest_qp|messages=kinds|complete|message bytes=payload"
     "|rate=bits_per_second|median=p50_ns|90 %=p90_ns|95 %=p95_ns|99 %=p99_ns|retries|NAKs=naks|CNPs=cnps"),
    ("Multicast senders", "multicast", "from=source|QP=source_qp|group|P_Key=p_key|packets|payload bytes=payload_bytes|largest"
     "|MTU=group_mtu|rate=bits_per_second|group's=group_rate|disagrees"),
    ("Congestion and paths", "congestion", "from=source|to=destination|ECN CE=ce|FECN=fecn|BECN=becn|CNP=cnp|fragments"
     "|connected QPs=queue_pairs|source ports=source_ports"),
    ("Pause frames", "pauses", "from=source|priority|pauses|resumes|longest (quanta)=longest_quanta|first frame=first_frame"
     "|last frame=last_frame"),
)  # fmt: skip
"""Title and key of each list, and its columns: heading=key, or one word that is both."""


def lines(result: dict[str, Any], paint: Paint, members: Sequence[SetMember] = ()) -> Iterator[str]:
    """The result as text; `members`: the files of a set."""
    yield ", ".join(_headline(result))
    signs = ("ce", "fecn", "becn", "cnp", "fragments", "queue_pairs")
    lists = result | {f"{side}_lids": some for side, some in result["lids"].items()} | {
        "streams": [
            e | {
                "stream": f"{e['service']} {'responses' if e['responses'] else 'requests'}",
                "payload": _or_unknown(e["payload_bytes"], e["unknown_sizes"]),
                "repetitions": e["repeated_responses" if e["responses"] else "repeated"],
                "gone": e["missing_responses" if e["responses"] else "missing"],
                "refused": ", ".join(f"{n} ({code})" for code, n in e["nak_codes"].items()) or _or_unknown(0, e["unread_answers"]),
            }
            for e in result["streams"]
        ],
        "messages": [
            e | {"payload": _or_unknown(e["bytes"], e["unknown_sizes"]), **_percentiles(e)}
            | {name: _or_unknown(e[name], e["unread_answers"]) for name in ("naks", "complete")}
            for e in result["messages"]
        ],
        "causes": [
            e | {"messages": _or_unknown(e["messages"], e["unknown_messages"]),
                 "payload_bytes": _or_unknown(e["payload_bytes"], e["unknown_bytes"]),
                 "lost": _or_unknown(_time(e["lost_ns"]), e["unknown_times"])}
            for e in result["causes"]
        ],
        "response_times": [
            e | _percentiles(e) | {"first_max_ns": e.get("from_first_try", {}).get("max_ns")} for e in result["response_times"]
        ],
        "congestion": [
            e | {key: f"{'≥ ' if e[f'{key}_bound'] else ''}{e[key]}" for key in ("queue_pairs", "source_ports")}
            for e in result["congestion"] if any(map(e.__getitem__, signs))
        ],
    }  # fmt: skip
    texts: dict[str, Callable[[Any], Any]] = {**TEXTS, "frame": partial(place_text, members)}
    for title, key, columns in TABLES:
        if key == "connection_list" and result["connections"]["requested"]:
            yield ""
            yield paint("Connections", "path") + "  " + ", ".join(f"{count} {name}" for name, count in result["connections"].items())
        heads, keys = zip(*((head, name or head) for head, _, name in (one.partition("=") for one in columns.split("|"))), strict=True)
        rows = [tuple(texts[name](entry.get(name)) if name in texts else entry.get(name) for name in keys) for entry in lists[key]]
        yield from table_lines(title, rows, heads, paint)


def _headline(result: dict[str, Any]) -> Iterator[str]:
    """What the whole capture is."""
    yield counted(result["frames"], "frame")
    yield counted(result["bytes"], "byte") + (f" ({result['captured_bytes']} captured)" if result["cut_frames"] else "")
    yield f"{(result['last_ns'] - result['first_ns']) / 1e9:.3f} s"
    yield f"{result['malformed']} malformed"
    if result["copies"]:
        yield f"{counted(result['copies'], 'frame')} copied by a mirror, which only the counts of frames have"
    if result["set_back"]:
        yield f"{counted(result['set_back'], 'frame')} earlier than the one before, by up to {_time(result['set_back_ns'])}"


def _or_unknown(known: int | str | None, unknown: int) -> str:
    """A sum, and how many of its parts are not known."""
    return f"{known} + {unknown} unknown" if unknown else str(known)


def _percentiles(entry: dict[str, Any]) -> dict[str, str | None]:
    """The percentiles as text, with as many digits as are true."""
    names = [name for name in entry if name.startswith("p") and name.endswith("_ns")]
    if not entry.get("percentile_error"):
        return {name: _time(entry[name]) for name in names}
    return {name: f"≤ {float(f'{entry[name] / 1e6:.3g}'):g} ms" for name in names}


def _queue_pair(number: int | None) -> str | None:
    return None if number is None else f"0x{number:06x}"


def _time(ns: int | None) -> str | None:
    if ns is None:
        return None
    whole, rest = divmod(ns, 1_000_000)
    return f"{whole}.{f'{rest:06d}'.rstrip('0'):0<3} ms"


TEXTS: dict[str, Callable[[Any], str | None]] = {
    "path": lambda path: "  " * (len(path) - 1) + path[-1],
    "opcode": "0x{:02x}".format, "p_key": "0x{:04x}".format, "service_id": "0x{:016x}".format,
    **dict.fromkeys(("dest_qp", "source_qp", "active_qpn", "passive_qpn", "qpn"), _queue_pair),
    **dict.fromkeys(("min_ns", "max_ns", "first_max_ns", "setup_ns"), _time),
    **dict.fromkeys(
        ("lost_ns", "span_ns", "transferring_ns", "ack_wait_ns", "rnr_wait_ns", "loss_recovery_ns", "timeout_ns", "idle_by_application_ns"),
        _time,
    ),
    "bits_per_second": lambda rate: None if rate is None else f"{rate / 1e6:.3f} Mb/s",
    "kinds": lambda kinds: ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
    "group_rate": lambda rate: rate or None, "alternate_path": lambda path: path or "",
    "disagrees": lambda names: None if names is None else ", ".join(names) or "no",
}  # fmt: skip
"""The text of a value by its key; others are shown as they are, None as a dash."""


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
