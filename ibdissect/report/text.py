"""Findings for people, in a terminal or a CI log: the worst first, by rule, with three examples."""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.lint.rule_page import TO_DO, sections, summary
from ibdissect.wire.text import Paint, counted, plain, printable

from . import Run, totals
from .joined_sentences import alike

INFO = Severity.INFO
EXAMPLES = 3
"""Findings of a rule that are shown with their sentence."""
LISTS_ALL = "--format concise lists all"
LISTED, NAMED = 12, 24
"""Further frames of a rule, and ports in one list, that are named."""
INDENT = " " * 4
BETWEEN = "\n"
"""Between two captures."""


def capture_text(report: CaptureReport, run: Run, paint: Paint = plain, width: int | None = None) -> str:
    """The findings of one capture, the worst first; empty if there are none to show.

    `width`: columns of a terminal, where lines are wrapped; None: one line each, for pipes and files.
    """
    groups: dict[tuple[int, str], list[Finding]] = {}
    for finding in report.findings:
        if finding.severity != INFO or run.infos:
            groups.setdefault((-finding.severity.rank, finding.code), []).append(finding)
    lines = [line for _, some in sorted(groups.items(), key=lambda item: item[0][0]) for line in _rule(some, report, run, paint, width)]
    if run.infos is None:
        lines += _wrapped("ℹ ", "info", _infos(report, run), paint, width)
    if not lines:
        return ""
    head = _wrapped(printable(report.path), "path", f"  {counted(report.frames, 'frame', ',')}{_span(report)}", paint, width)
    return "".join(line + "\n" for line in (*head, *lines))


def report_text(reports: list[CaptureReport], run: Run) -> str:
    parts = (capture_text(report, run) + notes_of(report) for report in reports)
    return BETWEEN.join(part for part in parts if part) + closing_text(reports, run)


def notes_of(report: CaptureReport) -> str:
    """What was not checked, and reasons to doubt the findings; on a terminal they are messages of the command."""
    said = [] if report.incomplete is None else [f"error: {report.incomplete}"]
    said += [f"warning: {report.path}: {doubt}" for doubt in report.doubts]
    return "".join(printable(line) + "\n" for line in said)


def is_note(finding: Finding, run: Run) -> bool:
    """Whether a finding is hidden unless infos are asked for: an info of a rule whose advice is to do nothing."""
    return finding.severity == INFO and not run.infos and finding.code in run.notes


def _span(report: CaptureReport) -> str:
    """`, 2026-11-21 02:10:03 to 02:10:21 UTC`; ` in 0.003600 s, 2026-11-21 02:10:03 UTC`; empty if the capture has no times."""
    if report.first_ns <= 0 or report.last_ns < report.first_ns:
        return ""
    if report.last_ns - report.first_ns < 1_000_000_000:
        begin = datetime.fromtimestamp(report.first_ns // 1_000_000_000, UTC)
        return f" in {(report.last_ns - report.first_ns) / 1e9:.6f} s, {begin:%Y-%m-%d %H:%M:%S} UTC"
    first, last = (datetime.fromtimestamp(ns // 1_000_000_000, UTC) for ns in (report.first_ns, report.last_ns))
    end = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f", {first:%Y-%m-%d %H:%M:%S} to {end} UTC"


def _rule(findings: Sequence[Finding], report: CaptureReport, run: Run, paint: Paint, width: int | None) -> list[str]:
    """The findings of a rule: what the fault is, examples, the frames of all others, and what to do."""
    first, rule = findings[0], run.by_code.get(findings[0].code)
    severity = first.severity.value
    total = _total(first.code, findings, report)
    packets = sum(finding.count for finding in findings)
    often = counted(total, "finding") + (f", {packets} packets" if packets > total else "")
    said = (summary(rule).rstrip(".") if rule is not None else "") or first.name
    lines = _wrapped(f"{first.severity.sign} {severity} {first.code}", severity, f" {said}  ({often})", paint, width)
    sentences, shown = alike([finding.message for finding in findings]), 0
    for one in sentences[:EXAMPLES]:
        some = [findings[index] for indices in one.places for index in indices]
        shown += len(some)
        times = sum(finding.count for finding in some)
        what = f"  {_when(some[0], report)}{one.text}" + (f" ×{times}" if times > 1 else "")
        lines += _wrapped(f"{INDENT}{_place(some[0])}", "path", what, paint, width)
        rest = [f"{name} {_place(findings[indices[0]])}" for name, indices in zip(one.names, one.places, strict=False)]
        rest = rest or [_place(finding) for finding in some[1:]]
        if rest:
            most = NAMED if one.names else LISTED
            more = "" if len(rest) <= most else f" and {len(rest) - most} more"
            lines += _wrapped(INDENT * 2, "faint", ("" if one.names else "also ") + ", ".join(rest[:most]) + more, paint, width)
    if total > shown:
        unsaid = sorted(index for one in sentences[EXAMPLES:] for indices in one.places for index in indices)
        places = ", ".join(_place(findings[index]) for index in unsaid[:LISTED])
        lines += _wrapped(INDENT, "faint", f"and {total - shown} more ({LISTS_ALL})" + (f": {places}" if places else "")
                          + (", ..." if places and total - shown > LISTED else ""), paint, width)  # fmt: skip
    if rule is not None and (advice := sections(rule).get(TO_DO, "")):
        lines += _wrapped(f"{INDENT}do:", "faint", f" {_sentence(advice)}", paint, width)
    return lines


def _total(code: str, findings: Sequence[Finding], report: CaptureReport) -> int:
    """How many findings of a severity a rule has: exact where all of the rule's are of that severity, else those listed."""
    alone = all(other.severity == findings[0].severity for other in report.findings if other.code == code)
    return max(report.by_rule.get(code, 0), len(findings)) if alone else len(findings)


def _place(finding: Finding) -> str:
    """`:31`, or of a set `cap_2.pcap:31`."""
    file, frame = finding.place
    name = printable(os.path.basename(file)) if finding.file else ""
    return f"{name}:{frame}" if frame else name


def _when(finding: Finding, report: CaptureReport) -> str:
    """`+1.253 s  `: since the capture's start."""
    if not finding.frame or not report.first_ns:
        return ""
    digits = 3 if report.last_ns - report.first_ns >= 1_000_000_000 else 6
    return f"{(finding.time_ns - report.first_ns) / 1e9:+.{digits}f} s  "


def _sentence(text: str) -> str:
    """The first sentence of a paragraph, on one line."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", " ".join(text.split()), maxsplit=1)[0]


def _infos(report: CaptureReport, run: Run) -> str:
    """`14 infos (--infos shows them): TXN001 4, MKY005 2`; empty without infos that are more than notes."""
    listed = Counter(finding.code for finding in report.findings if finding.severity == INFO and not is_note(finding, run))
    counts = {code: _total(code, [one for one in report.findings if one.code == code and one.severity == INFO], report) for code in listed}
    codes = ", ".join(f"{code} {count}" for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return f"{counted(sum(counts.values()), 'info')} (--infos shows them): {codes}" if codes else ""


def _wrapped(mark: str, style: str, text: str, paint: Paint, width: int | None) -> list[str]:
    """A line that begins with a painted mark, wrapped to the width of a terminal; none without text."""
    if not text:
        return []
    line = mark + text
    if width is None or len(line) <= width:
        return [f"{paint(mark, style)}{text}"]
    indent = " " * (len(mark) - len(mark.lstrip()) + 4)
    lines = textwrap.wrap(line, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    if lines[0].startswith(mark):
        lines[0] = paint(mark, style) + lines[0][len(mark) :]
    return lines


def totals_text(reports: Iterable[CaptureReport], rules: int, baseline: Mapping[str, Any] | None = None) -> str:
    """What was found in how many frames, as a sentence; and how many findings a baseline hides."""
    reports = list(reports)
    counts, by_rule = totals(reports)
    frames = sum(report.checked for report in reports)
    captures = sum(report.captures for report in reports if report.frames or report.status not in ("interrupted", "unreadable"))
    what = f"{counted(frames, 'frame', ',')} in {counted(captures, 'capture')} checked with {counted(rules, 'rule')}"
    broken = {status: sum(report.status == status for report in reports) for status in ("unreadable", "failed", "empty", "interrupted")}
    what += "".join(f", {count} {status}" for status, count in broken.items() if count)
    known = baseline["known"] if baseline is not None else 0
    hidden = f", {counted(known, 'known finding')} hidden" if known else ""
    if not by_rule:
        nothing = "No new findings" if known else "No findings"
        return f"{nothing if frames else 'Nothing was checked'}{hidden}: {what}."
    return f"Found {', '.join(counted(count, name) for name, count in counts.items() if count)}{hidden}: {what}."


def closing_text(reports: list[CaptureReport], run: Run, width: int | None = None) -> str:
    """The last line: what was found, whether the check failed and why, whose rules these are, and how to explain one.

    `width`: columns of a terminal, where it is wrapped.
    """
    counts, _ = totals(reports)
    worst = [finding for report in reports for finding in report.findings if finding.severity != INFO or run.infos]
    worst.sort(key=lambda finding: -finding.severity.rank)
    explain = f" Explain a rule: ibdissect rules {worst[0].code}" if worst else ""
    followed = f" By {run.configuration.text}." if run.configuration is not None else ""
    line = f"{totals_text(reports, len(run.rules), run.baseline)} {_verdict(reports, counts, run)}{followed}{explain}"
    return "".join(one + "\n" for one in _wrapped("", "", line, plain, width))


def _verdict(reports: Iterable[CaptureReport], counts: dict[str, int], run: Run) -> str:
    if any(report.status == "interrupted" for report in reports):
        return "Interrupted."
    if broken := sum(report.error is not None for report in reports):
        return f"Failed: {counted(broken, 'capture')} could not be checked."
    failing = [level for level in Severity if counts[level.value] and level.rank >= run.fail_rank]
    if run.exit_zero:
        return "Passed, whatever was found (--exit-zero)." if failing else "Passed."
    limit = next((level.value for level in Severity if level.rank == run.fail_rank), "never")
    if failing:
        return f"Failed: there are {' and '.join(f'{level.value}s' for level in failing)} (--fail-on {limit})."
    return f"Passed (--fail-on {limit})." if any(counts.values()) else "Passed."


def statistics_text(reports: list[CaptureReport], names: dict[str, str]) -> str:
    """Findings by rule, most frequent first."""
    _, by_rule = totals(reports)
    rows = sorted(by_rule.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{count:8d}  {code}  {names.get(code, '')}\n" for code, count in rows)


def timing_text(reports: list[CaptureReport]) -> str:
    """Seconds by rule, slowest first."""
    seconds: dict[str, float] = {}
    for report in reports:
        for code, value in report.seconds.items():
            seconds[code] = seconds.get(code, 0.0) + value
    rows = sorted(seconds.items(), key=lambda item: -item[1])
    return "".join(f"{value * 1000:10.1f} ms  {code}\n" for code, value in rows if value)
