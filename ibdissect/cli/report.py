"""`ibdissect report`: one page for people about captures."""

from __future__ import annotations

import sys

import click

from ibdissect.cli.common_options import CommonOptions, command_line, common_options, say
from ibdissect.cli.console import progress_bar
from ibdissect.cli.effective_options import check_options, checked_selection, followed, ignore_option, no_crc_option, select_option
from ibdissect.cli.output import MaxFindings, captures_of, refuse_captures, require_extra, write_text
from ibdissect.errors import ConfigError


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="File to write; - for standard output.  [standard output]",
)  # fmt: skip
@click.option(
    "--compare", "compared", metavar="BEFORE",
    help="Show new and fixed findings since BEFORE: captures, a report of lint --format json, or a baseline.",
)  # fmt: skip
@click.option("--title", default="", metavar="TEXT", help="A title, such as the number of a ticket.")
@click.option("--note", default="", metavar="TEXT", help="What readers should know, at the top of the page.")
@select_option
@ignore_option
@click.option("--max-findings", type=MaxFindings(), default=100, show_default=True, help="Findings listed per rule.")
@no_crc_option
@common_options
def command(
    paths: tuple[str, ...], output: str | None, compared: str | None, title: str, note: str, selected: tuple[str, ...],
    ignored: tuple[str, ...], max_findings: int, no_crc: bool, common: CommonOptions,
) -> int:  # fmt: skip
    """Write an HTML page about captures (files, directories, globs): is it healthy, what is wrong, how does the traffic look?

    The page is one file for a ticket or a CI artifact: it loads nothing, hides keys, can be printed, and is complete without JavaScript.
    It says when the captures were recorded, size and SHA-256 of their files, and the command line that made it.

    Exit status 0: the page was written, whatever was found; 2: a capture could not be read, or not all of it. The page says which; there is
    no page if none could be read.

    -Y and --frames limit findings and traffic to these frames, which the page says; the subnet and conversations are learnt from all.
    docs/numbers.md defines each number.
    """
    require_extra("jinja2", extra="report")
    if output in (None, "-") and sys.stdout.isatty():
        raise ConfigError("--output", "FILE", "is missing", hint="name the page: -o report.html")
    options = check_options(common, selected=selected, ignored=ignored, crc=not no_crc, max_findings=None)
    options.selection = checked_selection(common, options)
    files = captures_of(paths, quiet=common.quiet)
    refuse_captures(files, output=output)
    from ibdissect.capture.digest import digest_of
    from ibdissect.pictures.page import earlier, page
    from ibdissect.report.html import About

    digests = {file: digest for file in files if (digest := digest_of(file)) is not None}
    about = About(title, note, command_line())
    chosen = " and ".join(f"{option} {text}" for option, text in (("-Y", common.filter), ("--frames", common.frames)) if text)
    whose = followed(common, select=selected)
    notes = [f"Findings and traffic are those of the frames that {chosen} selects."] if chosen else []
    notes += [f"By {whose.text}."] if whose is not None else []

    with progress_bar(files, quiet=common.quiet) as progress:
        before = earlier(compared, options, progress) if compared is not None else None
        text, reports = page(files, options, before, None if max_findings < 0 else max_findings, progress, about, digests, notes)
    if any(report.status != "unreadable" for report in reports):
        write_text(text, output)
    for report in reports:
        if report.error is not None:
            say(f"error: {report.error}")
    return 2 if any(report.error is not None for report in reports) else 0
