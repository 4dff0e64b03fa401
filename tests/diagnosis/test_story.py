"""The end of a connection is told where the capture shows it."""

from __future__ import annotations

from tests.diagnosis.lab import Lab
from tests.diagnosis.test_causes import CAUSES


def test_how_requests_ended_is_not_told_where_they_are_not_captured() -> None:
    lab = Lab()
    CAUSES["RNR exhausted"][2](lab)
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == lab.b]
    assert "the capture ends then" not in lab.only().why and "sent nothing more" not in lab.only().why


def test_what_follows_a_failure_is_told() -> None:
    lab = Lab()
    CAUSES["RNR exhausted"][2](lab)
    assert "10.0.0.1 then ended the connection (DREQ, frame 14)" in lab.only().why
    lab.frames = lab.frames[:-2]  # without the DREQ and the DREP
    assert lab.only().why.endswith("; the capture ends then")
