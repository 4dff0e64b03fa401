"""Pauses of a point that are holes: several packets passed, none was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.points import matching_in_windows, read_captures

from .world import World, said


@pytest.mark.parametrize(("passed", "counted"), [(3, {"not_captured": 3, "outside": 0}), (4, {"not_captured": 0, "outside": 4})])
def test_holes(tmp_path: Path, passed: int, counted: dict[str, int]) -> None:
    """Few packets that the tap lacks in a pause were missed, many were outside of what it captured."""
    world = World()
    end = world.conversation(60)
    for number in range(passed):
        world.packet(end + 20_000 * number, psn=1_000 + number, missing=["tap"])
    world.conversation(60, time=end + 400_000, psn=100)
    pair = world.result(tmp_path)["pairs"][0]
    assert {name: pair[name] for name in counted} == counted and pair["to"] == "tap"


@pytest.mark.slow
def test_holes_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pauses of the tap: in one of them one packet too few passed."""
    world = World()
    end = world.conversation(60)
    for number in range(100):
        pause = number in range(30, 33) or number in range(60, 80)
        world.packet(end + 20_000 * number, psn=1_000 + number, missing=["tap"] if pause else [])
    paths = world.write(tmp_path)
    whole = said(paths)
    monkeypatch.setattr(read_captures, "BLOCK", 16)
    monkeypatch.setattr(matching_in_windows, "REORDERED_NS", 20_000)
    assert said(paths, window=20) == whole
    assert len(whole["not_captured"]) == 3 and whole["pairs"][0]["outside"] == 20
