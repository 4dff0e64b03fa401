"""Shared by commands: opening captures, files they write, required extras, findings, filters on findings."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from ibdissect.capture.file_names import ENDINGS, Unit, files_of
from ibdissect.capture.file_owners import followed
from ibdissect.capture.path_arguments import discover
from ibdissect.capture.recordings import one_set, sets_of
from ibdissect.cli.common_options import CommonOptions, incomplete, say
from ibdissect.cli.console import echo, progress_bar
from ibdissect.errors import ConfigError, missing_extra, writing
from ibdissect.wire.text import counted

if TYPE_CHECKING:
    from ibdissect.cli.frame_selection import FrameSelection
    from ibdissect.lint.finding import CaptureReport
    from ibdissect.pipeline.check import CheckOptions
    from ibdissect.python_interface import Capture

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


max_findings_option = click.option("--max-findings", type=MaxFindings(), default=10_000, show_default=True, help="Findings per rule.")
output_option = click.option(
    "-o", "--output", "target", required=True, metavar="FILE", help="File to write, replaced once all is written."
)
captures_argument = click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
set_option = click.option("--set", "as_set", is_flag=True, help="Read several files, such as a ring buffer's, as one capture.")

FRAME_ENDINGS = {".pcap": "pcap", ".cap": "pcap", ".pcapng": "pcapng", ".ntar": "pcapng"}
"""Extensions of captures, and the container format of each."""


def ending_of(target: str, known: Any, option: str = "--output") -> str:
    """The extension of a file to write. Raises ConfigError if it is not one of `known`."""
    ending = os.path.splitext(target)[1].lower()
    if ending not in known:
        raise ConfigError(option, target, f"unknown extension {ending}" if ending else "no extension", hint=f"use one of {' '.join(known)}")
    return ending


def require_extra(*modules: str, extra: str = "export") -> None:
    """Raise ConfigError with the install command if a module is missing."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise missing_extra(extra, *missing)


def findings_of(opened: Capture, common: CommonOptions, max_findings: int | None = None) -> CaptureReport:
    """The report on the selected frames of a capture, which is read twice. Raises CaptureError for a pipe or an unreadable capture.

    `max_findings`: of a rule; None or -1: all.
    """
    from .effective_options import check_options, say_whose_rules

    max_findings = None if max_findings is None or max_findings < 0 else max_findings

    opened.read_twice("for its findings")
    report = opened.report(check_options(common, max_findings=max_findings, selection=opened.selection))
    left = Counter(report.by_rule) - Counter(finding.code for finding in report.findings)
    if left and max_findings is not None:
        say("not all findings: " + ", ".join(f"{count} more of {code}" for code, count in left.items()))
    say_whose_rules(common)
    return report


def selection_of(opened: Capture, common: CommonOptions) -> FrameSelection | None:
    """The frames that -Y and --frames select, with findings or later answers if the filter uses them."""
    selection = common.selection(opened.catalog)
    if selection is not None and (only := selection.filter) is not None:
        selection.findings = opened.codes() if only.codes else {}
        selection.answers = opened.answers(only.names) if only.ahead else None
        if only.nodes:
            only.know(opened.ends())
    return selection


def _options(common: CommonOptions) -> CheckOptions:
    from .effective_options import check_options  # most commands need no findings

    return check_options(common, max_findings=None)


def early_options(common: CommonOptions, *, points: bool = False) -> CheckOptions | None:
    """Check options, configuration and filter before a screen is drawn. Returns the options, or None if the defaults apply.

    Loading the rules takes longer than the first rows of the screen.
    """
    options = None
    if points or common.settings.judges or common.subnet:
        from .effective_options import check_options

        options = check_options(common, points=points)
    if common.filter:
        from ibdissect.dfilter.compile import compile_filter

        compile_filter(common.filter, common.loaded()[0], hide_keys=not common.show_keys)
    return options


def source_of(paths: tuple[str, ...], as_set: bool, *, quiet: bool = False) -> Unit:
    """The capture that the arguments of a command name: a single path, or with --set all files as one."""
    if as_set:
        return one_set(set_files(paths, quiet=quiet))
    if len(paths) > 1:
        raise ConfigError("CAPTURE", paths[1], "is a second capture", hint="--set reads several files as one capture")
    return paths[0]


def units_of(paths: tuple[str, ...], as_set: bool, *, quiet: bool = False) -> Sequence[Unit]:
    """The captures that the arguments of a command name; with --set ring buffers, and the others as one."""
    return sets_of(set_files(paths, quiet=quiet)) if as_set else captures_of(paths, quiet=quiet)


def set_files(paths: tuple[str, ...], *, quiet: bool = False) -> list[str]:
    """The files that --set reads. Raises ConfigError for standard input."""
    if "-" in paths:
        raise ConfigError("--set", "-", "standard input cannot be part of a set")
    return captures_of(paths, quiet=quiet)


def open_for(path: Unit, common: CommonOptions) -> Capture:
    from ibdissect.python_interface import Capture

    subnet = common.subnet_files
    opened = Capture(path, plugins=common.plugin_names, show_keys=common.show_keys, roce_ports=common.roce_ports)
    opened.options, opened.subnet = partial(_options, common), subnet
    return opened


@contextmanager
def opened_capture(path: Unit, common: CommonOptions, *, passes: int = 0) -> Iterator[Capture]:
    """Open a command's capture and select its frames; at the end, print where it was damaged.

    Status 2 if part of it was not read or not checked. `passes`: how often it is read, for a progress bar; 0: no bar.
    """
    with open_for(path, common) as opened:
        opened.on_incomplete = incomplete
        with progress_bar([*files_of(path)] * passes, quiet=common.quiet or not passes) as opened.progress:
            opened.selection = selection_of(opened, common)
            yield opened
        selection = opened.selection
        if selection is not None and selection.absent:
            common.tell(f"warning: {opened.path}: --frames: {selection.absent}")
        common.tell_damage(opened.path, opened.damage)
        tell_untold(opened.path, opened.masker.dropped.count, common)
        tell_lacking(opened.path, lacking(opened), common)


def tell_untold(path: str, count: int, common: CommonOptions) -> None:
    """Say how many keys have no number of their own."""
    if count:
        common.tell(f"warning: {path}: {count} keys have no number of their own (shown as #?)")


def lacking(opened: Capture) -> tuple[tuple[str, int, int], ...]:
    """What there was too much of to remember: in words, from which frame on, and how many were left out."""
    return tuple((one.what, one.frame, one.count) for one in opened.dropped if one.count)


def tell_lacking(path: str, lacks: Iterable[tuple[str, int, int]], common: CommonOptions) -> None:
    """Say what is missing in the output."""
    for what, frame, count in lacks:
        common.tell(f"warning: {path}: too many {what} to remember: {count:,} from frame {frame:,} on are not shown")


def captures_of(paths: tuple[str, ...], *, quiet: bool = False) -> list[str]:
    """The captures that path arguments name; `-` alone for standard input. Says which files it skips, unless `quiet`. ConfigError,
    CaptureError.
    """
    if "-" in paths:
        if len(paths) > 1:
            raise ConfigError("PATH", "-", "standard input cannot be read together with files")
        return ["-"]
    found = discover(paths)
    if found.left_out and not quiet:
        say(f"skipped {counted(found.left_out, 'file')} without a capture extension")
    return found.files


def refuse_captures(files: Sequence[str], **targets: str | None) -> None:
    """Raise ConfigError for an option whose file, the target, is one of the captures, or by its name another one that is there.

    `lint --write-baseline *.pcap` names the first capture as the file to write.
    """
    for name, target in targets.items():
        if target is not None and os.path.exists(target) and any(os.path.exists(file) and os.path.samefile(target, file) for file in files):
            raise ConfigError(f"--{name.replace('_', '-')}", target, "is one of the captures", hint="name another file")
        if target is not None and name != "write" and target.endswith(ENDINGS) and os.path.exists(target):
            raise ConfigError(f"--{name.replace('_', '-')}", target, "is a capture by its name", hint="name the file to write first")


def write_text(result: str, output: str | None) -> None:
    """Write a report to standard output or a file. CaptureError if the file cannot be written."""
    if output in (None, "-", "/dev/stdout"):  # also appends if it is redirected to a file
        echo(result, nl=False)
        return
    from ibdissect.export.whole_files import replacing

    with writing(output):
        followed(output)
    special = os.path.exists(output) and not os.path.isfile(output)  # a pipe or terminal cannot be replaced
    with writing(output), open(output, "wb") if special else replacing(output) as file:
        file.write(result.encode())
