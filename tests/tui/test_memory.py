"""Are columns and filters remembered between runs, and does a damaged or foreign file stop nobody?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.widgets import SelectionList

from ibdissect.tui import columns
from ibdissect.tui.column_choice import ColumnChoice
from ibdissect.tui.key_bar import KeyBar
from ibdissect.tui.memory import MAX_SIZE, History, Memory, state_folder
from ibdissect.wire.catalog import builtin
from tests.tui import made
from tests.tui.test_app import running

CHOSEN = ["number", "info", "infiniband.bth.psn"]


def test_columns_are_kept_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"
    memory = Memory(path)
    assert memory.columns == [] and memory.note == ""
    memory.keep_columns(CHOSEN)
    assert Memory(path).columns == CHOSEN
    assert [entry.name for entry in path.parent.iterdir()] == ["screen.json"]  # nothing half written lies about


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"columns": "number"}', '{"columns": [1]}', '{"columns": ' + "[" * 5000 + "}",
     '{"columns": ["a"]}'.ljust(MAX_SIZE + 2)],
)  # fmt: skip
def test_a_damaged_file_is_ignored_with_a_note(tmp_path: Path, text: str) -> None:
    path = tmp_path / "screen.json"
    path.write_text(text)
    memory = Memory(path)
    assert memory.columns == [] and "cannot be read" in memory.note
    memory.keep_columns(CHOSEN)
    assert Memory(path).columns == CHOSEN


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in Memory(path).note and "cannot be read" in History(path).note


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = Memory(tmp_path / "file" / "screen.json")
    memory.keep_columns(CHOSEN)
    assert memory.columns == CHOSEN
    history = History(tmp_path / "file" / "filters")
    history.add("bth")
    assert history.texts == ["bth"]


def test_the_state_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    folder = state_folder()
    assert folder is not None and folder.is_absolute() and folder.name == "ibdissect"
    # Never where the program was started: that may be the folder of a foreign capture.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_state_dir", lambda *_, **__: "state/ibdissect")
    assert state_folder() is None
    assert Memory().path is None and History().path is None
    Memory().keep_columns(CHOSEN)
    assert list(tmp_path.iterdir()) == []


def test_hostile_lines_of_the_history_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "filters"
    path.write_text("bth\n\x1b[31mred\nlrh\n")
    assert History(path).texts == ["bth", "lrh"]


def test_columns_that_nobody_knows(tmp_path: Path) -> None:
    found, unknown = columns.recalled(["info", "infiniband.bth.psn", "ibdissect.response_time", "x.y"], builtin())
    assert [column.key for column in found] == ["info", "infiniband.bth.psn", "ibdissect.response_time"] and unknown == ["x.y"]


async def test_the_next_run_shows_the_same_columns(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        await pilot.press("v")
        assert isinstance(app.screen, ColumnChoice)
        app.screen.query_one(SelectionList).deselect("length").select("ibdissect.response_time")
        await pilot.press("enter")
        await pilot.pause()
        shown = [column.key for column in app.packets.columns]
        assert "length" not in shown and "ibdissect.response_time" in shown
    assert json.loads((tmp_path / "screen.json").read_text())["columns"] == shown
    async with running(path) as (app, pilot):
        assert [column.key for column in app.packets.columns] == shown
        assert "Response" in app.column_header.title_line


async def test_a_note_says_why_the_default_columns_are_shown(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    (tmp_path / "screen.json").write_text('{"columns": ["number", "\\u001b[31mx"]}')
    async with running(path) as (app, _):
        note = app.query_one(KeyBar).note
        assert "unknown now" in note and "\x1b" not in note
        assert [column.key for column in app.packets.columns] == ["number"]
