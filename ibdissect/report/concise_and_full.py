"""Findings listed one by one: on a line each (`concise`), or with their frame and what proves them (`full`)."""

from __future__ import annotations

from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.wire.text import Paint, counted, plain, printable

from . import Run, totals
from .text import INFO, closing_text, is_note, notes_of, totals_text


def concise_capture(report: CaptureReport, run: Run, paint: Paint = plain, width: int | None = None) -> str:
    """`path:frame: severity CODE message` for each finding, in order of frames; empty if there are none."""
    shown = [finding for finding in report.findings if not is_note(finding, run) and (finding.severity != INFO or run.infos is not False)]
    lines = [
        f"{paint(_place(finding, report.path), 'path')}: {paint(finding.severity.value, finding.severity.value)} {finding.code} "
        + finding.message
        for finding in shown
    ]  # fmt: skip
    if report.left_out_text:
        lines.append(f"{printable(report.path)}: {report.left_out_text}")
    return "".join(line + "\n" for line in lines)


def concise_text(reports: list[CaptureReport], run: Run) -> str:
    return "".join(concise_capture(report, run) + notes_of(report) for report in reports) + closing_text(reports, run)


def full_capture(report: CaptureReport, run: Run, paint: Paint = plain, width: int | None = None) -> str:
    """Each finding with the line of its frame and the frames that prove it, in order of frames; empty if there are none."""
    shown = [finding for finding in report.findings if finding.severity != INFO or run.infos is not False]
    lines = [line for finding in shown for line in _finding_lines(finding, report.path, paint)]
    if report.left_out:
        lines.append(f"{printable(report.path)}: {counted(report.left_out, 'more finding')} not shown (--max-findings none shows all)")
    return "".join(line + "\n" for line in lines)


def full_text(reports: list[CaptureReport], run: Run) -> str:
    return "".join(full_capture(report, run) + notes_of(report) for report in reports) + full_summary(reports, run)


def full_summary(reports: list[CaptureReport], run: Run, width: int | None = None) -> str:
    """The last lines: totals, whose rules these are, and how to explain one."""
    counts, _ = totals(reports)
    codes = [finding.code for name in counts for report in reports for finding in report.findings if finding.severity == name]
    followed = f"By {run.configuration.text}.\n" if run.configuration is not None else ""
    explain = f"Explain a rule: ibdissect rules {codes[0]}\n" if codes else ""
    return f"{totals_text(reports, len(run.rules), run.baseline)}\n{followed}{explain}"


def _place(finding: Finding, path: str) -> str:
    file, frame = finding.place
    return f"{printable(file or path)}:{frame}" if frame else printable(path)


def _finding_lines(finding: Finding, path: str, paint: Paint) -> list[str]:
    severity = finding.severity.value
    times = f" ×{finding.count}" if finding.count > 1 else ""
    head = f"{finding.severity.sign} {severity} {finding.code}"
    lines = [f"{paint(_place(finding, path), 'path')}: {paint(head, severity)} {finding.name}{times}: {finding.message}"]
    if finding.context:
        lines.append(paint(f"    frame {finding.place[1]}: {finding.context}", "faint"))
    if finding.related:
        lines.append(paint("    see " + ", ".join(f"{r.place} ({r.why})" for r in finding.related), "faint"))
    return lines
