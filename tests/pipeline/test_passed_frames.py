"""Findings that are made late name their ends, also when the capture can be read only once."""

from __future__ import annotations

import io
import json

import pytest

from ibdissect.capture import records
from ibdissect.pipeline import passed_frames
from tests.capture.built import Pipe
from tests.rules.cases import CASES
from tests.test_windows import findings

LATE = [CASES[code][0].bad for code in ("TXN002", "RC011", "SEM012", "GRH012", "MKY015")]
"""Captures with findings that are made a while after their frame."""


@pytest.mark.parametrize("capture", [pytest.param(one, marks=[pytest.mark.slow] * (number > 0)) for number, one in enumerate(LATE)])
def test_the_ends_are_named_in_windows_of_a_frame(capture: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = findings(io.BytesIO(capture))
    monkeypatch.setattr(records, "ROWS", 1)
    assert findings(io.BytesIO(capture)) == usual
    assert findings(Pipe(capture)) == usual


def named(capture: bytes, code: str) -> list[bool]:
    """Whether each finding of a rule in a capture that can be read only once says who sends and who receives."""
    found = json.loads(findings(Pipe(capture)))["findings"]
    return ["from LID" in one["message"] for one in found if one["code"] == code]


@pytest.mark.slow
def test_only_the_last_frames_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those with datagrams, and those that somebody asked for; where there is room for others only, nobody is named."""
    monkeypatch.setattr(records, "ROWS", 1)
    assert named(CASES["TXN002"][0].bad, "TXN002") == [True]
    monkeypatch.setattr(passed_frames, "MAX_FRAMES", 1)
    assert named(CASES["TXN002"][0].bad, "TXN002") == [False]
