"""Times of frames are those of the capture, and unknown where they were not kept."""

from __future__ import annotations

import pytest

from ibdissect.diagnosis import frame_times
from tests.diagnosis.lab import MS, SEC, START, US, Lab, diagnosis
from tests.diagnosis.test_causes import CAUSES


@pytest.mark.parametrize(("cut", "said"), [(7, True), (6, False)])
def test_frames_that_are_cut_off_are_said(cut: int, said: bool) -> None:
    """From a third of all on."""
    lab = Lab()
    lab.good(0, 100, 10)
    lab.ask(SEC, 110)
    frames = [*lab.frames]
    for i, (time, frame) in enumerate(sorted(frames)[:cut]):
        frames[i] = time, frame
    data = bytearray(lab.pcap())
    at = 24
    for number in range(21):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        if number < cut:
            data[at + 12 : at + 16] = (size + 1 + number).to_bytes(4, "little")
        at += 16 + size
    notes = diagnosis(bytes(data)).notes
    assert bool(notes) is said and (not said or notes[0].startswith("7 of 21 frames are cut off, at 122 bytes or less: "))


def test_a_connection_says_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    lab.good(0, 100, 10)
    lab.ask(SEC, 110)
    lab.answer(SEC + MS, 110, 0x62)
    one = lab.only()
    assert (one.start_ns, one.since_ns, one.last_ns) == (START, START + SEC, START + SEC + MS)
    assert one.round_trip_ns == 5 * US
    for most, known in ((21, True), (20, False)):
        monkeypatch.setattr(frame_times, "MAX_TIMES", most)
        assert lab.only().since_ns == (START + SEC if known else None), "beyond the bound nothing is known"


@pytest.mark.parametrize("name", ["RNR", "loss", "time-outs"])
def test_slowness_is_proved_from_its_first_episode_on(name: str) -> None:
    lab = Lab()
    CAUSES[name][2](lab)
    one = lab.only()
    first = min(each.start_ns for each in one.episodes if each.kind != "idle")
    assert one.since_ns is not None and (one.since_ns == first or (name == "time-outs" and one.since_ns > first))
    assert one.evidence[0] is not None and one.evidence[0] < (one.evidence[1] or 0)
