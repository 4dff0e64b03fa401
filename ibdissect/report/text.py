"""How are findings shown in a terminal or a CI log?"""

from __future__ import annotations

from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.wire.text import Paint, counted, plain, printable

from . import Followed, Run, totals


def capture_text(report: CaptureReport, paint: Paint = plain) -> str:
    """The findings of one capture; empty if there are none."""
    lines = [line for finding in report.findings for line in _finding_lines(finding, report.path, paint)]
    hidden = sum(report.by_rule.values()) - len(report.findings)
    if hidden > 0:
        lines.append(f"{printable(report.path)}: {counted(hidden, 'more finding')} not shown (--max-findings none shows all)")
    return "".join(line + "\n" for line in lines)


def report_text(reports: list[CaptureReport], run: Run) -> str:
    return "".join(capture_text(report) + _notes(report) for report in reports) + summary_text(reports, len(run.rules), run.configuration)


def _notes(report: CaptureReport) -> str:
    """What was not checked, and reasons to doubt the findings; on a terminal they are messages of the command."""
    said = [] if report.incomplete is None else [f"error: {report.incomplete}"]
    said += [f"warning: {report.path}: {doubt}" for doubt in report.doubts]
    return "".join(printable(line) + "\n" for line in said)


def _finding_lines(finding: Finding, path: str, paint: Paint) -> list[str]:
    severity = finding.severity.value
    times = f" ×{finding.count}" if finding.count > 1 else ""
    head = f"{finding.severity.sign} {severity} {finding.code}"
    file, frame = finding.place
    where = f"{printable(file or path)}:{frame}" if frame else printable(path)
    lines = [f"{paint(where, 'path')}: {paint(head, severity)} {finding.name}{times}: {finding.message}"]
    if finding.context:
        lines.append(paint(f"    frame {frame}: {finding.context}", "faint"))
    if finding.related:
        lines.append(paint("    see " + ", ".join(f"{r.place} ({r.why})" for r in finding.related), "faint"))
    return lines


def summary_text(reports: list[CaptureReport], rules: int, configuration: Followed | None = None) -> str:
    """The last lines: totals, whose rules these are, and how to explain a rule."""
    followed = f"By {configuration.text}.\n" if configuration is not None else ""
    counts, by_rule = totals(reports)
    frames = sum(report.checked for report in reports)
    captures = sum(report.captures for report in reports if report.frames or report.status not in ("interrupted", "unreadable"))
    what = f"{counted(frames, 'frame', ',')} in {counted(captures, 'capture')} checked with {counted(rules, 'rule')}"
    broken = {status: sum(report.status == status for report in reports) for status in ("unreadable", "failed", "empty", "interrupted")}
    tail = "".join(f", {count} {status}" for status, count in broken.items() if count)
    if not by_rule:
        return f"{'No findings' if frames else 'Nothing was checked'}: {what}{tail}.\n{followed}"
    parts = [counted(count, name) for name, count in counts.items() if count]
    codes = [finding.code for name in counts for report in reports for finding in report.findings if finding.severity == name]
    explain = f"Explain a rule: ibdissect rules {codes[0]}\n" if codes else ""
    return f"Found {', '.join(parts)}: {what}{tail}.\n{followed}{explain}"


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
