"""How is a finding written as a packet comment?"""

from __future__ import annotations

from collections.abc import Iterable

from ibdissect.lint.finding import Finding

SHOWN = 5
"""Most related frames listed in a comment."""


def comments_by_frame(findings: Iterable[Finding]) -> dict[int, list[str]]:
    """One comment per finding, by frame number; findings without a frame (0) are omitted."""
    found: dict[int, list[str]] = {}
    for finding in findings:
        if finding.frame >= 1:
            found.setdefault(finding.frame, []).append(comment(finding))
    return found


def comment(finding: Finding) -> str:
    """`error SMP003 dr-initialpath0: ...`, with the count and the related frames."""
    text = f"{finding.severity} {finding.code} {finding.name}: {finding.message}"
    if finding.count > 1:
        text += f" ({finding.count} times)"
    frames = [f"{related.place} ({related.why})" for related in finding.related[:SHOWN]]
    if len(finding.related) > SHOWN:
        frames.append(f"{len(finding.related) - SHOWN} more")
    return f"{text}; see {', '.join(frames)}" if frames else text
