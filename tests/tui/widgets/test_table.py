"""Tables are sorted by what each column says, with the chosen row under the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.style import Style

from ibdissect.tui.widgets.table import Heading, Table
from tests.cases import every
from tests.tui import made
from tests.tui.made import asks, focused, opens, running, until


async def test_rules_are_sorted_by_each_column(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await until(pilot, lambda: app.study.finished)
        await opens(pilot, "S")
        table = focused(app)
        code = table.items[0].code
        for head in table.columns:
            await pilot.press("o")
            shown = ["".join(part.text for part in table.parts(row, 200)) for row in range(table.count())]
            assert table.columns[table.sorted_by] is head and len(set(shown)) == len(table.items) > 2
            assert table.chosen is not None and table.chosen.code == code, "the cursor stays on its rule"
        assert not any(part.text == "…" for width in range(60, 100) for part in table.parts(0, width)), "nothing but an ellipsis"
        numbers = [table.items[row].first.frame for row in table.order]
        assert numbers == sorted(numbers, reverse=True) and "▾" in table.head
        await pilot.press("o")
        assert table.order == range(len(table.items)) and table.chosen is table.items[0]
        await pilot.press("O", "home", "enter")
        await until(pilot, lambda: app.filtering.text.startswith("ibdissect.code"))
        assert app.filtering.text == f'ibdissect.code == "{max(table.items, key=lambda group: group.first.frame).code}"'


@every(
    "ascending",
    [
        ["0", "9", "10", "1,234"], ["999 B", "1.2 kB", "3 MB"], ["800 ns", "1.5 µs", "2 ms", "1 s", "2 min 3 s"],
        ["LID 9", "LID 10", "leaf2", "leaf10"], ["0x00000f", "0x000010", "0x0000a0"], ["192.168.7.9", "192.168.77.1"],
        ["...", "1.2.3", "fe80::1", "·", "0", "7"],
    ],
)  # fmt: skip
def test_what_cells_are_sorted_by(ascending: list[str]) -> None:
    """What begins like a number, but is none, is text."""
    for align, expected in (("left", ascending), ("right", ascending[::-1])):
        table = Table(sorted(ascending, key=len))
        table.columns = [Heading("Value", 20, lambda text: (text, ""), align)]
        table.select = lambda *_, **__: None  # type: ignore[method-assign]  # it scrolls, which needs a screen
        table.action_sort(1)
        assert [table.items[at] for at in table.order] == expected, align


async def test_what_is_sought_is_typed_anew_and_a_miss_is_said(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await until(pilot, lambda: app.study.finished)
        await opens(pilot, "S")
        table = focused(app)
        for word in ("node0015", "node0003"):
            await pilot.press("slash")
            await until(pilot, lambda: asks(app))
            await pilot.press(*word, "enter")
            assert table.sought == word
            await pilot.pause()
        assert [note.message for note in app._notifications] == ["text not found: node0015", "text not found: node0003"]
        await pilot.press("slash", *"early", "enter")
        assert table.sought == "early", "also what is typed before the prompt is drawn"


ENDS = [("192.168.77.1", 7), ("192.168.77.2", 12345)]
COLUMNS: list[Heading[tuple[str, int]]] = [
    Heading("End", 12, lambda one: (one[0], ""), "left", least=9, names=[name for name, _ in ENDS]),
    Heading("Count", 8, lambda one: (str(one[1]), ""), rank=1),
    Heading("Time", 8, lambda one: ("1 s", ""), rank=3),
]  # fmt: skip


def drawable() -> Table[tuple[str, int]]:
    """A table that can be drawn without a screen."""
    table = Table(ENDS)
    table.columns = COLUMNS
    table.ink = lambda name: Style()  # type: ignore[method-assign]
    return table


@every(
    ("width", "rest", "expected"),
    [
        (37, 0, [12, 8, 8]), (36, 0, [12, 8, 8]), (35, 0, [11, 8, 8]), (33, 0, [9, 8, 8]), (32, 0, [12, 8]), (25, 0, [11, 8]),
        (32, 6, [12, 8]), (32, 7, [11, 8]), (32, 9, [9, 8]), (32, 10, [12]), (12, 0, [9]),
    ],
)  # fmt: skip
def test_columns_that_fit(width: int, rest: int, expected: list[int]) -> None:
    """Names are narrowed first, then columns go, and what they leave widens the names again."""
    table = drawable()
    table.least_rest = rest
    assert [len(part.text) for part in table.parts(0, width)][1:-1:2] == expected


@pytest.mark.parametrize(("width", "ends"), [(23, ["…168.77.1", "…168.77.2"]), (40, ["192.168.77.1", "192.168.77.2"])])
def test_rows_of_a_narrow_table_stay_different(width: int, ends: list[str]) -> None:
    table = drawable()
    assert ["".join(part.text for part in table.parts(row, width)).split()[0] for row in (0, 1)] == ends
