"""Findings as Markdown, for a job summary, a ticket or a comment."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ibdissect.lint.finding import CaptureReport
from ibdissect.lint.rule_page import markdown, sections, summary, unmarked
from ibdissect.wire.text import counted, printable

from . import Run, repository_path, worst_first
from .text import is_note, totals_text

MOST_BYTES = 900_000
"""Size of the table of findings; GitHub drops a job summary above 1 MiB."""


def markdown_text(reports: list[CaptureReport], run: Run) -> str:
    """Totals, a table of the findings, worst first, and the pages of their rules, folded."""
    head = totals_text(reports, len(run.rules), run.baseline)
    return "\n".join(["## ibdissect", "", f"**{head}**", "", *_notes(reports, run), *_table(reports, run), *_pages(reports, run), ""])


def _notes(reports: list[CaptureReport], run: Run) -> Iterator[str]:
    for report in reports:
        if report.incomplete is not None:
            yield f"- ✖ {report.status}: {unmarked(report.incomplete)}"
        for doubt in report.doubts:
            yield f"- ⚠ {unmarked(report.path)}: {unmarked(doubt)}"
    if run.configuration is not None:
        yield f"- {unmarked(run.configuration.text)}"
    if run.baseline is not None:
        counts = f"{run.baseline['known']} known, {run.baseline['new']} new, {sum(one['count'] for one in run.baseline['fixed'])} fixed"
        yield f"- baseline {unmarked(run.baseline['path'])}: {counts}"


def _table(reports: list[CaptureReport], run: Run) -> Iterator[str]:
    found = worst_first(reports)
    findings = [finding for finding in found if not is_note(finding, run)]
    if len(findings) < len(found):
        yield f"- {counted(len(found) - len(findings), 'info')} of rules whose advice is to do nothing: --infos lists them"
    if not findings:
        return
    yield from ("", "| severity | rule | capture | frame | finding |", "|---|---|---|--:|---|")
    size = 0
    for done, one in enumerate(findings):
        times = f" (×{one.count})" if one.count > 1 else ""
        severity = one.severity.value
        cells = (f"{one.severity.sign} {severity}", f"{one.code} {one.name}", unmarked(repository_path(one.place[0])), one.place[1])
        row = f"| {' | '.join(map(str, cells))} | {unmarked(one.message)}{times} |"
        size += len(row.encode())
        if size > MOST_BYTES:
            yield from ("", f"{counted(len(findings) - done, 'more finding')} not listed.")
            break
        yield row
    yield ""
    hidden = sum(sum(report.by_rule.values()) - len(report.findings) for report in reports)
    if hidden > 0:
        yield from (f"{counted(hidden, 'more finding')} beyond `--max-findings`.", "")


def _pages(reports: list[CaptureReport], run: Run) -> Iterator[str]:
    used = {finding.code for report in reports for finding in report.findings if not is_note(finding, run)}
    for rule in run.rules:
        if rule.code in used:
            yield f"<details><summary>{rule.code} {rule.name}: {escape(printable(summary(rule)))}</summary>\n"
            yield markdown(sections(rule), "####", plain=not rule.of_code)
            yield "\n</details>"
