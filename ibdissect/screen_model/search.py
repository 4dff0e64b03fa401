"""Search for the next frame that holds a text (in any case) or some bytes, or matches a filter. Masked keys read as zeros."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.tree import Node, Tree

from .capture_model import CaptureModel
from .shown_frames import Rows, SortedRows

if TYPE_CHECKING:
    from ibdissect.dfilter.compile import Filter

STEP = 2048
"""Rows searched between two looks at whether to stop."""


class FindKind(StrEnum):
    TEXT = "text"
    HEX = "hex"
    FILTER = "filter"
    DETAILS = "text in the tree"


@dataclass(frozen=True, slots=True)
class Query:
    """A search; `matcher` belongs to a filter."""

    kind: FindKind
    text: str
    matcher: Filter | None = None

    @staticmethod
    def hexadecimal(text: str) -> bytes:
        """The bytes that `text` spells (`0a 0b`, `0a:0b`, `0x0a0b`); ValueError when it spells none."""
        digits = re.sub(r"0x|[\s:.,-]", "", text.lower())
        if not digits:
            raise ValueError("no bytes given")
        if len(digits) % 2 or not re.fullmatch(r"[0-9a-f]*", digits):
            raise ValueError("bytes are pairs of hexadecimal digits")
        return bytes.fromhex(digits)


def hits(model: CaptureModel, query: Query, frames: list[int]) -> list[int]:
    if query.kind is FindKind.FILTER:
        return _matching(model, query, frames)
    table = model.table(frames)
    chunk = table.chunk if model.show_keys else replace(table.chunk, data=table.once(without_keys))
    if query.kind is FindKind.HEX:
        wanted = query.hexadecimal(query.text)
        return [frame for row, frame in enumerate(frames) if wanted in chunk.frame_bytes(row)]
    folded = query.text.casefold()
    if query.kind is FindKind.DETAILS:
        return [frame for frame in frames if _node(model.tree(frame), folded) is not None]
    raw = query.text.encode().lower()
    lines = summaries(table, np.arange(len(frames)), model.presenter(frames[-1]))
    return [
        frame
        for row, frame in enumerate(frames)
        if folded in lines.info[row].casefold()
        or folded in lines.source[row].casefold()
        or folded in lines.destination[row].casefold()
        or folded in lines.protocol[row].casefold()
        or raw in chunk.frame_bytes(row).lower()
    ]


NEAR = 1024
"""Matches of a piece of a sorted list among which the nearest is looked for."""


@dataclass(frozen=True, slots=True)
class FoundPlace:
    node: Node | None
    span: tuple[int, int] | None = None
    """Its first byte, and the byte after it; None: those of the node."""


def place(query: Query, tree: Tree) -> FoundPlace | None:
    """Where a matching frame holds what was searched; None: only its line in the list does."""
    if query.kind is FindKind.FILTER:
        names = query.matcher.names if query.matcher is not None else ()
        node = next((node for node in tree.walk(joined=True) if node.name in names), None)
        return FoundPlace(node) if node is not None else None
    folded = query.text.casefold()
    node = _node(tree, folded) if query.kind is not FindKind.HEX else None
    if tree.home(node) is not None:
        return FoundPlace(node)
    wanted = query.hexadecimal(query.text) if query.kind is FindKind.HEX else query.text.encode().lower()
    data = tree.readable() if query.kind is FindKind.HEX else tree.readable().lower()
    at = data.find(wanted) if node is None else data.find(wanted, node.offset, node.offset + node.length)
    if at < 0:
        return FoundPlace(node) if node is not None else None
    covering = tree.at_byte(at) if node is None else [node]
    return FoundPlace(min(reversed(covering), key=lambda one: one.bits, default=None), (at, at + len(wanted)))


def _node(tree: Tree, folded: str) -> Node | None:
    """The first field whose label or text holds a text in any case."""
    leaves = (node for node in tree.walk(joined=True) if not node.children)
    return next((node for node in leaves if folded in node.label.casefold() or folded in node.text.casefold()), None)


def _matching(model: CaptureModel, query: Query, frames: list[int]) -> list[int]:
    """A filter knows frame numbers, so it is asked about all frames from the first to the last."""
    assert query.matcher is not None
    wanted, found, done = set(frames), [], frames[0] - 1
    while done < frames[-1]:
        chunk = model.index.after(done, min(frames[-1] - done, 8 * STEP))
        if not len(chunk):
            break
        rows = np.flatnonzero(model.matches(query.matcher, chunk))
        found += [frame for frame in (rows + chunk.first).tolist() if frame in wanted]
        done = chunk.first + len(chunk) - 1
    return found


def find(
    model: CaptureModel, rows: Rows, query: Query, start: int, *, forward: bool, wanted: Callable[[], bool]
) -> tuple[int, bool] | None:
    """The nearest matching row after (before) row `start`, going round once: (row, whether it went round). None: there is none."""
    total = len(rows)
    ahead = [(start + 1, total, False), (0, min(start + 1, total), True)]
    ranges = ahead if forward else [(0, start, False), (start, total, True)]
    for begin, end, round_ in ranges:
        pieces = [(at, min(at + STEP, end)) for at in range(begin, end, STEP)]
        for low, high in pieces if forward else reversed(pieces):
            if not wanted() or model.stopped:
                return None
            found = hits(model, query, sorted(rows.frames(low, high)))
            if found:
                if isinstance(rows, SortedRows):
                    return (min if forward else max)(map(rows.nearest, found[:NEAR])), round_
                return rows.nearest(found[0 if forward else -1]), round_
    return None
