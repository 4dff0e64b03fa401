"""Columns and filters are remembered between runs, and a damaged or foreign file stops nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibdissect.screen_model.saved_state import FilterHistory, Profile

CHOSEN = ["number", "info", "infiniband.bth.psn"]


def test_columns_are_kept_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"
    memory = Profile(path)
    assert memory.columns == [] and memory.note == ""
    memory.keep_columns(CHOSEN)
    assert Profile(path).columns == CHOSEN
    assert [entry.name for entry in path.parent.iterdir()] == ["screen.json"]  # nothing half written lies about


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"columns": "number"}', '{"columns": [1]}', '{"columns": ' + "[" * 5000 + "}",
     '{"columns": ["a"]}'.ljust(262_146)],
)  # fmt: skip
def test_a_damaged_file_is_ignored_with_a_note(tmp_path: Path, text: str) -> None:
    path = tmp_path / "screen.json"
    path.write_text(text)
    memory = Profile(path)
    assert memory.columns == [] and "cannot be read" in memory.note
    memory.keep_columns(CHOSEN)
    assert Profile(path).columns == CHOSEN


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in Profile(path).note and "cannot be read" in FilterHistory(path).note


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = Profile(tmp_path / "file" / "screen.json")
    memory.keep_columns(CHOSEN)
    assert memory.columns == CHOSEN
    history = FilterHistory(tmp_path / "file" / "filters")
    history.add("bth")
    assert history.texts == ["bth"]


def test_the_state_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    path = Profile().path
    assert path is not None and path.is_absolute() and path.parent == tmp_path / "ibdissect"
    # Never where the program was started: that may be the folder of a foreign capture.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_state_dir", lambda *_, **__: "state/ibdissect")
    assert Profile().path is None and FilterHistory().path is None
    Profile().keep_columns(CHOSEN)
    assert list(tmp_path.iterdir()) == []


def test_hostile_lines_of_the_history_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "filters"
    path.write_text("bth\n\x1b[31mred\nlrh\n")
    assert FilterHistory(path).texts == ["bth", "lrh"]


def test_history(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "filters"
    history = FilterHistory(path)
    for text in ("a", "b  c", "a", " "):
        history.add(text)
    assert history.texts == ["b c", "a"] and FilterHistory(path).texts == ["b c", "a"]
    blocked = FilterHistory(tmp_path / "deep" / "filters" / "below a file")
    blocked.add("x")
    assert blocked.texts == ["x"]


def test_the_look_is_remembered_beside_the_columns(tmp_path: Path) -> None:
    memory = Profile(tmp_path / "screen.json")
    memory.keep("theme", "ibdissect-light")
    memory.keep_columns(["number", "info"])
    again = Profile(tmp_path / "screen.json")
    assert again.look == {"theme": "ibdissect-light"} and again.columns == ["number", "info"]


def test_profiles_have_names_and_the_last_one_is_found_again(tmp_path: Path) -> None:
    first = Profile(tmp_path / "screen.json")
    first.keep("theme", "nord")
    first.keep("color mad", "red")
    assert first.name == "" and first.others() == [] and first.last() is first and first.by_kind("color") == {"mad": "red"}
    mine = first.save_as("my work.2")
    mine.keep("theme", "gruvbox")
    again = Profile(tmp_path / "screen.json").last()
    assert (again.name, again.look["theme"], again.by_kind("color")) == ("my work.2", "gruvbox", {"mad": "red"})
    assert again.others() == ["my work.2"] and "profile" not in again.look
    default = again.other("")
    assert default.name == "" and default.look["theme"] == "nord" and default.last() is default


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "x" * 41, "a\n", "-x"])
def test_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    path = tmp_path / "screen.json"
    path.write_text(json.dumps({"profile": name}))
    assert Profile(path).last().name == ""
