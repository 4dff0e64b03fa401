"""Every line of the screen's panes made for a capture, without a screen."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from rich.segment import Segment
from rich.style import Style

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.dissect.tree import Node, Tree
from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.field_notes import FieldNotes
from ibdissect.screen_model.value_filters import as_filter
from ibdissect.tui.panes.bytes_pane import BytesPane
from ibdissect.tui.panes.packet_list import PacketList
from ibdissect.tui.panes.tree_pane import TreePane
from ibdissect.tui.widgets.cells import width_of
from ibdissect.tui.widgets.line_list import LineList

WIDTHS = (20, 77, 140)


class _Still(LineList):
    """A list that no application shows: it has no colours, does not scroll, and tells nobody."""

    width = WIDTHS[0]

    def ink(self, name: str) -> Style:
        return Style.null()

    @property
    def line_width(self) -> int:
        return self.width

    def scroll_to(self, *_: Any, **__: Any) -> None:
        pass

    def post_message(self, message: Any) -> bool:
        return False

    def call_later(self, *_: Any, **__: Any) -> bool:
        return False


class _Packets(_Still, PacketList):
    pass


class _Tree(_Still, TreePane):
    pass


class _Bytes(_Still, BytesPane):
    pass


class _Done(Exception):
    """The study has come to its end; it would wait for questions."""


def _stop(study: BackgroundAnalysis) -> None:
    if study.finished:
        raise _Done


def lines_of(blob: bytes) -> Iterator[str]:
    """Make every line of every frame of a capture; what is wrong with them, in words."""
    model = CaptureModel(io.BytesIO(blob))
    try:
        model.scan(lambda: None)
        study = BackgroundAnalysis(model, lambda: CheckOptions(rules=load()))
        with suppress(_Done):
            study.run(lambda: _stop(study))
        study.snapshot()
        known = FieldNotes(lambda: study.subnet, lambda: study.connections)
        study.repeated = set(range(1, model.index.frames + 1, 2))
        packets, tree_pane, bytes_pane = _Packets(model, study), _Tree(known.of), _Bytes()
        for number in range(1, model.index.frames + 1):
            width = _Still.width = WIDTHS[number % len(WIDTHS)]
            packets._lay_out()
            yield from _fits(packets, [number - 1], width, "packet list")
            tree = model.tree(number)
            tree_pane.show_tree(tree, model.findings.of_frame(number))
            bytes_pane.show_tree(tree)
            for byte in {0, len(tree.data) // 3, len(tree.data) - 1}:
                tree_pane.reveal(byte)
            yield from _fits(tree_pane, range(tree_pane.count()), width, "tree")
            yield from _nodes(model, tree, bytes_pane, width)
            yield from _fits(bytes_pane, range(bytes_pane.count()), 200, "bytes")
    finally:
        model.close()


def _nodes(model: CaptureModel, tree: Tree, pane: BytesPane, width: int) -> Iterator[str]:
    """What selecting a field does, for some of them."""
    every: list[Node] = list(tree.walk())
    for node in every[:: max(len(every) // 40, 1)]:
        pane.show_node(node)
        pane.bit_line(width)
        text = as_filter(node)
        if text is not None:
            made, error = model.filter(text)
            if made is None:
                yield f"the filter of a field is refused: {text}: {error}"
            elif not made.rows(table := model.table([tree.frame]))[0] and not _zeroed(table, node):
                yield f"the filter of a field does not match its frame: {text}"


def _zeroed(table: ChunkTable, node: Node) -> bool:
    """Whether filters read other bytes than the tree shows: zeros, where a key may be among those of a broken frame."""
    start = int(table.chunk.offset[0]) + node.offset
    return bool(table.once(without_keys)[start : start + len(node.raw)].tobytes() != node.raw)


def _fits(pane: LineList, indices: Sequence[int], width: int, name: str) -> Iterator[str]:
    for index in indices:
        segments: list[Segment] = pane.parts(index, width)
        text = "".join(segment.text for segment in segments)
        if not text.isprintable():
            yield f"{name}: control characters in {text!r}"
        if name == "tree" and width_of(text) > width:
            yield f"{name}: {width_of(text)} cells of {width} in {text!r}"
