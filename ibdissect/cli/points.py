"""`ibdissect points`: packets matched between several captures of the same traffic, and where they were lost or delayed."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import click

from ibdissect import report as formats
from ibdissect.cli.common_options import CommonOptions, common_options, refuse, without
from ibdissect.cli.console import echo
from ibdissect.cli.effective_options import check_options, checked_selection, followed, ignore_option, say_followed
from ibdissect.cli.lint import RANKS, exit_status
from ibdissect.cli.output import ending_of, refuse_captures, write_text
from ibdissect.cli.report_targets import Target, write_report
from ibdissect.cli.stats import table_lines
from ibdissect.errors import ConfigError
from ibdissect.lint.finding import CaptureReport
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.report import concise_and_full
from ibdissect.report.json import finding_object
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import Paint, counted, plain, printable, visible_json

if TYPE_CHECKING:
    from ibdissect.points.comparison import Comparison
    from ibdissect.screen_model.capture_model import CaptureModel

LATENCIES = ("min", "p50", "p90", "p95", "p99", "max")
SHOWN = 10
"""Most conversations that the text lists."""
ONE_CAPTURE = {"reason": "is not for several capture points yet", "hint": "lint each capture with it"}
WHOLE = {"reason": "packets are matched in whole captures", "hint": "cut the captures first"}


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE CAPTURE...")
@click.option("--format", "format_", type=click.Choice(tuple(formats.FORMATS)), default="text", show_default=True)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report to FILE instead of standard output."
)
@click.option("--select", "selected", multiple=True, metavar="CODES", help="Only these rules of the family PTS.")
@ignore_option
@click.option("--fail-on", type=click.Choice(tuple(RANKS)), help="Exit 1 at this severity or worse.  [error]")
@click.option("--packets", is_flag=True, help="List every packet with its frames, too (JSON only).")
@click.option(
    "--write", "target", metavar="FILE", help="Write all frames to a pcapng: one timeline, an interface per point, verdicts as comments."
)
@without("roce_ports", **ONE_CAPTURE)
@without("frames", **WHOLE)
@common_options
def command(
    captures: tuple[str, ...], format_: str, output: str | None, selected: tuple[str, ...], ignored: tuple[str, ...], fail_on: str | None,
    packets: bool, target: str | None, common: CommonOptions,
) -> int:  # fmt: skip
    """Match the packets of several capture points, align their clocks, and report loss, delay, reordering and change between them.

    Packets are matched in whole captures; -Y limits the findings to frames that match.

    A point is named after its file, up to the first dot; times are those of the first point's clock. Exit status 0: no finding at or above
    --fail-on (a proved loss is an error); 1: findings; 2: a capture could not be read, or shares no packet with the others.
    docs/numbers.md defines each number.
    """
    if format_ != "json":
        refuse("packets", reason="is a list for programs", hint="use --format json")
    refuse_captures(captures, output=output)
    if target is not None:
        ending_of(target, (".pcapng", ".ntar"), "--write")
    from ibdissect.points.result import packets as every_packet
    from ibdissect.points.result import result

    options = check_options(common, selected=selected, ignored=ignored, points=True)
    comparison = compared(captures, common, filtered=True)
    if target is not None:
        _write(comparison, target, captures, common)
    outcome = result(comparison)
    reports = _judged(comparison, options, common)
    outcome["findings"] = [finding_object(finding) for report in reports for finding in report.findings]
    whose = followed(common, fail_on=fail_on, select=True, baseline=True)  # the last two do not apply
    fail_on = fail_on or common.settings.fail_on or "error"
    if whose is not None:
        outcome["configuration"] = whose.object()
    run = formats.Run(rules=tuple(options.rules), fail_rank=RANKS[fail_on], configuration=whose)
    if format_ == "text":
        paint = common.paint(sys.stdout) if output is None else plain
        parts: Iterable[str] = [
            "".join(f"{line}\n" for line in [*lines(outcome, paint), ""]),
            *(concise_and_full.full_capture(one, run, paint) for one in reports),
            concise_and_full.full_summary(reports, run),
        ]
    elif format_ == "json":
        parts = _json(outcome, every_packet(comparison) if packets else None)
    else:
        write_report(Target(format_, output), reports, run, None)
        parts = ()
    if output is None:
        for part in parts:
            echo(part, nl=False)
    elif format_ in ("text", "json"):
        write_text("".join(parts), output)
    say_followed(whose, common, format_ not in formats.WITHOUT_CONFIGURATION)
    return exit_status(reports, fail_on)


def compared(captures: Sequence[str], common: CommonOptions, *, filtered: bool = False) -> Comparison:
    """The packets of several captures, matched. `filtered`: the command knows what to do with -Y. ConfigError."""
    from ibdissect.points.comparison import Comparison

    refuse("roce_ports", **ONE_CAPTURE)
    refuse("frames", *(() if filtered else ("filter",)), **WHOLE)
    if len(captures) < 2:
        raise ConfigError("CAPTURE", captures[0], "there is nothing to compare it with", hint="name two captures or more")
    for i, path in enumerate(captures):
        if public_name(path) != path:
            reason = "has a password or a query, which would be shown with the results"
            raise ConfigError("CAPTURE", public_name(path), reason, hint="let the library of that store find its credentials")
        if os.path.realpath(path) in map(os.path.realpath, captures[:i]):
            reason = "is named twice: nothing is lost between a file and itself"
            raise ConfigError("CAPTURE", path, reason, hint="name the file of another point")
    comparison = Comparison(captures)
    for point in comparison.points:
        common.tell_damage(point.path, point.damage)
    return comparison


class MergedCapture:
    """The merged capture of several points, in a temporary file, for the screen."""

    def __init__(self, captures: Sequence[str], common: CommonOptions) -> None:
        from ibdissect.points.merged_capture import delays, merged_faults, write_merged

        comparison = compared(captures, common)
        self._names = " + ".join(printable(point.name) for point in comparison.points)
        self.file = NamedTemporaryFile(prefix="ibdissect-points-", suffix=".pcapng")  # noqa: SIM115 - deleted when the screen ends
        numbers = write_merged(comparison, self.file)
        self.file.flush()
        self.known, self._delays = merged_faults(comparison, numbers), delays(comparison, numbers)
        self._numbers = {printable(point.name): of for point, of in zip(comparison.points, numbers, strict=True)}

    def tell(self, model: CaptureModel) -> None:
        """Give the model of the merged capture the delays and frame numbers of the points."""
        model.path, model.delays, model.numbers = self._names, self._delays, self._numbers


def _json(result: dict[str, Any], packets: Iterable[Any] | None) -> Iterator[str]:
    """The result as JSON, with a line for each packet."""
    text = visible_json(json.dumps(result, ensure_ascii=False))
    if packets is None:
        yield text + "\n"
        return
    yield text[:-1] + ', "packets": ['
    for i, row in enumerate(packets):
        yield (",\n" if i else "\n") + json.dumps(row)
    yield "]}\n"


def _judged(comparison: Comparison, options: CheckOptions, common: CommonOptions) -> list[CaptureReport]:
    """The reports of the rules on each point's capture; a capture without faults is not read again."""
    from ibdissect.points.findings import point_faults

    reports = []
    for point, known in zip(comparison.points, point_faults(comparison), strict=True):
        options.policy, options.selection = known, checked_selection(common, options)
        if known.by_rule:
            reports.append(check(point.path, options))
        else:
            reports.append(CaptureReport(path=point.path, frames=point.frames, checked=point.frames, infiniband=point.packets))
    return reports


def _write(comparison: Any, target: str, captures: tuple[str, ...], common: CommonOptions) -> None:
    from ibdissect.export.whole_files import replacing
    from ibdissect.points.merged_capture import write_merged

    refuse_captures(captures, write=target)
    with replacing(target) as file:
        count = sum(map(len, write_merged(comparison, file)))
    common.tell(f"{counted(count, 'frame', ',')} written to {target}, as they are, with the keys in them")


def lines(result: dict[str, Any], paint: Paint) -> Iterator[str]:
    clocks = []
    for point in result["points"]:
        segments = point["clock"]["segments"]
        first = point["name"] == result["reference"]
        for segment in segments:
            clocks.append((
                printable(point["name"]), point["frames"], segment["first_frame"],
                "reference" if first else f"{segment['offset_ns'] / 1e9:+.9f} s", "" if first else f"{segment['drift_ppm']:+.3f} ppm",
                "" if first else f"± {micro(segment['uncertainty_ns'])} us",
            ))  # fmt: skip
    yield f"{len(result['points'])} points, times by the clock of {printable(result['reference'])}"
    yield from table_lines("Clocks", clocks, ("point", "frames", "from frame", "offset", "drift", "uncertainty"), paint)
    names = ("matched", "lost", "not_captured", "unknown", "outside", "reordered")
    pairs = result["pairs"]
    yield from table_lines("Packets between two points", [
        (printable(pair["from"]), printable(pair["to"]), *(pair[name] for name in names)) for pair in pairs
    ], ("from", "to", "matched", "lost", "not captured", "unknown", "outside", "reordered"), paint)  # fmt: skip
    yield from table_lines("Latency in microseconds", [
        (printable(pair["from"]), printable(pair["to"]), *(micro(pair["latency_ns"][name]) for name in LATENCIES))
        for pair in pairs
    ], ("from", "to", "min", "median", "90 %", "95 %", "99 %", "max"), paint)  # fmt: skip
    yield from table_lines("Changed on the way", [
        (printable(pair["from"]), printable(pair["to"]), ", ".join(f"{name} {count}" for name, count in pair["changed"].items()))
        for pair in pairs if pair["changed"]
    ], ("from", "to", "field and packets"), paint)  # fmt: skip
    conversations = result["conversations"]
    title = "Conversations" if len(conversations) <= SHOWN else f"Conversations ({SHOWN} of {len(conversations)})"
    yield from table_lines(title, [
        (f"{one['source']} > {one['destination']}", f"0x{one['dest_qp']:06x}", one["packets"], one["lost"],
         micro(one["latency_ns"]["p50"]), micro(one["latency_ns"]["p99"]), micro(one["jitter_ns"]))
        for one in conversations[:SHOWN]
    ], ("from > to", "QP", "packets", "lost", "median us", "99 % us", "jitter us"), paint)  # fmt: skip
    doubt = result["ambiguous"]
    if doubt["matches"] or doubt["losses"]:
        yield ""
        yield f"Ambiguous: {doubt['matches']} sightings of equal packets, {doubt['losses']} possible losses"
    for note in result["notes"]:
        yield ""
        yield from textwrap.wrap(printable(note), 79)


def micro(nanoseconds: int | None) -> str:
    return "-" if nanoseconds is None else f"{nanoseconds / 1000:.3f}"
