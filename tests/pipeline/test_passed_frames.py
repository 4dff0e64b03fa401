"""Findings that are made late name their ends, also when the capture can be read only once."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from ibdissect.capture import records
from ibdissect.capture.opening import open_capture
from ibdissect.pipeline import passed_frames
from ibdissect.pipeline.passed_frames import PassedFrames
from ibdissect.pipeline.reading import Reading
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


def test_only_the_last_frames_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those with datagrams, and those that somebody asked for."""
    data = CASES["TXN002"][0].bad
    with Reading(open_capture(io.BytesIO(data))) as reading:
        (table,) = reading.tables()
        kept = PassedFrames()
        kept.feed(table, [])
        chunk, numbers = kept.chunk([1, 2, 2, 99])
        assert numbers.tolist() == [1, 2]
        for row in range(2):
            assert chunk.frame_bytes(row) == table.chunk.frame_bytes(row)[: passed_frames.KEPT_BYTES]
        assert np.array_equal(chunk.time_ns, table.chunk.time_ns[:2])
        monkeypatch.setattr(passed_frames, "MAX_FRAMES", 1)
        kept = PassedFrames()
        kept.feed(table, [])
        assert list(kept.kept) == [len(table)]


def test_others_are_kept_when_asked_for() -> None:
    with Reading(open_capture(io.BytesIO(CASES["RC011"][0].bad))) as reading:
        (table,) = reading.tables()
        kept = PassedFrames()
        kept.feed(table, [4, 1000])
        assert 4 in kept.kept and 1000 not in kept.kept
        assert kept.chunk([4])[0].frame_bytes(0) == table.chunk.frame_bytes(3)


def test_what_was_not_kept_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", 1)
    monkeypatch.setattr(PassedFrames, "feed", lambda *_: None)
    (message,) = [one["message"] for one in json.loads(findings(Pipe(CASES["TXN002"][0].bad)))["findings"] if one["code"] == "TXN002"]
    assert "from LID" not in message
