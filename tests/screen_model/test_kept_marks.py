"""Marks and notes of a capture are there in the next run, and only of the same capture."""

from __future__ import annotations

import io
import os
from pathlib import Path

from ibdissect.screen_model.kept_marks import KeptMarks
from tests.screen_model import made
from tests.screen_model.made import opened


def test_marks_and_notes_are_kept(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    model = opened(path)
    kept = KeptMarks(model, tmp_path / "state")
    assert kept.keep() and kept.recall() == 0, "there are none"
    model.marked |= {3, 4, 5, 9}
    model.note(7, "look here")
    assert kept.keep()
    model.close()

    again = opened(path)
    assert KeptMarks(again, tmp_path / "state").recall() == 5
    assert again.marked == {3, 4, 5, 9} and again.notes == {7: ["look here"]}
    other = KeptMarks(again, tmp_path / "elsewhere")
    again.marked.clear()
    again.notes.clear()
    assert other.recall() == 0
    assert KeptMarks(again, tmp_path / "state").keep(), "all marks were taken away"
    assert KeptMarks(again, tmp_path / "state").recall() == 0
    again.marked |= set(range(1, 40_000, 2))
    assert not KeptMarks(again, tmp_path / "state").keep(), "too much to be kept"
    again.close()


def test_another_capture_in_its_place_has_none(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    model = opened(path)
    model.marked |= {3}
    assert KeptMarks(model, tmp_path).keep()
    model.close()
    path.write_bytes(path.read_bytes()[:24] + bytes(100) + path.read_bytes()[124:])
    model = opened(path)
    assert KeptMarks(model, tmp_path).recall() == 0
    for nonsense in ("{", '{"head": 1}', "[" * 5000, '{"head_size": 4, "head": "", "marked": 3, "notes": []}'):
        next((tmp_path / "marks").glob("*.json")).write_text(nonsense)
        assert KeptMarks(model, tmp_path).recall() == 0
    model.close()


def test_only_the_captures_of_late_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    for i in range(210):
        (tmp_path / "marks" / f"{i}.json").touch()
        os.utime(tmp_path / "marks" / f"{i}.json", (i, i))
    model = opened(made.capture(tmp_path))
    model.marked |= {1}
    assert KeptMarks(model, tmp_path).keep()
    there = {path.name for path in (tmp_path / "marks").iterdir()}
    assert len(there) == 200 and not there & {f"{i}.json" for i in range(11)}
    model.marked.clear()
    assert KeptMarks(model, tmp_path).recall() == 1
    model.close()


def test_marks_of_a_pipe_cannot_be_kept(tmp_path: Path) -> None:
    model = opened(io.BytesIO(made.capture(tmp_path).read_bytes()))
    kept = KeptMarks(model, tmp_path)
    assert kept.keep(), "none are lost"
    model.marked |= {1}
    assert not kept.keep() and kept.recall() == 0
    model.close()
