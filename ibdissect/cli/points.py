"""`ibdissect points`: where did a packet go between several captures of the same traffic?"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import click

from ibdissect.cli.common import Common, common_options, damage_text
from ibdissect.cli.output import ending_of
from ibdissect.cli.stats import table_lines
from ibdissect.errors import ConfigError
from ibdissect.wire.text import printable, visible_json

SHOWN = 10
"""Most lost packets and conversations that the text lists."""


@click.command(short_help="Match several captures of the same traffic: loss, delay, reordering, change.")
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE CAPTURE...")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--packets", is_flag=True, help="List every packet with its frames, too (JSON only).")
@click.option(
    "--write", "target", metavar="FILE", help="Write all frames to a pcapng: one timeline, an interface a point, verdicts as comments."
)
@common_options
def command(captures: tuple[str, ...], format_: str, packets: bool, target: str | None, common: Common) -> int:
    """Match the packets of several capture points, align their clocks, and tell loss, delay, reordering and change between them.

    A point is called what its file is called up to the first dot; times are those of the first one. Exit status 0: no loss is proved;
    1: a packet was lost; 2: a capture could not be read, or shares no packet with the others.
    """
    common.refuse("filter", "frames", reason="packets are matched in whole captures", hint="cut the captures first")
    if len(captures) < 2:
        raise ConfigError("CAPTURE", captures[0], "there is nothing to compare it with", hint="name two captures or more")
    if packets and format_ != "json":
        raise ConfigError("--packets", format_, "is a list for programs", hint="add --format json")
    if target is not None:
        ending_of(target, (".pcapng", ".ntar"), "--write")
    from ibdissect.points.comparison import Comparison

    comparison = Comparison(captures)
    for point in comparison.points:
        for damage in point.damage:
            common.tell(damage_text(point.path, damage))
    if target is not None:
        _write(comparison, target, captures, common)
    result = comparison.result()
    if format_ == "text":
        click.echo("\n".join(lines(result, common.paint(sys.stdout))))
    else:
        text = visible_json(json.dumps(result, ensure_ascii=False))
        if packets:
            text = text[:-1] + ', "packets": ['
        click.echo(text, nl=not packets)
        for i, row in enumerate(comparison.packets() if packets else ()):
            click.echo((",\n" if i else "\n") + json.dumps(row), nl=False)
        if packets:
            click.echo("]}")
    return int(bool(result["lost"]))


def _write(comparison: Any, target: str, captures: tuple[str, ...], common: Common) -> None:
    from ibdissect.export.files import replacing
    from ibdissect.points.merged import write_merged

    source = next((one for one in captures if os.path.exists(target) and os.path.samefile(one, target)), None)
    with replacing(target, source, "--write") as file:
        count = write_merged(comparison, file)
    common.tell(f"{count} frames written to {target}; they are written as they are, with the keys in them")


def lines(result: dict[str, Any], paint: Callable[[str, str], str]) -> Iterator[str]:
    """The result as text."""
    clocks = []
    for point in result["points"]:
        segments = point["clock"]["segments"]
        first = point["name"] == result["reference"]
        for segment in segments:
            clocks.append((
                printable(point["name"]), str(point["frames"]), str(segment["first_frame"]),
                "reference" if first else f"{segment['offset_ns'] / 1e9:+.9f} s", "" if first else f"{segment['drift_ppm']:+.3f} ppm",
                "" if first else f"± {micro(segment['uncertainty_ns'])} us",
            ))  # fmt: skip
    yield f"{len(result['points'])} points, times by the clock of {printable(result['reference'])}"
    yield from table_lines("Clocks", clocks, ("point", "frames", "from frame", "offset", "drift", "uncertainty"), paint)
    names = ("matched", "lost", "not_captured", "unknown", "outside", "reordered")
    pairs = result["pairs"]
    yield from table_lines("Packets between two points", [
        (printable(pair["from"]), printable(pair["to"]), *(str(pair[name]) for name in names)) for pair in pairs
    ], ("from", "to", "matched", "lost", "not captured", "unknown", "outside", "reordered"), paint)  # fmt: skip
    yield from table_lines("Latency in microseconds", [
        (printable(pair["from"]), printable(pair["to"]), *(micro(pair["latency_ns"][name]) for name in ("min", "p50", "p90", "p99", "max")))
        for pair in pairs
    ], ("from", "to", "min", "median", "90 %", "99 %", "max"), paint)  # fmt: skip
    yield from table_lines("Changed on the way", [
        (printable(pair["from"]), printable(pair["to"]), ", ".join(f"{name} {count}" for name, count in pair["changed"].items()))
        for pair in pairs if pair["changed"]
    ], ("from", "to", "field and packets"), paint)  # fmt: skip
    yield from table_lines(_first("Lost packets", result["lost"]), [
        (printable(one["point"]), str(one["frame"]), printable(one["after"]), printable(one["before"] or "-"), one["why"])
        for one in result["lost"][:SHOWN]
    ], ("point", "frame", "seen last at", "not seen at", "proof"), paint)  # fmt: skip
    yield from table_lines(_first("Conversations", result["conversations"]), [
        (f"{one['source']} > {one['destination']}", f"0x{one['dest_qp']:06x}", str(one["packets"]), str(one["lost"]),
         micro(one["latency_ns"]["p50"]), micro(one["latency_ns"]["p99"]), micro(one["jitter_ns"]))
        for one in result["conversations"][:SHOWN]
    ], ("from > to", "QP", "packets", "lost", "median us", "99 % us", "jitter us"), paint)  # fmt: skip
    doubt = result["ambiguous"]
    if doubt["matches"] or doubt["losses"]:
        yield ""
        yield f"Ambiguous: {doubt['matches']} sightings of equal packets, {doubt['losses']} possible losses"
    for note in result["notes"]:
        yield ""
        yield from textwrap.wrap(printable(note), 79)


def _first(title: str, entries: list[Any]) -> str:
    return title if len(entries) <= SHOWN else f"{title} ({SHOWN} of {len(entries)})"


def micro(nanoseconds: int | None) -> str:
    """Nanoseconds as microseconds."""
    return "-" if nanoseconds is None else f"{nanoseconds / 1000:.3f}"
