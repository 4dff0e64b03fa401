"""`ibdissect show`: prints frames."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from ibdissect.cli.common import common_options, damage_text, limits, painter, plugin_names, say, settings
from ibdissect.errors import CaptureError, ConfigError

FORMATS = ("summary", "tree", "dump", "dotted", "scapy", "json", "jsonl", "fields")


@click.command(short_help="Print frames, in one of many formats.")
@click.argument("capture", metavar="CAPTURE")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="How to print a frame.  [summary; fields with -e]")
@click.option("-e", "names", multiple=True, metavar="NAME", help="A field to print; repeat for more. Columns are separated by tabs.")
@click.option("--count", is_flag=True, help="Print only how many frames match.")
@common_options
def command(capture: str, format_: str | None, names: tuple[str, ...], count: bool, **common: Any) -> int:
    """Print the frames of CAPTURE (a file, or `-` for standard input).

    Exit status 0, also for a damaged capture, which is printed up to the damage; 2 when it cannot be read.
    """
    from ibdissect.session import Capture

    chosen = format_ or ("fields" if names else "summary")
    if names and chosen != "fields":
        raise ConfigError("-e", names[0], f"fields are printed by --format fields, not {chosen}")
    if chosen == "fields" and not names and not count:
        raise ConfigError("--format", "fields", "no field is named", hint="name them with -e, `ibdissect fields` lists them")
    with Capture(capture, plugins=plugin_names(common), show_keys=common["show_keys"]) as opened:
        wanted = limits(common, opened.catalog)
        if wanted is not None and wanted.needs_findings:
            wanted.findings = _codes(opened)
        if wanted is not None and wanted.needs_answers:
            wanted.answers = opened.answers()
        if count:
            click.echo(_count(opened, wanted))
        else:
            _print(opened, wanted, chosen, names, common)
        for damage in opened.damage:
            if not common["quiet"]:
                say(damage_text(opened.path, damage))
    return 0


def _codes(opened: Any) -> dict[int, list[str]]:
    """Codes of the findings in each frame, for filters that ask for them: the capture is linted first."""
    if not opened.reader.again:
        raise CaptureError(opened.path, "a filter on findings reads the capture twice, which a pipe cannot give")
    codes: dict[int, list[str]] = {}
    for finding in opened.lint():
        codes.setdefault(finding.frame, []).append(finding.code)
    return codes


def _selected(opened: Any, wanted: Any) -> Iterator[tuple[Any, Any]]:
    """Tables with the rows that are wanted, up to the last frame that can be."""
    import numpy as np

    for table in opened.tables():
        if wanted is None:
            yield table, np.arange(len(table))
            continue
        yield table, np.flatnonzero(wanted.rows(table))
        if table.chunk.first + len(table) > wanted.last:
            return


def _count(opened: Any, wanted: Any) -> int:
    return sum(len(rows) for _, rows in _selected(opened, wanted))


def _print(opened: Any, wanted: Any, chosen: str, names: tuple[str, ...], common: dict[str, Any]) -> None:
    """Write every frame to standard output, a batch at a time."""
    from ibdissect.cli.frames import printer_of

    paint = painter(common["color"] or settings(common).color, sys.stdout)
    printer = printer_of(chosen, opened, names, paint)
    write = sys.stdout.write
    write(printer.head())
    for table, rows in _selected(opened, wanted):
        for text in printer.frames(table, rows):
            write(text)
    write(printer.tail())
