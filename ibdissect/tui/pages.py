"""What do the pages say: the help, and the explanation of a finding?"""

from __future__ import annotations

import inspect
import re

from rich.text import Text

from ibdissect.lint.finding import Evidence, Finding, Severity
from ibdissect.lint.rule import Rule

from .ink import NAMES, SHAPES

HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Move", (
        ("↑ ↓ PgUp PgDn", "one frame, one page"), ("Home End", "first, last frame"), ("g", "go to a frame number"),
        ("Tab  Shift+Tab", "next, previous pane"), ("→ ←", "open, close in the tree; next, previous byte"), ("*", "open the whole tree"),
        ("mouse", "click, wheel; rules between panes are dragged"),
    )),
    ("Search", (
        ("/", "display filter; Tab completes, ↑ ↓ earlier ones"),
        ("a", "apply the selected field as filter"), ("p", "prepare it in the filter bar"),
        ("Ctrl+F", "find text, bytes in hex, or a filter"),
        ("n  N", "next, previous match"),
    )),
    ("Follow", (
        ("c", "only this frame's conversation; again: as before"),
        ("r", "from a request to its answer, and back"),
        ("R", "the reassembled RMPP transfer of this frame"),
    )),
    ("Findings", (
        ("f", "next frame with a finding"), ("F", "findings pane; o groups by rule"),
        ("e", "explain: what, why, what to do, what proves it"),
        ("S", "findings summary by rule"),
    )),
    ("Look", (
        ("s", "statistics"), ("C", "conversations, and what was sent again"),
        ("b", "fabric: nodes, ports, partitions, SMs"), ("x", "bytes pane"),
        ("t", "time format"), ("v", "columns"), ("+", "add the selected field as a column"), ("Ctrl+P", "all commands, themes"),
    )),
    ("Keep", (
        ("m", "mark a frame"), ("M", "mark all frames shown, or none"), ("y", "copy field, value, bytes, as filter, frame"),
        ("w", "write displayed or marked frames to pcap or pcapng"), ("q", "quit"),
    )),
)  # fmt: skip
EVIDENCE = {
    Evidence.SEEN: "seen: the packet itself proves it",
    Evidence.LEARNT: "learnt: it contradicts what the capture showed in the frames below",
    Evidence.INFERRED: "inferred: it follows from something learnt later, or is only likely",
}


def help_page() -> tuple[Text, Text]:
    """Title and body of the help."""
    body = Text()
    for group, keys in HELP:
        body.append(f"{group}\n", "bold")
        for key, what in keys:
            body.append(f"  {key:<16}", "bold cyan")
            body.append(f" {what}\n")
        body.append("\n")
    body.append("Keys (M_Key, Q_Key, R_Key, …) are masked unless started with --show-keys; a masked key has a number, M_Key#3.", "dim")
    return Text("Keys"), body


def finding_page(finding: Finding, rule: type[Rule] | None) -> tuple[Text, Text, list[tuple[int, str]]]:
    """Title, body and frames that explain a finding."""
    colour = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}[finding.severity]
    title = Text.assemble((f"{SHAPES[finding.severity]} {finding.code} {finding.name}", colour), f"  {NAMES[finding.severity]}")
    body = Text()
    body.append(f"{finding.message}\n\n")
    if finding.field:
        body.append(f"{finding.field}", "bold")
        body.append(f" = {finding.value if finding.value is not None else 'masked'}\n")
    if finding.count > 1:
        body.append(f"{finding.count:,} times, first in frame {finding.frame}\n")
    body.append(f"{EVIDENCE[finding.evidence]}\n\n", "dim")
    if rule is not None:
        body.append_text(rule_text(rule))
    frames = [(finding.frame, "the finding")] + [(related.frame, related.why) for related in finding.related]
    seen: dict[int, str] = {}
    for frame, why in frames:
        seen.setdefault(frame, why)
    return title, body, list(seen.items())


def rule_text(rule: type[Rule]) -> Text:
    """The page of a rule."""
    body = Text()
    # Paragraphs are wrapped by the screen, not by the source.
    for block in re.split(r"\n\s*\n|\n(?=#)|(?<=^)(?=#)", inspect.cleandoc(rule.__doc__ or "")):
        heading, _, rest = block.partition("\n") if block.startswith("#") else ("", "", block)
        if heading:
            body.append(heading.lstrip("# ") + "\n", "bold")
        if rest.strip():
            body.append(re.sub(r"\n(?![-*] )", " ", rest.strip()) + "\n\n")
    if rule.example:
        body.append("Example\n", "bold")
        body.append(f"{rule.example}\n\n")
    if rule.reference:
        body.append("Reference\n", "bold")
        body.append(rule.reference)
    return body
