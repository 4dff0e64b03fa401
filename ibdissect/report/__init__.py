"""Report formats: one module each, with a function from reports to text, listed in FORMATS."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record

from ibdissect.wire.text import printable

if TYPE_CHECKING:
    from ibdissect.capture.digest import Digest
    from ibdissect.lint.finding import CaptureReport, Finding
    from ibdissect.lint.path_ignores import PathIgnores
    from ibdissect.lint.rule import Rule

FORMATS = {
    "text": "text:report_text", "concise": "concise_and_full:concise_text", "full": "concise_and_full:full_text", "json": "json:json_text",
    "jsonl": "json:jsonl_text", "sarif": "sarif:sarif_text", "junit": "junit:junit_text",
    "github": "github:github_text", "gitlab": "gitlab:gitlab_text", "markdown": "markdown:markdown_text", "html": "html:page_text",
}  # fmt: skip
"""Name of a format -> module and function, imported on use. A function takes the reports and the Run."""
STREAMED = {
    "text": ("text:capture_text", "text:closing_text"), "concise": ("concise_and_full:concise_capture", "text:closing_text"),
    "full": ("concise_and_full:full_capture", "concise_and_full:full_summary"),
}  # fmt: skip
"""Formats that print the findings of a capture as soon as it is checked, if they go to standard output: the functions for a capture (a
report, the Run, a painter, the columns of the terminal), and for the end (as in FORMATS, and the columns)."""
FOR_PEOPLE = ("text", "full", "markdown", "html")
"""Formats that list some findings of a rule; the others list all."""

WITHOUT_CONFIGURATION = ("jsonl", "gitlab")
"""Formats with no place for the configuration that was followed."""
WITH_DIGESTS = ("sarif", "html")
"""Formats that show size and SHA-256 of the captures, which are read once more for it."""


class Followed(Record, frozen=True):
    """The configuration file that a run followed."""

    path: str
    keys: tuple[str, ...]
    """Its keys that decided about findings, severities or exit status."""

    @property
    def text(self) -> str:
        return f"configuration {printable(self.path)}: {', '.join(self.keys)}"

    def object(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"path": self.path, "keys": list(self.keys)}


class Run(Record, frozen=True, kw_only=True, dict=True):
    """What a format may need besides the reports."""

    rules: tuple[type[Rule], ...] = ()
    """The rules that ran."""
    fail_rank: int = 3
    """Least severity rank of a finding that counts as a failure."""
    baseline: dict[str, Any] | None = None
    """The comparison with known findings, as JSON has it."""
    configuration: Followed | None = None
    """None if no configuration decided anything."""
    summarized: bool = False
    """Whether a job summary lists all findings, so that annotations may be left out."""
    ignored: PathIgnores | None = None
    """Which of `rules` did not check captures at certain paths."""
    infos: bool | None = None
    """Whether formats for terminals show infos: True, all; None, only their number; False, not even that."""
    exit_zero: bool = False
    """Whether the job passes whatever is found."""
    began_s: float = 0.0
    """When the run began, seconds since 1970."""
    digests: Mapping[str, Digest] = {}
    """Size and SHA-256 of the captures that are files, by path, where a format shows them."""

    @cached_property
    def by_code(self) -> dict[str, type[Rule]]:
        """The rules by code."""
        return {rule.code: rule for rule in self.rules}

    @cached_property
    def notes(self) -> frozenset[str]:
        """Codes of rules whose advice is to do nothing."""
        return frozenset(rule.code for rule in self.rules if rule.is_note)

    def rules_for(self, path: str) -> Iterable[type[Rule]]:
        """The rules that checked a capture."""
        return self.rules if self.ignored is None else self.ignored.rules_for(path, self.rules)


def render(name: str, reports: list[CaptureReport], run: Run) -> str:
    """The text of all reports in a format of FORMATS."""
    text: str = _function(FORMATS[name])(reports, run)
    return text


def streamed(name: str) -> tuple[Callable[..., str], Callable[..., str]]:
    """The functions of a format of STREAMED: for a capture, and for the end."""
    capture, end = STREAMED[name]
    return _function(capture), _function(end)


def _function(name: str) -> Callable[..., str]:
    module, function = name.split(":")
    found: Callable[..., str] = getattr(import_module(f".{module}", __name__), function)
    return found


def worst_first(reports: Iterable[CaptureReport]) -> list[Finding]:
    """All findings by severity; among those the first of each rule and capture, then the second of each, and so on."""
    seen = Counter[tuple[str, str]]()
    placed: list[tuple[int, int, int, Finding]] = []
    for finding in (finding for report in reports for finding in report.findings):
        kind = finding.code, finding.capture
        placed.append((-finding.severity.rank, seen[kind], len(placed), finding))
        seen[kind] += 1
    return [finding for *_, finding in sorted(placed, key=lambda one: one[:3])]


def first_of_each(findings: Iterable[Finding], limit: int | None) -> list[Finding]:
    """The first findings of each rule."""
    counts, kept = Counter[str](), []
    for finding in findings:
        counts[finding.code] += 1
        if limit is None or counts[finding.code] <= limit:
            kept.append(finding)
    return kept


def repository_path(path: str) -> str:
    """A path as the views of GitHub and GitLab need it: in a job there, relative to the repository's root if it is below that."""
    root = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR")
    if root and path != "-" and "://" not in path:
        relative = os.path.relpath(path, root)
        if not relative.startswith(os.pardir):
            path = relative
    return path.replace(os.sep, "/")


def totals(reports: Iterable[CaptureReport]) -> tuple[dict[str, int], dict[str, int]]:
    """Exact number of findings by severity and by rule over several captures."""
    counts, by_rule = Counter[str](error=0, warning=0, info=0), Counter[str]()
    for report in reports:
        counts.update(report.counts)
        by_rule.update(report.by_rule)
    return {name: counts[name] for name in ("error", "warning", "info")}, dict(sorted(by_rule.items()))
