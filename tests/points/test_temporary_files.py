"""Columns are read from the temporary file as they were written."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from ibdissect.errors import CaptureError
from ibdissect.points import temporary_files

from .world import World, said


@pytest.fixture
def captures(tmp_path: Path) -> list[str]:
    """Of two points; one of them has some packets twice."""
    world = World(points=("client", "server"))
    world.conversation(60, lost={20: "server"})
    world.seen["server"] += [(time + 700, frame, number) for time, frame, number in world.seen["server"][::9]]
    return world.write(tmp_path)


@pytest.mark.slow
def test_written_and_read(captures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = said(captures)
    monkeypatch.setattr(temporary_files, "IN_MEMORY", 10)
    assert said(captures) == whole and any(isinstance(cell, list) for row in whole["packets"] for cell in row)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_an_error_in_words(captures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_files, "IN_MEMORY", 10)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(CaptureError, match="temporary file: File too large; set TMPDIR"):
            said(captures)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
