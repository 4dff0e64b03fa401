"""Selected frames copied to another capture, with times, interfaces, and old and new comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from ibdissect.errors import CaptureError
from ibdissect.lint.finding import Finding
from ibdissect.python_interface import Capture

SHOWN = 5
"""Most related frames listed in a comment."""


def write_frames(opened: Capture, file: IO[bytes], container: str, added: Mapping[int, Sequence[str]] | None = None) -> int:
    """Write the selected frames unchanged and return their number; `added` are more comments by frame number.

    Raises CaptureError if the container cannot store a frame (a pcap has one link type) or comments were lost.
    """
    from ibdissect.capture.writing import CaptureWriter  # not needed to export columns

    added = added or {}
    with CaptureWriter(file, container=container) as writer:
        for table, rows in opened.selected():
            comments = opened.reader.comments
            writer.interfaces, writer.comments = opened.reader.interfaces, comments.get(0, ())
            for row in rows.tolist():
                number = table.chunk.first + row
                writer.add(table.chunk, row, [*comments.get(number, ()), *added.get(number, ())])
        if opened.reader.comments.lost and container == "pcapng":
            raise CaptureError(opened.path, "holds more comments than can be kept", hint="write a pcap, which has none")
        return writer.frames


def comments_by_frame(findings: Iterable[Finding]) -> dict[int, list[str]]:
    """One comment per finding, by frame number; findings without a frame (0) are omitted."""
    found: dict[int, list[str]] = {}
    for finding in findings:
        if finding.frame >= 1:
            found.setdefault(finding.frame, []).append(comment(finding))
    return found


def comment(finding: Finding) -> str:
    """`error SMP003 dr-initialpath0-nonzero: ...`, with the count and the related frames."""
    text = f"{finding.severity} {finding.code} {finding.name}: {finding.message}"
    if finding.count > 1:
        text += f" ({finding.count} times)"
    frames = [f"{related.place} ({related.why})" for related in finding.related[:SHOWN]]
    if len(finding.related) > SHOWN:
        frames.append(f"{len(finding.related) - SHOWN} more")
    return f"{text}; see {', '.join(frames)}" if frames else text
