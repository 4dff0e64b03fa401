"""`ibdissect lint`: checks captures against the rules."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING, ClassVar

import click
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect import report as formats
from ibdissect.capture.file_names import Unit, files_of
from ibdissect.capture.recordings import rings
from ibdissect.capture.remote import is_url
from ibdissect.cli.common_options import CommonOptions, columns, common_options, grouped, say
from ibdissect.cli.console import echo
from ibdissect.cli.each_capture import INTERRUPTED, each_capture, engine_option
from ibdissect.cli.effective_options import (
    check_options,
    checked_selection,
    extend_ignore_option,
    extend_select_option,
    followed,
    ignore_option,
    no_crc_option,
    say_followed,
    select_option,
)
from ibdissect.cli.help_sections import Sectioned
from ibdissect.cli.output import MaxFindings, refuse_captures, units_of
from ibdissect.cli.report_targets import Target, digests_of, limited, most_listed, summary_file, targets_of, write_report
from ibdissect.cli.sandbox import confine, sandbox_option
from ibdissect.errors import ConfigError
from ibdissect.heap import uncollected
from ibdissect.lint.finding import CaptureReport
from ibdissect.lint.rule_selection import split_codes
from ibdissect.pipeline.capture_report import killed
from ibdissect.pipeline.check import CheckOptions, Stop, check
from ibdissect.pipeline.ordered_pool import Work
from ibdissect.pipeline.reading import Progress
from ibdissect.report import text as text_report
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import plain

if TYPE_CHECKING:
    from ibdissect.cli.baselines import KnownFindings

RANKS = {"error": 3, "warning": 2, "info": 1, "never": 4}


class LintArguments(Record):
    format_: str | None
    output: str | None
    files: tuple[str, ...]
    selected: tuple[str, ...]
    more: tuple[str, ...]
    ignored: tuple[str, ...]
    more_ignored: tuple[str, ...]
    fail_on: str | None
    explain: str | None
    show_settings: bool
    allow_empty: bool
    exit_zero: bool
    infos: bool | None
    baseline: str | None
    write_baseline: str | None
    max_findings: int | None
    """-1: all; None: as many as the format usually lists."""
    no_crc: bool
    statistics: bool
    timing: bool
    jobs: int | None
    engine: str | None
    as_set: bool
    cache: str | None
    sandbox: bool


class Lint(Sectioned):
    """`lint --help` has a list for each question that its options answer."""

    sections: ClassVar = {
        "Rules": ("selected", "more", "ignored", "more_ignored", "no_crc", "explain"),
        "Frames": ("filter", "frames", "as_set", "roce_ports"),
        "Report": (
            "format_", "infos", "max_findings", "statistics", "timing", "output", "files", "name_ports", "show_keys", "color", "quiet",
        ),
        "Exit status": ("fail_on", "exit_zero", "allow_empty"),
        "Known findings": ("baseline", "write_baseline"),
        "The subnet": ("subnet", "subnet_time"),
        "Speed and safety": ("jobs", "engine", "trust_network", "cache", "sandbox", "max_unpacked"),
        "Configuration": ("config", "show_settings", "plugins"),
    }


@click.command(cls=Lint)
@click.argument("paths", nargs=-1, metavar="PATH...")
@grouped(
    LintArguments,
    "wanted",
    click.option(
        "--format", "format_", type=click.Choice(tuple(formats.FORMATS)), help="Output format (text; github inside GitHub Actions)."
    ),
    click.option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report to FILE instead of standard output."
    ),
    click.option(
        "--output-file", "files", multiple=True, metavar="FORMAT=FILE",
        help="Write a report in FORMAT to FILE, too; may be repeated: the captures are read once.",
    ),
    select_option,
    extend_select_option,
    ignore_option,
    extend_ignore_option,
    click.option("--explain", metavar="CODES", help="Explain rules, as `ibdissect rules` does, and check nothing."),
    click.option("--show-settings", is_flag=True, help="Print what options and configuration amount to, and check nothing."),
    click.option("--fail-on", type=click.Choice(tuple(RANKS)), help="Exit 1 at this severity or worse.  [error]"),
    click.option("--allow-empty", is_flag=True, help="Let a capture pass in which nothing could be checked."),
    click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found; 2 if a capture could not be checked."),
    click.option(
        "--infos/--no-infos", "infos", default=None,
        help="List infos in text, or leave out even their number.  [their number; a list if --select or --fail-on names them]",
    ),
    click.option(
        "--baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Hide the findings recorded in FILE; report new and fixed ones."
    ),
    click.option("--write-baseline", type=click.Path(dir_okay=False), metavar="FILE", help="Record all findings in FILE; exit 0."),
    click.option(
        "--max-findings", type=MaxFindings(),
        help="Findings listed per rule and capture.  [100 in text, full, markdown and html; else all, up to 10,000]",
    ),
    no_crc_option,
    click.option("--statistics", is_flag=True, help="Print findings by rule."),
    click.option("--timing", is_flag=True, help="Print the time each rule took."),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Check N captures at a time, in processes. 1: one after the other, without the thread that usually reads ahead.",
    ),
    engine_option,
    click.option(
        "--cache", type=click.Path(file_okay=False), metavar="DIR", help="Remember reports in DIR; read only captures that are new."
    ),
    click.option("--set", "as_set", is_flag=True, help="Check the files of a ring buffer, or all others given, as one capture."),
    sandbox_option,
)
@common_options
def command(paths: tuple[str, ...], wanted: LintArguments, common: CommonOptions) -> int:
    """Check captures against the rules: files, directories (recursive), globs, `-` for standard input.

    Exit status 0: nothing at or above --fail-on; 1: findings; 2: a capture could not be read, nothing in it could be checked, or an option
    is wrong. Findings in the baseline do not count.
    """
    if wanted.explain is not None:
        from ibdissect.cli.rules import explained

        echo(explained(split_codes(wanted.explain), common), nl=False)
        return 0
    began_s, targets = time(), targets_of(wanted.format_, wanted.output, wanted.files)
    options = _options(wanted, most_listed(targets, wanted.max_findings), common)
    if wanted.show_settings:
        from ibdissect.cli.shown_settings import settings_text

        chosen = bool(wanted.selected or wanted.more or wanted.ignored or wanted.more_ignored or wanted.no_crc)
        text = settings_text(
            common, options, chosen=chosen, fail_on=wanted.fail_on, baseline=wanted.baseline, allow_empty=wanted.allow_empty
        )
        echo(text, nl=False)
        return 0
    if not paths:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(one for one in context.command.params if one.name == "paths"))
    units = units_of(paths, wanted.as_set, quiet=common.quiet)
    if wanted.engine is None and (wanted.jobs is None or (wanted.jobs > 1 and len(units) == 1)):
        options.threads = min(2, os.cpu_count() or 1)
    files = [file for unit in units for file in files_of(unit)]
    for name, parts in rings(files).items() if not wanted.as_set else ():
        common.tell(f"note: these {len(parts)} files look like one ring buffer: --set checks {public_name(name)} as one capture")
    refuse_captures(files, output=wanted.output, write_baseline=wanted.write_baseline)
    for target in targets[1:]:
        refuse_captures(files, output_file=target.file)
    work: Callable[..., CaptureReport] = check
    if wanted.cache is not None:
        from ibdissect.pipeline.cache import Cache

        cache = Cache.of(wanted.cache, options, common.filter, common.frames)
        if cache.refused:
            common.tell(f"warning: --cache {wanted.cache}: {cache.refused}, so it is not used; name a folder that is yours alone")
        work = cache.check
    known, baseline = None, wanted.baseline or (common.settings.baseline if wanted.write_baseline is None else None)
    if baseline or wanted.write_baseline:
        from ibdissect.cli.baselines import KnownFindings

        named = common.named_files("baseline", by_user=bool(wanted.baseline))
        known = KnownFindings(baseline, wanted.write_baseline, options, units, named)
    if wanted.sandbox:
        network = wanted.engine is not None or any(map(is_url, files))
        written = [file for target in targets for file in (target.file, summary_file(target.form))]
        confine(common, (*written, wanted.write_baseline, wanted.cache), network=network)
    stream = targets[0].streams
    fail_on = wanted.fail_on or common.settings.fail_on or "error"
    infos = wanted.infos if wanted.infos is not None else True if fail_on == "info" or wanted.selected else None
    run = formats.Run(
        rules=tuple(options.rules), fail_rank=RANKS[fail_on], ignored=options.ignored, configuration=followed(common, **_overruled(wanted)),
        began_s=began_s, infos=infos, exit_zero=wanted.exit_zero or wanted.write_baseline is not None,
    )  # fmt: skip
    reports, interrupted = _checked(units, partial(_timed, work=partial(work, options=options)), wanted, common, known, targets, run)
    compared = known.finish(complete=all(one.incomplete is None for one in reports)) if known is not None else None
    run = replace(run, baseline=None if compared is None else compared.object(), digests=digests_of(targets, files))
    for target in targets[stream:]:
        write_report(target, reports, run, wanted.max_findings)
    if stream and not common.quiet:
        echo(formats.streamed(targets[0].form)[1](reports, run, columns(sys.stdout)), nl=False)
    if wanted.statistics:
        echo(text_report.statistics_text(reports, {rule.code: rule.name for rule in options.rules}), nl=False, err=not stream)
    if wanted.timing:
        echo(text_report.timing_text(reports), nl=False, err=True)
    _say_what_is_missing(reports, common)
    say_followed(run.configuration, common, any(target.names_configuration(quiet=common.quiet) for target in targets))
    if interrupted:
        return INTERRUPTED
    for line in known.lines() if known is not None else ():
        common.tell(line)
    return exit_status(reports, "never" if wanted.write_baseline is not None or wanted.exit_zero else fail_on)


def _overruled(wanted: LintArguments) -> dict[str, object]:
    """What the command line says instead of keys of the configuration."""
    return {"select": wanted.selected, "fail_on": wanted.fail_on or wanted.exit_zero or wanted.write_baseline,
            "baseline": wanted.baseline or wanted.write_baseline, "allow_empty": wanted.allow_empty}  # fmt: skip


def _timed(unit: Unit, *, work: Work[CaptureReport], stop: Stop | None = None, progress: Progress | None = None) -> CaptureReport:
    """The report on a capture, which says how long it took."""
    start = perf_counter()
    report = work(unit, stop=stop, progress=progress)
    report.elapsed_s = perf_counter() - start
    return report


def _say_what_is_missing(reports: Iterable[CaptureReport], common: CommonOptions) -> None:
    for report in reports:
        if report.error is not None:
            say(f"error: {report.error}")
        if report.status == "interrupted":
            say(f"{report.path}: {report.incomplete}")
        for doubt in report.doubts:
            common.tell(f"warning: {report.path}: {doubt}")


def _options(wanted: LintArguments, max_findings: int | None, common: CommonOptions) -> CheckOptions:
    """The options of the check. Loading them pauses the garbage collector, and excludes the imported objects from it for good."""
    with uncollected():
        options = check_options(
            common, selected=wanted.selected, more=wanted.more, ignored=(*wanted.ignored, *wanted.more_ignored), crc=not wanted.no_crc,
            max_findings=max_findings, timing=wanted.timing,
        )  # fmt: skip
        gc.freeze()
    if not options.rules:
        raise ConfigError("--select", ",".join(wanted.selected) or "--ignore", "leaves no rule that could check anything")
    options.selection = checked_selection(common, options)
    return options


def _checked(
    units: Sequence[Unit], work: Work[CaptureReport], wanted: LintArguments, common: CommonOptions, known: KnownFindings | None,
    targets: Sequence[Target], run: formats.Run,
) -> tuple[list[CaptureReport], bool]:  # fmt: skip
    """The reports on captures, and whether Ctrl+C ended the check. If the first target streams, findings are printed as they come."""
    stream, allow_empty = targets[0].streams, wanted.allow_empty or bool(common.settings.allow_empty)
    limit = targets[0].limit(wanted.max_findings)
    paint, width = (common.paint(sys.stdout), columns(sys.stdout)) if stream else (plain, None)
    text_of = formats.streamed(targets[0].form)[0] if stream else None
    reports, between = list[CaptureReport](), ""
    done, printed = 0, CaptureReport(path="", captures=0)
    with each_capture(units, work, killed, wanted.jobs, wanted.engine, common) as (checks, interrupted):
        for report in checks:
            report.judge_emptiness(allowed=allow_empty)
            if known is not None:
                known.apply(report)
            done += 1
            if text_of is not None and (text := text_of(limited([report], limit)[0], run, paint, width)):
                echo(between + text, nl=False)
                between = text_report.BETWEEN if targets[0].form == "text" else ""
            if stream and len(targets) == 1 and not report.remarkable:
                printed.add(report)  # memory must not grow with the number of captures
            else:
                reports.append(report)
        if interrupted():
            reports += [CaptureReport(path=public_name(str(unit)), status="interrupted") for unit in units[done:]]
    return [printed] * bool(printed.captures) + reports, interrupted()


def exit_status(reports: Iterable[CaptureReport], fail_on: str) -> int:
    """2 if a capture could not be checked, else 1 if a finding is at or above `fail_on`, else 0."""
    reports = list(reports)
    if any(report.error is not None for report in reports):
        return 2
    found = {name for report in reports for name, count in report.counts.items() if count}
    return int(max((RANKS[name] for name in found), default=0) >= RANKS[fail_on])
