"""Baseline files: known findings by fingerprint, one per line, and the comparison that tells new and fixed ones."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ibdissect.errors import ConfigError

from .finding import CaptureReport, Finding

SCHEMA = 2
"""1 said nothing of what the captures hold; it is read, too."""
MOST = 10_000
"""Findings per rule and capture that have entries of their own; further ones are only counted."""
BEYOND = "beyond"
"""Stands for the fingerprint in entries of findings that are only counted."""
KEYS = {"capture": str, "code": str, "count": int, "fingerprint": str, "message": str}

Key = tuple[str, str, str]
"""capture, code, fingerprint."""


@dataclass(frozen=True, slots=True, order=True)
class KnownFault:
    """A known fault of a capture, and how many findings report it."""

    capture: str
    """Relative to the baseline's folder, with slashes."""
    code: str
    fingerprint: str
    message: str
    """The finding's message without keys and without values that differ in another recording of the same fault."""
    count: int

    @property
    def key(self) -> Key:
        """Identifies the same fault in another run."""
        return self.capture, self.code, self.fingerprint


@dataclass(slots=True)
class Baseline:
    """Known findings, and the path of their file."""

    path: str
    """The file; captures are named relative to its folder."""
    entries: dict[Key, KnownFault] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what captures held when they were recorded, unpacked, by their name here."""

    @property
    def captures(self) -> list[str]:
        """The captures with findings, sorted, as they are named here."""
        return sorted({entry.capture for entry in self.entries.values()})

    def name_of(self, capture: str) -> str:
        """A capture's path as this baseline writes it."""
        return name_from(os.path.dirname(os.path.abspath(self.path)), capture)


@dataclass(slots=True)
class BaselineResult:
    """The result of a comparison with a baseline, over all captures."""

    path: str
    known: int = 0
    """Findings that are in the baseline and so are hidden."""
    new: int = 0
    fixed: list[KnownFault] = field(default_factory=list)
    """Entries that are no longer found; `count` is the number of missing findings."""
    unchecked: int = 0
    """Baseline findings of captures or rules that this run did not check."""
    not_checked: list[KnownFault] = field(default_factory=list)
    """Their entries; `count` is the number of findings that were not looked for."""

    def object(self) -> dict[str, Any]:
        """As JSON."""
        fixed = [{"capture": e.capture, "code": e.code, "count": e.count, "message": e.message} for e in self.fixed]
        rest = [{"capture": e.capture, "code": e.code, "count": e.count} for e in self.not_checked]
        return {
            "path": self.path, "known": self.known, "new": self.new, "fixed": fixed, "unchecked": self.unchecked, "not_checked": rest,
        }  # fmt: skip


def name_from(folder: str, capture: str) -> str:
    """A capture's path relative to a folder, with slashes; standard input stays "-", a URL itself."""
    return capture if capture == "-" or "://" in capture else os.path.relpath(capture, folder).replace(os.sep, "/")


def fingerprint(capture: str, finding: Finding) -> str:
    """Identifies a finding across runs: hash of rule, capture and stable message, never the frame number."""
    return hashlib.sha256(f"{finding.code}\0{capture}\0{finding.stable}".encode(errors="backslashreplace")).hexdigest()[:32]


def entries_of(reports: Iterable[CaptureReport], baseline: Baseline) -> list[KnownFault]:
    found: dict[Key, KnownFault] = {}
    for report in reports:
        name = baseline.name_of(report.path)
        beyond = Counter(report.by_rule)
        for finding in report.findings:
            entry = KnownFault(name, finding.code, fingerprint(name, finding), finding.stable, 1)
            known = found.get(entry.key)
            found[entry.key] = entry if known is None else KnownFault(*entry.key, entry.message, known.count + 1)
            beyond[finding.code] -= 1
        for code, count in beyond.items():
            if count > 0:
                entry = KnownFault(name, code, BEYOND, f"findings beyond the first {MOST}", count)
                found[entry.key] = entry
    return sorted(found.values())


def baseline_text(entries: Iterable[KnownFault], contents: Mapping[str, str] = {}) -> str:
    """The file's text: JSON with one capture or entry per line, so that version control can merge it."""
    lines = [json.dumps({"schema": SCHEMA, "tool": "ibdissect baseline"})]
    lines += [json.dumps({"capture": capture, "sha256": sha256}) for capture, sha256 in sorted(contents.items())]
    for entry in sorted(entries):
        values = {"capture": entry.capture, "code": entry.code, "count": entry.count, "fingerprint": entry.fingerprint}
        lines.append(json.dumps(values | {"message": entry.message}))
    return "[" + "\n,".join(lines) + "\n]\n"


def parse_baseline(text: str, path: str) -> Baseline:
    """A baseline from the text of its file. ConfigError says what is wrong with which file."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        conflict = any(one.startswith(("<<<<<<<", ">>>>>>>")) for one in text.splitlines())
        hint = "resolve the conflict: both sides' lines may stay" if conflict else "write it anew with --write-baseline"
        raise ConfigError(path, f"line {line}" if line else "file", "is a damaged baseline: not valid JSON", hint=hint) from error
    head = values[0] if isinstance(values, list) and values else None
    if not isinstance(head, dict) or head.get("tool") != "ibdissect baseline":
        raise ConfigError(path, "file", "is not a baseline of ibdissect", hint="write one with --write-baseline")
    if head.get("schema") not in (1, SCHEMA):
        raise ConfigError(path, "schema", f"is {head.get('schema')!r}, known are 1 and {SCHEMA}", hint="a newer ibdissect wrote it")
    baseline = Baseline(path)
    for number, value in enumerate(values[1:], 2):
        if isinstance(value, dict) and value.keys() == {"capture", "sha256"} and all(isinstance(text, str) for text in value.values()):
            baseline.contents[value["capture"]] = value["sha256"]
            continue
        right = isinstance(value, dict) and value.keys() == KEYS.keys() and all(type(value[key]) is kind for key, kind in KEYS.items())
        if not right or value["count"] < 1:
            hint = f"a finding has {', '.join(KEYS)}; write it anew with --write-baseline"
            raise ConfigError(path, f"entry {number}", "is a damaged baseline: no finding", hint=hint)
        entry = KnownFault(value["capture"], value["code"], value["fingerprint"], value["message"], value["count"])
        known = baseline.entries.get(entry.key)
        if known is None or known.count < entry.count:  # both sides of a merge may contain it
            baseline.entries[entry.key] = entry
    return baseline


class BaselineComparison:
    """Removes known findings from reports: `apply` to each report, then `finish`."""

    def __init__(self, baseline: Baseline, *, whole: bool = True, known_as: Mapping[str, str] = {}, owners: Mapping[str, str] = {}) -> None:
        """`whole`: the reports cover all frames, so an entry that is not found is fixed. `known_as`: what captures that have another name
        now, by their path, are called in the baseline; several may be what one was. Then `owners` says by that name whose findings are
        the entries'; those of the others are compared with a copy.
        """
        self.baseline, self.whole, self.known_as, self.owners = baseline, whole, known_as, owners
        self.left = {key: entry.count for key, entry in baseline.entries.items()}
        self.checked: dict[str, Collection[str]] = {}
        self.result = BaselineResult(baseline.path)

    def apply(self, report: CaptureReport, codes: Collection[str]) -> None:
        """Keep only new findings in a report and adjust its counts. `codes` are the rules that checked the capture."""
        if report.status in ("unreadable", "empty"):
            return
        name = self.known_as.get(report.path) or self.baseline.name_of(report.path)
        if self.owners.get(name, report.path) == report.path:
            self.checked[name], left = codes if report.error is None else (), self.left
        else:
            left = {key: entry.count for key, entry in self.baseline.entries.items()}
        before, new = Counter(report.by_rule), Counter[str]()
        severity = {finding.code: finding.severity.value for finding in report.findings}
        beyond, kept = Counter(before), []
        for finding in report.findings:
            beyond[finding.code] -= 1
            if not _take(left, (name, finding.code, fingerprint(name, finding)), 1):
                kept.append(finding)
                new[finding.code] += 1
        beyond = Counter({code: count - _take(left, (name, code, BEYOND), count) for code, count in beyond.items()})
        new += beyond
        report.findings = kept
        report.by_rule = dict(sorted(new.items()))
        totals = Counter(finding.severity.value for finding in kept)
        for code, count in beyond.items():
            totals[severity[code]] += count
        report.counts = {name: totals[name] for name in report.counts}
        self.result.new += new.total()
        self.result.known += before.total() - new.total()

    def finish(self) -> BaselineResult:
        """The result; entries of captures or rules that were not checked count as neither known nor fixed."""
        for key, count in self.left.items():
            entry = self.baseline.entries[key]
            if not count:
                continue
            if self.whole and entry.code in self.checked.get(entry.capture, ()):
                self.result.fixed.append(KnownFault(*key, entry.message, count))
            else:
                self.result.unchecked += count
                self.result.not_checked.append(KnownFault(*key, entry.message, count))
        self.result.fixed.sort()
        self.result.not_checked.sort()
        return self.result


def _take(left: dict[Key, int], key: Key, count: int) -> int:
    """Remove up to `count` findings from the baseline's remaining ones, and return how many there were."""
    known = min(left.get(key, 0), count)
    if known:
        left[key] -= known
    return known
