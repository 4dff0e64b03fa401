"""`ibdissect lint`: checks captures against the rules."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct as Record

from ibdissect import report as formats
from ibdissect.capture.remote import is_url, shown
from ibdissect.capture.sets import files_of, rings
from ibdissect.cli.checking import check_options, ignore_option, no_crc_option, select_option
from ibdissect.cli.common import Common, common_options, grouped, say
from ibdissect.cli.engines import each_capture, engine_option
from ibdissect.cli.interrupted import INTERRUPTED
from ibdissect.cli.output import require_extra, same_file, units_of, write_text
from ibdissect.cli.sandbox import confine, sandbox_option
from ibdissect.errors import CaptureError, ConfigError
from ibdissect.lint.result import CaptureReport
from ibdissect.report import text as text_report
from ibdissect.session.check import check, killed
from ibdissect.wire.text import plain

if TYPE_CHECKING:
    from ibdissect.cli.frame_selection import Limits

RANKS = {"error": 3, "warning": 2, "info": 1, "never": 4}


class MaxFindings(click.ParamType):  # type: ignore[type-arg]
    """A number, or `none` for no limit."""

    name = "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or isinstance(value, int):
            return value
        if value == "none":
            return -1
        if not re.fullmatch("0*[1-9][0-9]{0,17}", value):
            self.fail(f"{value!r} is neither a number from 1 on nor `none`", param, ctx)
        return int(value)


class Wanted(Record):
    format_: str | None
    output: str | None
    selected: tuple[str, ...]
    ignored: tuple[str, ...]
    fail_on: str | None
    baseline: str | None
    write_baseline: str | None
    max_findings: int
    """-1: all."""
    no_crc: bool
    statistics: bool
    timing: bool
    jobs: int | None
    engine: str | None
    as_set: bool
    cache: str | None
    sandbox: bool


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@grouped(
    Wanted,
    "wanted",
    click.option(
        "--format", "format_", type=click.Choice(tuple(formats.FORMATS)), help="Output format (text; github inside GitHub Actions)."
    ),
    click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report to FILE instead of standard output."),
    select_option,
    ignore_option,
    click.option("--fail-on", type=click.Choice(tuple(RANKS)), help="Exit 1 at this severity or worse.  [error]"),
    click.option(
        "--baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Hide the findings recorded in FILE; report new and fixed ones."
    ),
    click.option("--write-baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Record all findings in FILE; exit 0."),
    click.option("--max-findings", type=MaxFindings(), default=100, show_default=True, help="Findings shown per rule and capture."),
    no_crc_option,
    click.option("--statistics", is_flag=True, help="Print findings by rule."),
    click.option("--timing", is_flag=True, help="Print the time each rule took."),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Check N captures at a time, in processes. Default: one, and a thread that reads ahead; 1 disables that thread.",
    ),
    engine_option,
    click.option(
        "--cache", type=click.Path(file_okay=False), metavar="DIR", help="Remember reports in DIR; read only captures that are new."
    ),
    click.option("--set", "as_set", is_flag=True, help="Check the files of a ring buffer, or all others given, as one capture."),
    sandbox_option,
)
@common_options
def command(paths: tuple[str, ...], wanted: Wanted, common: Common) -> int:
    """Check captures against the rules: files, directories (recursive), globs, `-` for standard input.

    Exit status 0: nothing at or above --fail-on; 1: findings; 2: a capture could not be read, or an option is wrong. Findings in the
    baseline do not count.
    """
    output, write_baseline = wanted.output, wanted.write_baseline
    fail_on = wanted.fail_on or common.settings.fail_on or "error"
    baseline = wanted.baseline or (common.settings.baseline if write_baseline is None else None)
    # Imported objects live forever: pause the garbage collector, then freeze it.
    gc.disable()
    try:
        options = check_options(
            common, selected=wanted.selected, ignored=wanted.ignored, crc=not wanted.no_crc,
            max_findings=None if wanted.max_findings < 0 else wanted.max_findings, timing=wanted.timing,
        )  # fmt: skip
        gc.freeze()
    finally:
        gc.enable()
    rules = options.rules
    options.threads = min(2, os.cpu_count() or 1) if wanted.jobs is None and wanted.engine is None else 1
    units = units_of(paths, wanted.as_set)
    files = [file for unit in units for file in files_of(unit)]
    for name, parts in rings(files).items() if not wanted.as_set else ():
        common.tell(f"note: these {len(parts)} files look like one ring buffer: --set checks {shown(name)} as one capture")
    for option, target in (("--output", output), ("--write-baseline", write_baseline)):
        if target is not None and any(same_file(target, file) for file in files):
            raise ConfigError(option, target, "is one of the captures to check", hint="name another file")
    options.shown = common.limits(options.catalog)
    _judged_in_one_pass(options.shown)
    checked: Callable[..., CaptureReport] = check
    if wanted.cache is not None:
        from ibdissect.session.cache import Cache

        checked = Cache.of(wanted.cache, options, common.filter, common.frames).check
    known = None
    if baseline or write_baseline:
        from ibdissect.cli.baselines import Known

        known = Known(baseline, write_baseline, options)
    written = wanted.format_ or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" and output is None else "text")
    if written == "html":
        require_extra("jinja2", extra="report")
    if wanted.sandbox:
        network = wanted.engine is not None or any(map(is_url, files))
        confine(common, (output, write_baseline, summary_file(written), wanted.cache), network=network)
    stream = written == "text" and output is None
    paint = common.paint(sys.stdout) if stream else plain
    reports: list[CaptureReport] = []
    done, printed = 0, CaptureReport(path="", captures=0)
    with each_capture(units, partial(checked, options=options), killed, wanted.jobs, wanted.engine, common) as (checks, interrupted):
        for report in checks:
            if known is not None:
                known.apply(report)
            done += 1
            if stream:
                click.echo(text_report.capture_text(report, paint), nl=False)
            if stream and not report.remarkable:
                printed.add(report)  # memory must not grow with the number of captures
            else:
                reports.append(report)
        if interrupted():
            reports += [CaptureReport(path=shown(str(unit)), status="interrupted") for unit in units[done:]]
    if printed.captures:
        reports.insert(0, printed)
    # Do not write a baseline after an interrupted check: it would be incomplete.
    compared = known.finish() if known is not None and not (interrupted() and write_baseline is not None) else None
    if not stream:
        against = None if compared is None else compared.object()
        run = formats.Run(rules=tuple(rules), fail_rank=RANKS[fail_on], baseline=against, summarized=summary_file(written) is not None)
        write_text(formats.render(written, reports, run), output)
        write_job_summary(written, reports, run)
    elif not common.quiet:
        click.echo(text_report.summary_text(reports, len(rules)), nl=False)
    if wanted.statistics:
        click.echo(text_report.statistics_text(reports, {rule.code: rule.name for rule in rules}), nl=False, err=not stream)
    if wanted.timing:
        click.echo(text_report.timing_text(reports), nl=False, err=True)
    for report in reports:
        if report.error is not None:
            say(f"error: {report.error}")
        if report.status == "interrupted":
            say(f"{report.path}: {report.incomplete}")
        for doubt in report.doubts:
            common.tell(f"warning: {report.path}: {doubt}")
    if interrupted():
        return INTERRUPTED
    for line in known.lines() if known is not None else ():
        common.tell(line)
    return exit_status(reports, "never" if write_baseline is not None else fail_on)


def summary_file(format_: str) -> str | None:
    """The file that GitHub shows as the job's summary; None outside GitHub and for other formats."""
    return os.environ.get("GITHUB_STEP_SUMMARY") or None if format_ == "github" else None


def write_job_summary(format_: str, reports: list[CaptureReport], run: formats.Run) -> None:
    """Append all findings to the job's summary, as annotations are few."""
    target = summary_file(format_)
    if target is None:
        return
    try:
        with open(target, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(formats.render("markdown", reports, run))
    except OSError as error:
        raise CaptureError(target, f"the job summary cannot be written: {error.strerror}") from error


def _judged_in_one_pass(shown: Limits | None) -> None:
    """Raise ConfigError for filters that need the results of a finished check."""
    if shown is not None and shown.needs_findings:
        raise ConfigError("-Y", "ibdissect.code", "needs the findings of this very check", hint="choose rules with --select")
    if shown is not None and shown.filter is not None and shown.needs_answers:
        raise ConfigError("-Y", shown.filter.text, "needs answers that come later", hint="use ibdissect.request_frame")


def exit_status(reports: Iterable[CaptureReport], fail_on: str) -> int:
    """2 if a capture could not be checked, else 1 if a finding is at or above `fail_on`, else 0."""
    reports = list(reports)
    if any(report.error is not None for report in reports):
        return 2
    found = {name for report in reports for name, count in report.counts.items() if count}
    return int(max((RANKS[name] for name in found), default=0) >= RANKS[fail_on])
