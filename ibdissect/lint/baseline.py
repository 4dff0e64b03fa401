"""Which findings are known already, which are new, which are gone? A baseline: findings by fingerprint, one a line."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from ibdissect.errors import ConfigError

from .finding import Finding
from .result import CaptureReport

SCHEMA = 1
MOST = 10_000
"""Findings of a rule in a capture that are told apart; those beyond are counted."""
BEYOND = "beyond"
"""Stands for the fingerprint of those that are only counted."""
KEYS = {"capture": str, "code": str, "count": int, "fingerprint": str, "message": str}

Key = tuple[str, str, str]
"""capture, code, fingerprint."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A known fault of a capture, and how many findings say it."""

    capture: str
    """Relative to the baseline's folder, with slashes."""
    code: str
    fingerprint: str
    message: str
    """The finding's sentence without what another recording of the same fault would change; shows no key."""
    count: int

    @property
    def key(self) -> Key:
        """What makes it the same in another run."""
        return self.capture, self.code, self.fingerprint


@dataclass(slots=True)
class Baseline:
    """Known findings, and where the file that holds them stands."""

    path: str
    """The file; captures are named relative to its folder."""
    entries: dict[Key, Entry] = field(default_factory=dict)

    def name_of(self, capture: str) -> str:
        """A capture's path as this baseline names it."""
        return name_from(os.path.dirname(os.path.abspath(self.path)), capture)


@dataclass(slots=True)
class Compared:
    """What a comparison with a baseline came to, over all captures."""

    path: str
    known: int = 0
    """Findings that were there before, and are hidden."""
    new: int = 0
    fixed: list[Entry] = field(default_factory=list)
    """What is not found any more; the count says how many of it."""
    unchecked: int = 0
    """Findings of captures or rules that this run did not check."""

    def object(self) -> dict[str, Any]:
        """As JSON."""
        fixed = [{"capture": e.capture, "code": e.code, "count": e.count, "message": e.message} for e in self.fixed]
        return {"path": self.path, "known": self.known, "new": self.new, "fixed": fixed, "unchecked": self.unchecked}


def name_from(folder: str, capture: str) -> str:
    """A capture's path as seen from a folder, however it was written, with slashes; standard input stays "-"."""
    return capture if capture == "-" else os.path.relpath(capture, folder).replace(os.sep, "/")


def fingerprint(capture: str, finding: Finding) -> str:
    """What makes a finding the same in another run: rule, capture and what its sentence says - never the frame number."""
    return hashlib.sha256(f"{finding.code}\0{capture}\0{finding.stable}".encode(errors="backslashreplace")).hexdigest()[:32]


def entries_of(reports: Iterable[CaptureReport], baseline: Baseline) -> list[Entry]:
    """Everything found, as entries of a baseline, sorted."""
    found: dict[Key, Entry] = {}
    for report in reports:
        name = baseline.name_of(report.path)
        beyond = Counter(report.by_rule)
        for finding in report.findings:
            entry = Entry(name, finding.code, fingerprint(name, finding), finding.stable, 1)
            known = found.get(entry.key)
            found[entry.key] = entry if known is None else Entry(*entry.key, entry.message, known.count + 1)
            beyond[finding.code] -= 1
        for code, count in beyond.items():
            if count > 0:
                entry = Entry(name, code, BEYOND, f"findings beyond the first {MOST}", count)
                found[entry.key] = entry
    return sorted(found.values())


def baseline_text(entries: Iterable[Entry]) -> str:
    """The file: JSON, whose every line stands for itself, so that version control merges it."""
    lines = [json.dumps({"schema": SCHEMA, "tool": "ibdissect baseline"})]
    for entry in sorted(entries):
        values = {"capture": entry.capture, "code": entry.code, "count": entry.count, "fingerprint": entry.fingerprint}
        lines.append(json.dumps(values | {"message": entry.message}))
    return "[" + "\n,".join(lines) + "\n]\n"


def parse_baseline(text: str, path: str) -> Baseline:
    """A baseline from the text of its file. ConfigError names the file and what is wrong with it."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        conflict = any(one.startswith(("<<<<<<<", ">>>>>>>")) for one in text.splitlines())
        hint = "resolve the conflict: both sides' lines may stay" if conflict else "write it anew with --write-baseline"
        raise ConfigError(path, f"line {line}" if line else "file", "is a damaged baseline: no JSON", hint=hint) from error
    head = values[0] if isinstance(values, list) and values else None
    if not isinstance(head, dict) or head.get("tool") != "ibdissect baseline":
        raise ConfigError(path, "file", "is no baseline of ibdissect", hint="write one with --write-baseline")
    if head.get("schema") != SCHEMA:
        raise ConfigError(path, "schema", f"is {head.get('schema')!r}, known is {SCHEMA}", hint="a newer ibdissect wrote it")
    baseline = Baseline(path)
    for number, value in enumerate(values[1:], 2):
        right = isinstance(value, dict) and value.keys() == KEYS.keys() and all(type(value[key]) is kind for key, kind in KEYS.items())
        if not right or value["count"] < 1:
            hint = f"a finding has {', '.join(KEYS)}; write it anew with --write-baseline"
            raise ConfigError(path, f"entry {number}", "is a damaged baseline: no finding", hint=hint)
        entry = Entry(value["capture"], value["code"], value["fingerprint"], value["message"], value["count"])
        known = baseline.entries.get(entry.key)
        if known is None or known.count < entry.count:  # both sides of a merge may hold it
            baseline.entries[entry.key] = entry
    return baseline


class Comparison:
    """Takes known findings out of reports, one report after the other; then `finish`."""

    def __init__(self, baseline: Baseline, *, whole: bool = True) -> None:
        """`whole` says that reports are about all frames, so what is not found is gone."""
        self.baseline, self.whole = baseline, whole
        self.left = {key: entry.count for key, entry in baseline.entries.items()}
        self.checked: dict[str, Collection[str]] = {}
        self.result = Compared(baseline.path)

    def apply(self, report: CaptureReport, codes: Collection[str]) -> None:
        """Leave in a report what is new; its counts and numbers by rule become those. `codes` are the rules that judged the capture."""
        if report.error is not None:
            return
        name = self.baseline.name_of(report.path)
        self.checked[name] = codes
        before, new = Counter(report.by_rule), Counter[str]()
        severity = {finding.code: finding.severity.value for finding in report.findings}
        beyond, kept = Counter(before), []
        for finding in report.findings:
            beyond[finding.code] -= 1
            if not self._take((name, finding.code, fingerprint(name, finding)), 1):
                kept.append(finding)
                new[finding.code] += 1
        for code, count in beyond.items():
            new[code] += count - self._take((name, code, BEYOND), count)
        report.findings = kept
        report.by_rule = {code: count for code, count in sorted(new.items()) if count}
        totals = Counter[str]()
        for code, count in report.by_rule.items():
            totals[severity[code]] += count
        report.counts = {name: totals[name] for name in report.counts}
        self.result.new += new.total()
        self.result.known += before.total() - new.total()

    def _take(self, key: Key, count: int) -> int:
        """How many of `count` findings the baseline knows; they are used up."""
        known = min(self.left.get(key, 0), count)
        if known:
            self.left[key] -= known
        return known

    def finish(self) -> Compared:
        """What came of it; entries of captures and rules that were not checked are neither known nor fixed."""
        for key, count in self.left.items():
            entry = self.baseline.entries[key]
            if not count:
                continue
            if self.whole and entry.code in self.checked.get(entry.capture, ()):
                self.result.fixed.append(Entry(*key, entry.message, count))
            else:
                self.result.unchecked += count
        self.result.fixed.sort()
        return self.result
