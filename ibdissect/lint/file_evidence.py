"""What is a finding worth that rests on subnet files? It names their lines, and an old file or a doubtful line makes it an info."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from msgspec.structs import replace as changed

from ibdissect.fabric.file_lines import KnownFile, file_and_line, is_doubtful

from .finding import Related, Severity
from .rule import Hit

STALE_NS = 7 * 86400 * 10**9
"""A file that is older than this when the frame was captured may be stale. What lasts until somebody changes it is not judged by age."""


def with_lines(hit: Hit, files: Sequence[KnownFile]) -> Hit:
    """The hit with lines of files instead of their numbers; an info if one of them need not be true."""
    if not files or all(one.frame >= 0 for one in hit.related):
        return hit
    related = [_named(one, hit.time_ns, files) for one in hit.related]
    doubtful = any(doubt for _, doubt in related)
    return changed(hit, related=tuple(one for one, _ in related), severity=Severity.INFO if doubtful else hit.severity)


def _named(one: Related, time_ns: int, files: Sequence[KnownFile]) -> tuple[Related, bool]:
    """A related line with its file's name, and whether it need not be true."""
    if one.frame >= 0:
        return one, False
    index, line = file_and_line(one.frame)
    file = files[index]
    doubt = ""
    if is_doubtful(one.frame):
        doubt = "; in doubt, as no file says what kind of port it is"
    elif not file.lasting and file.time_ns and file.time_ns < time_ns - STALE_NS:
        doubt = f"; as of {datetime.fromtimestamp(file.time_ns // 10**9, UTC):%Y-%m-%d}, may be stale"
    return replace(one, frame=0, why=one.why + doubt, file=file.path, line=line), bool(doubt)
