"""Findings as text for people and as the formats other programs read; one module a format, each a function to text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibdissect.lint.result import CaptureReport

FORMATS = ("text", "json", "jsonl", "sarif", "junit", "github")


def totals(reports: Iterable[CaptureReport]) -> tuple[dict[str, int], dict[str, int]]:
    """Exact findings by severity and by rule over several captures."""
    counts, by_rule = Counter[str](error=0, warning=0, info=0), Counter[str]()
    for report in reports:
        counts.update(report.counts)
        by_rule.update(report.by_rule)
    return {name: counts[name] for name in ("error", "warning", "info")}, dict(sorted(by_rule.items()))
