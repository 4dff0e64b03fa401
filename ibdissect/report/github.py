"""How do findings become annotations in GitHub Actions? As workflow commands."""

from __future__ import annotations

from ibdissect.lint.result import CaptureReport
from ibdissect.wire.text import printable

from . import Run

LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def github_text(reports: list[CaptureReport], run: Run) -> str:
    """One annotation per finding, and an error annotation per capture that was not fully checked."""
    lines = []
    for report in reports:
        if report.incomplete is not None:
            lines.append(f"::error file={_property(report.path)},title={report.status}::{_data(printable(report.incomplete))}")
        for finding in report.findings:
            title = _property(f"{finding.code} {finding.name}")
            text = _data(f"frame {finding.frame}: {finding.message}")
            lines.append(f"::{LEVELS[finding.severity.value]} file={_property(report.path)},title={title}::{text}")
    return "".join(line + "\n" for line in lines)
