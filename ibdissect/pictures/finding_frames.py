"""Frames of findings, decoded, with the bytes that prove the finding marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct as Record

from ibdissect.dissect.shown_value import mask_hex
from ibdissect.dissect.tree import Node, Tree, headline, layer_text, remarks
from ibdissect.lint.finding import Finding
from ibdissect.report import first_of_each

LINES, TEXT = 160, 160
"""Most lines of a tree, and characters of a value."""
BYTES = 512
"""Most bytes shown."""
WIDE = 16
"""Bytes of a line."""
EACH = 3
"""Findings of a rule whose frame is decoded."""


class ShownLayer(Record):
    depth: int
    label: str
    text: str
    marked: bool


class DecodedFrame(Record):
    head: str
    lines: list[ShownLayer]
    more: int
    """Lines left out."""
    rows: list[tuple[str, list[tuple[str, bool]]]]
    """Offset, and runs of bytes with whether they are marked."""
    remarks: list[str]


def chosen(findings: Iterable[Finding], most: int) -> list[Finding]:
    """The findings whose frames are shown: the first of each rule, the most severe rules first."""
    worst = sorted((one for one in findings if one.frame), key=lambda one: -one.severity.rank)
    return first_of_each(worst, EACH)[:most]


def decoded(tree: Tree, finding: Finding | None = None) -> DecodedFrame:
    """A frame for people, with the bytes that prove a finding marked; bytes of keys are masked as everywhere."""
    spans = finding.spans if finding is not None else ()
    marked = {byte for span in spans if span.frame == tree.frame for byte in range(span.offset, span.offset + span.length)}
    lines = [line for layer in tree.layers for line in _lines(layer, 0, marked)]
    return DecodedFrame(headline(tree), lines[:LINES], max(len(lines) - LINES, 0), _rows(tree, marked), remarks(tree))


def _lines(node: Node, depth: int, marked: set[int]) -> Iterator[ShownLayer]:
    text = layer_text(node) if not depth else node.text
    inside = not node.in_front and not marked.isdisjoint(range(node.offset, node.offset + node.length))
    leaf = depth > 0 and not node.children
    yield ShownLayer(depth, node.label, text if len(text) <= TEXT else text[: TEXT - 1] + "…", inside and leaf)
    for child in node.children:
        yield from _lines(child, depth + 1, marked)


def _rows(tree: Tree, marked: set[int]) -> list[tuple[str, list[tuple[str, bool]]]]:
    digits = mask_hex(tree.data.hex(), tree.data, tree.secret_bytes)
    rows = []
    for start in range(0, min(len(tree.data), BYTES), WIDE):
        runs: list[tuple[str, bool]] = []
        for byte in range(start, min(start + WIDE, len(tree.data))):
            text, on = digits[2 * byte : 2 * byte + 2], byte in marked
            if runs and runs[-1][1] == on:
                runs[-1] = f"{runs[-1][0]} {text}", on
            else:
                runs.append((text, on))
        rows.append((f"{start:04x}", runs))
    return rows
