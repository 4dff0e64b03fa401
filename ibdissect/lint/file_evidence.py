"""Findings that rely on subnet files: they name their lines, and are infos if a file is old or refuted by traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from msgspec.structs import replace as changed

from ibdissect.subnet.file_lines import KnownFile, file_and_line, is_doubtful

from .finding import Finding, Related, Severity
from .rule import WEEK_NS, Hit

COLLECTED_NS = 86400 * 10**9
"""Files whose times differ by less may have been collected together: if one is outdated, so is the other."""


def with_lines(hit: Hit, files: Sequence[KnownFile], holds_ns: int) -> Hit:
    """The hit with file lines instead of their numbers; an info if one of them may be wrong. `holds_ns`: that of its rule."""
    if not files or all(one.frame >= 0 for one in hit.related):
        return hit
    related = [_named(one, hit.time_ns, files, holds_ns) for one in hit.related]
    doubtful = any(doubt for _, doubt in related)
    return changed(hit, related=tuple(one for one, _ in related), severity=Severity.INFO if doubtful else hit.severity)


def _named(one: Related, time_ns: int, files: Sequence[KnownFile], holds_ns: int) -> tuple[Related, bool]:
    """A related line with its file's name, and whether it may be wrong. Files that last are not judged by age."""
    if one.frame >= 0:
        return one, False
    index, line = file_and_line(one.frame)
    file = files[index]
    doubt = ""
    if is_doubtful(one.frame):
        doubt = "; in doubt, as the files do not say enough"
    elif not file.lasting and file.time_ns and (file.time_ns < time_ns - holds_ns or (file.exact and file.time_ns > time_ns + WEEK_NS)):
        doubt = f"; as of {datetime.fromtimestamp(file.time_ns // 10**9, UTC):%Y-%m-%d}, may be stale"
    return replace(one, frame=0, why=one.why + doubt, file=file.path, line=line), bool(doubt)


def untrusted(files: Sequence[KnownFile], lines: Iterable[int]) -> set[str]:
    """Paths of untrusted files: those with lines that the traffic refutes, and all that are not newer than these."""
    latest = max((files[file_and_line(line)[0]].time_ns for line in lines), default=None)
    return {file.path for file in files if file.time_ns <= latest + COLLECTED_NS} if latest is not None else set()


def lower_if_untrusted(finding: Finding, paths: set[str]) -> bool:
    """Lower a finding to an info if it relies on an untrusted file; return whether it does."""
    finding.related = tuple(
        replace(one, why=f"{one.why}; in doubt, as traffic refutes a file of that time") if one.file in paths else one
        for one in finding.related
    )
    if all(one.file not in paths for one in finding.related):
        return False
    finding.severity = Severity.INFO
    return True
