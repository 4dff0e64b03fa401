"""Findings that are new, or fixed, since an earlier check. Findings with the same sentence are the same, as for `diff`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct as Record

from ibdissect.errors import ConfigError
from ibdissect.lint.baseline import parse_baseline
from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.subnet import Subnet

Fault = tuple[str, str]
"""Code, and a sentence that another recording of the same fault has, too."""
PASSING = re.compile(r"(?<!LID )(?<!port )(?<!block )(?<![\w.:])\d+(?:\.\d+)?(?![\w.:]*\w)|(?<=_Key#)\d+|(?<=\bQP )0x[0-9a-f]+")
"""Numbers of a finished message that differ between recordings."""


class Before(Record):
    """What an earlier check found."""

    name: str
    faults: dict[Fault, str]
    """Each fault with the message to show."""
    fault: Callable[[Finding], Fault]
    """What a finding of today is called in `faults`."""
    subnet: Subnet | None = None
    """Of a single capture that shows its subnet."""


class CheckDifference(Record):
    """The difference between two checks, by fault."""

    name: str
    new: set[int]
    """`id` of each finding that is new."""
    known: int
    """Findings that were there before."""
    fixed: list[tuple[str, str]]
    """Code and message of each fault that is gone."""
    changes: list[str]
    """What changed in the subnet: lines that begin with `+`, `-` or `~`."""


def stable(finding: Finding) -> Fault:
    """A fault by its exact sentence."""
    return finding.code, finding.stable


def shown_message(finding: Finding) -> Fault:
    """A fault by its message, all that a JSON report has."""
    return finding.code, PASSING.sub("#", finding.message)


def before_of_reports(name: str, reports: Iterable[CaptureReport]) -> Before:
    """What other captures show."""
    return Before(name, {stable(finding): finding.message for report in reports for finding in report.findings}, stable)


def before_of_json(name: str, text: str) -> Before:
    """What a file says: a baseline, or a report of `lint --format json`. ConfigError if it is neither."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("--compare", name, f"is not valid JSON: {error}", hint="write it with lint --format json") from error
    if isinstance(found, list):
        entries = parse_baseline(text, name).entries.values()
        return Before(name, {(entry.code, entry.message): entry.message for entry in entries}, stable)
    listed = found.get("findings") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ConfigError("--compare", name, "is neither a report nor a baseline", hint="write it with lint --format json")
    messages = [(str(one.get("code")), str(one.get("message"))) for one in listed]
    return Before(name, {(code, PASSING.sub("#", message)): message for code, message in messages}, shown_message)


def compare(before: Before, reports: Iterable[CaptureReport], changes: Iterable[str] = ()) -> CheckDifference:
    """What is new and what is fixed in `reports`."""
    findings = [(before.fault(finding), finding) for report in reports for finding in report.findings]
    new = {id(finding) for fault, finding in findings if fault not in before.faults}
    gone = before.faults.keys() - {fault for fault, _ in findings}
    fixed = sorted((code, before.faults[code, text]) for code, text in gone)
    return CheckDifference(before.name, new, len(findings) - len(new), fixed, list(changes))
