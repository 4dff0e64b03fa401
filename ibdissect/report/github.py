"""Findings as annotations in GitHub Actions: workflow commands."""

from __future__ import annotations

from ibdissect.lint.finding import CaptureReport
from ibdissect.wire.text import printable

from . import Run, repository_path, worst_first
from .text import is_note

LEVELS = {"error": "error", "warning": "warning", "info": "notice"}
MOST = 10
"""Annotations of one kind that GitHub keeps of a step."""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def _annotation(kind: str, path: str, title: str, text: str) -> str:
    return f"::{kind} file={_property(repository_path(path))},title={_property(title)}::{_data(text)}\n"


def github_text(reports: list[CaptureReport], run: Run) -> str:
    """An error per capture that was not fully checked, and one annotation per finding, worst first; notes only with --infos.

    If a job summary lists all findings, the annotations beyond the `MOST` of each kind are left out.
    """
    lines: dict[str, list[str]] = {kind: [] for kind in LEVELS.values()}
    for report in reports:
        if report.incomplete is not None:
            lines["error"].append(_annotation("error", report.path, report.status, printable(report.incomplete)))
        for doubt in report.doubts if report.status == "empty" else ():
            lines["warning"].append(_annotation("warning", report.path, report.status, printable(doubt)))
    for finding in worst_first(reports):
        if is_note(finding, run):
            continue
        kind, (file, frame) = LEVELS[finding.severity.value], finding.place
        text = f"frame {frame}: {finding.message}"
        lines[kind].append(_annotation(kind, file, f"{finding.code} {finding.name}", text))
    shown = [line for found in lines.values() for line in (found[:MOST] if run.summarized else found)]
    left = sum(map(len, lines.values())) - len(shown)
    hidden = "".join(f"{printable(report.path)}: {report.left_out_text}\n" for report in reports if report.left_out)
    followed = f"{run.configuration.text}\n" if run.configuration is not None else ""
    return "".join(shown) + (f"{left} more in the job summary\n" if left else "") + hidden + followed
