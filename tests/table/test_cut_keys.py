"""Can a hidden key be computed from what is shown of its frame? A solver of linear equations over the CRCs tries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ibdissect.dfilter.compile import compile_filter
from ibdissect.dissect.layout import layout_of
from ibdissect.dissect.named_values import declared, reveals_key, runs
from ibdissect.dissect.printers import dump
from ibdissect.dissect.summary import Summary
from ibdissect.dissect.tree import Tree, tree_of
from ibdissect.dissect.value import Presenter
from ibdissect.dissect.walk import Walk
from ibdissect.session.capture import Capture
from ibdissect.table.table import ChunkTable
from ibdissect.wire import crc
from tests.conftest import a_third_of, shared_captures

HERE = Path(__file__).parents[2] / "captures"
BLANK = Summary("", "", "", "")
_WORD = re.compile(r"^ *(\d+) ([0-9A-F*]+)(?: |$)")


def printed(text: str) -> dict[int, int | None]:
    """The bytes that a dump shows, by offset; None for a masked one."""
    found: dict[int, int | None] = {}
    front = False
    for line in text.splitlines():
        front = line == "ERF" if line[:1].isalpha() else front
        word = None if front else _WORD.match(line)
        for i in range(len(word[2]) // 2 if word else 0):
            digits = word[2][2 * i : 2 * i + 2] if word else ""
            found[int(word[1]) + i if word else 0] = None if digits == "**" else int(digits, 16)
    return found


def checks(table: ChunkTable, row: int) -> Iterator[tuple[int, int, int, Callable[[bytes], int]]]:
    """Start, end and place of the bytes that a checksum of the row covers, and how it is computed; offsets in the frame."""
    at = {name: int(table.located.at(name)[row] - table.chunk.offset[row]) for name in ("lrh", "grh", "ip4", "ip6", "icrc", "vcrc")}
    if at["icrc"] >= 0:
        if at["lrh"] >= 0:
            yield at["lrh"], at["icrc"], 4, lambda data: crc.icrc_native(data, at["grh"] >= 0)
        elif at["grh"] >= 0:
            yield at["grh"], at["icrc"], 4, crc.icrc_roce1
        else:
            yield max(at["ip4"], at["ip6"]), at["icrc"], 4, crc.icrc_roce2
    if at["vcrc"] >= 0:
        yield at["lrh"], at["vcrc"], 2, crc.vcrc


def known_bits(table: ChunkTable, row: int, shown: dict[int, int | None]) -> tuple[int, int]:
    """How many bits of the hidden bytes (checksums apart) there are, and how many equations the shown checksums give for them."""
    places = list(checks(table, row))
    sums = {at + i for _, at, size, _ in places for i in range(size)}
    hidden = [at for at, value in shown.items() if value is None and at not in sums]
    rows: list[int] = []
    for start, stop, size, compute in places:
        if any(shown.get(stop + i) is None for i in range(size)):
            continue
        base = bytes(shown.get(at) or 0 for at in range(start, stop))
        zero, columns = compute(base), []
        for at in hidden:
            for bit in range(8):
                flipped = bytearray(base)
                if start <= at < stop:
                    flipped[at - start] ^= 0x80 >> bit
                columns.append(compute(bytes(flipped)) ^ zero)
        rows += [sum((column >> place & 1) << i for i, column in enumerate(columns)) for place in range(size * 8)]
    rank = 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            rows = [row ^ pivot if row & pivot & -pivot else row for row in rows]
    return len(hidden) * 8, rank


def key_frames(path: Path) -> Iterator[tuple[ChunkTable, int, Tree]]:
    """The first two frames of every shape that have something masked."""
    with Capture(path) as opened:
        for table in opened.tables():
            walk = Walk(table)
            for shape in walk.shapes():
                layout = layout_of(walk, shape)
                for row in shape.rows[:2].tolist():
                    tree = tree_of(walk, layout, row, Presenter(), BLANK)
                    if tree.secret_bytes:
                        yield table, row, tree


@pytest.mark.parametrize("path", sorted(HERE.glob("*.pcap*")), ids=lambda path: path.name)
def test_no_equation_for_a_hidden_key_is_shown(path: Path) -> None:
    for table, row, tree in key_frames(path):
        assert known_bits(table, row, printed(dump(tree)))[1] == 0, tree.frame


def test_the_solver_finds_keys_where_checksums_are_shown() -> None:
    """Else the test above could not fail: 32 bits of an R_Key follow from the ICRC."""
    table, row, tree = next(key_frames(HERE / "rxe-rping.pcap"))
    shown = printed(dump(tree))
    icrc = int(table.located.at("icrc")[row] - table.chunk.offset[row])
    shown.update({icrc + i: tree.data[icrc + i] for i in range(4)})
    assert known_bits(table, row, shown) == (32, 32)


def test_filters_and_columns_tell_no_checksum_beside_a_key() -> None:
    with Capture(HERE / "rxe-rping.pcap") as opened:
        table = next(iter(opened.tables()))
        (run,) = (run for run in runs(table, declared(table.catalog, "infiniband.invariant.crc")) if len(run.rows))
        told = reveals_key(table, run)
        assert 0 < told.sum() < len(told)
        for text in ("infiniband.invariant.crc >= 0", "infiniband.invariant.crc in {0..0xffffffff}", "infiniband.invariant.crc & 1 == 0"):
            asked = compile_filter(text, hide_keys=True).rows(table)
            assert not asked[run.rows[told]].any(), text
            assert compile_filter(text).rows(table)[run.rows[told]].any(), text
        row = int(run.rows[told][0])
        digits = tree_digits(table, row, int(run.at[told][0]))
        assert not compile_filter(f"frame contains {digits}", hide_keys=True).rows(table)[row]
        assert compile_filter(f"frame contains {digits}").rows(table)[row]


def tree_digits(table: ChunkTable, row: int, at: int) -> str:
    """Four bytes of the chunk, as a filter writes them."""
    return bytes(table.chunk.data[at : at + 4]).hex(":")


@pytest.mark.slow
@pytest.mark.parametrize("path", a_third_of(shared_captures(), 1), ids=lambda path: path.name)
def test_no_equation_in_the_shared_captures(path: Path) -> None:
    test_no_equation_for_a_hidden_key_is_shown(path)
