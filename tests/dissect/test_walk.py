"""The bulk form and the tree agree, whatever the bytes."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ibdissect
from ibdissect.cli.show_formats import PRINTERS
from ibdissect.decode import ChunkTable
from ibdissect.dissect.frame_trees import dissect_row, dissect_rows
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Node, Tree
from ibdissect.wire.text import plain
from tests.bounds import bound
from tests.conftest import REPO, a_third_of, shared_captures
from tests.craft import erf_pcap, ethernet_pcap

from .frames import all_frames, ethernet_frames

SAMPLES = [path for path in sorted((REPO / "captures").iterdir()) if ".pcap" in path.name]


def tables(source: Any) -> list[ChunkTable]:
    with ibdissect.open(source) as capture:
        return list(capture.tables())


def crafted() -> list[ChunkTable]:
    return [*tables(io.BytesIO(erf_pcap(all_frames()))), *tables(io.BytesIO(ethernet_pcap(ethernet_frames())))]


def as_json(node: Node) -> dict[str, Any]:
    found = {"name": node.name, "label": node.label, "offset": node.offset, "length": node.length, "bit": node.bit, "bits": node.bits,
             "value": node.value, "text": node.text}  # fmt: skip
    if node.children:
        found["fields"] = [as_json(child) for child in node.children]
    return found


def layers_of(tree: Tree) -> list[dict[str, Any]]:
    return [
        {"layer": node.label, "offset": node.offset, "length": node.length, "fields": [as_json(child) for child in node.children]}
        for node in tree.layers
    ]


def compare(table: ChunkTable, step: int = 1) -> None:
    """Trees and JSON lines; with all rows, trees of one shape are made of one layout."""
    rows, presenter = np.arange(0, len(table), step), Presenter()
    trees = dict(dissect_rows(table, presenter)) if step == 1 else {row: dissect_row(table, row, presenter) for row in rows.tolist()}
    for row, line in zip(rows.tolist(), JsonLines(presenter).lines(table, rows), strict=True):
        found, tree = json.loads(line), trees[row]
        assert found["layers"] == layers_of(tree)
        assert found["malformed"] == tree.malformed
        assert (found["source"], found["info"]) == (tree.summary.source, tree.summary.info)


@pytest.mark.slow
def test_bulk_and_tree_agree_on_crafted_frames() -> None:
    for table in crafted():
        compare(table)


@pytest.mark.slow
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_bulk_and_tree_agree_on_samples(path: Path) -> None:
    for table in tables(str(path)):
        compare(table, 5)


@pytest.mark.parametrize("path", a_third_of([p for p in shared_captures() if p.stat().st_size < 1 << 20], 2), ids=lambda path: path.name)
def test_bulk_and_tree_agree_on_shared_captures(path: Path) -> None:
    for table in tables(str(path)):
        compare(table, 41)


@pytest.mark.slow
def test_one_row_is_dissected_as_all_are() -> None:
    for table in crafted():
        for row in range(len(table)):
            line = next(JsonLines(Presenter()).lines(table, np.array([row])))
            assert json.loads(line)["layers"] == layers_of(dissect_row(table, row, Presenter()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_bytes_break_it(seed: int) -> None:
    chance = random.Random(seed)
    frames = []
    for frame in all_frames() * 4:
        data = bytearray(frame)
        for _ in range(chance.choice((1, 5, 50))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        frames.append(bytes(data[: chance.randrange(1, len(data) + 1)]))
    for table in tables(io.BytesIO(erf_pcap(frames))):
        compare(table)


def test_few_layouts_are_kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> tuple[str, int]:
        with ibdissect.open(io.BytesIO(erf_pcap(all_frames()))) as opened:
            printer: Any = PRINTERS["tree"](opened, (), plain)
            text = "".join(text for table, rows in opened.selected() for text in printer.frames(table, rows))
        return text, len(printer.layouts)

    before = shown()
    bound(monkeypatch, 3, "dissect")
    after = shown()
    assert before[0] == after[0]
    assert before[1] > 3 >= after[1]
