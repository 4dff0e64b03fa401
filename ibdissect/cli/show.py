"""`ibdissect show`: prints frames."""

from __future__ import annotations

import sys

import click

from ibdissect.cli.common_options import CommonOptions, common_options, refuse
from ibdissect.cli.console import echo
from ibdissect.cli.output import captures_argument, opened_capture, set_option, source_of
from ibdissect.cli.show_formats import CLOCKS, PRINTERS, SummaryLines
from ibdissect.errors import ConfigError


@click.command()
@captures_argument
@set_option
@click.option("--format", "format_", type=click.Choice(tuple(PRINTERS)), help="How to print a frame.  [summary; fields with -e]")
@click.option("-e", "names", multiple=True, metavar="NAME", help="A field to print; repeat for more. --format summary aligns them.")
@click.option(
    "-t", "clock", type=click.Choice(tuple(CLOCKS)),
    help="Times in summaries: r since the first frame, d since the previous one, e since 1970, a/ad local time (with date), u/ud UTC.  [r]",
)  # fmt: skip
@click.option("--count", is_flag=True, help="Print only how many frames match.")
@common_options
def command(
    captures: tuple[str, ...], as_set: bool, format_: str | None, names: tuple[str, ...], clock: str | None, count: bool,
    common: CommonOptions,
) -> int:  # fmt: skip
    """Print the frames of CAPTURE (a file, or `-` for standard input).

    Exit status 0, also for a damaged capture, which is printed up to the damage; 2 if it cannot be read, or not all of it (--max-unpacked).
    """
    chosen = format_ or ("fields" if names else "summary")
    if names and chosen not in ("fields", "summary"):
        raise ConfigError("-e", names[0], f"fields are printed by --format fields and summary, not {chosen}")
    if count:
        refuse("format_", "names", "clock", reason="does nothing here: --count prints a number")
    if names or chosen != "summary":
        refuse("clock", reason="is for the summary of frames", hint="name a time: -e frame.time, -e frame.time_delta")
    if chosen == "fields" and not names:
        raise ConfigError("--format", "fields", "needs at least one field", hint="name fields with -e; `ibdissect fields` lists them")
    with opened_capture(source_of(captures, as_set, quiet=common.quiet), common) as opened:
        if count:
            echo(sum(len(rows) for _, rows in opened.selected()))
            return 0
        printer, known, write = PRINTERS[chosen](opened, names, common.paint(sys.stdout)), common.port_names, sys.stdout.write
        if isinstance(printer, SummaryLines):
            printer.clock, printer.address = clock or "r", known.address if known is not None else None
        write(printer.head())
        for table, rows in opened.selected(keys=True):
            for text in printer.frames(table, rows):
                write(text)
        write(printer.tail())
    return 0
