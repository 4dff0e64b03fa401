"""A damaged frame proves nothing about others, unless most ICRCs are wrong; what was learnt later proves little about an older frame."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibdissect.lint import doubtful_frames
from ibdissect.lint.doubtful_frames import CorruptFrames, LateFrames
from ibdissect.lint.linter import Linter
from tests.cases import every, few
from tests.craft import erf_pcap, native
from tests.decode.made import tables_of
from tests.robustness.manipulations import ETHERNET, Pcap, Record
from tests.rules.findings import rules
from tests.subnet.made import answer, ask, node

SECOND = 1_000_000_000
LINK = 247
OTHERS = [native(bth={"psn": n}) for n in range(3)]
LESSON, CONTRADICTS = answer(2, 0x11, node(2)), answer(2, 0x11, node(2, device_id=9))


def damaged(frame: bytes) -> bytes:
    """The frame with another ICRC and VCRC."""
    return frame[:-6] + bytes(byte ^ 0xFF for byte in frame[-6:])


def found(frames: list[bytes], codes: tuple[str, ...] = ("ROC006", "SEM034"), window: int = 1 << 20) -> list[tuple[str, int, str]]:
    linter = Linter([rules()[code] for code in codes])
    for table in tables_of(erf_pcap(frames), window):
        linter.feed(table)
    return [(one.code, one.frame, str(one.severity)) for one in linter.finish()]


@few("window", [1 << 20, 600], fast=(1,))
def test_a_damaged_frame_proves_little_about_others(window: int) -> None:
    frames = [*OTHERS, LESSON, CONTRADICTS]
    assert found(frames, window=window) == [("SEM034", 5, "error")]
    frames[3] = damaged(LESSON)
    assert found(frames, window=window) == [("ROC006", 4, "error"), ("SEM034", 5, "info")]


def test_where_most_icrcs_are_wrong_they_say_nothing() -> None:
    assert found([damaged(LESSON), CONTRADICTS])[1:] == [("SEM034", 2, "error")]


@pytest.mark.parametrize("window", [1 << 20, 600])
def test_packets_without_an_icrc_do_not_count(window: int) -> None:
    raw = native(lrh={"lnh": 0})
    assert found([raw, raw, raw, damaged(LESSON), CONTRADICTS], window=window) == [("ROC006", 4, "error"), ("SEM034", 5, "error")]


def test_without_checks_of_the_icrc() -> None:
    assert found([*OTHERS, damaged(LESSON), CONTRADICTS], codes=("SEM034",)) == [("SEM034", 5, "error")]


@few("window", [1 << 20, 600], fast=(0,))
def test_the_first_are_remembered_and_the_others_reported_in_every_window(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    codes = ("ROC006", "SEM034", "CAP016")
    frames = [*OTHERS, *OTHERS, *OTHERS, damaged(LESSON), *OTHERS, damaged(OTHERS[0]), *OTHERS, CONTRADICTS]
    monkeypatch.setattr(doubtful_frames, "MAX_DAMAGED", 2)
    assert [one for one in found(frames, codes, window) if one[0] != "ROC006"] == [("SEM034", 18, "info")]
    monkeypatch.setattr(doubtful_frames, "MAX_DAMAGED", 1)
    assert [one for one in found(frames, codes, window) if one[0] != "ROC006"] == [("CAP016", 14, "info"), ("SEM034", 18, "info")]
    frames[9], frames[13] = frames[13], frames[9]
    assert [one for one in found(frames, codes, window) if one[0] != "ROC006"] == [("CAP016", 14, "info"), ("SEM034", 18, "error")]


def found_at(*records: tuple[int, bytes], codes: tuple[str, ...]) -> list[tuple[str, int, str]]:
    linter = Linter([rules()[code] for code in codes])
    pcap = Pcap(LINK, tuple(Record(i, time, data, len(data)) for i, (time, data) in enumerate(records, 1)))
    for table in tables_of(pcap.packed()):
        linter.feed(table)
    return [(one.code, one.frame, str(one.severity)) for one in linter.finish()]


def test_what_was_learnt_later_proves_little_about_earlier_packets() -> None:
    shown, asked = answer(2, 0x11, node(2)), ask(2, 0x15, modifier=9)
    assert found_at((5 * SECOND, shown), (6 * SECOND, asked), codes=("AM007",)) == [("AM007", 2, "error")]
    assert found_at((5 * SECOND, shown), (3 * SECOND, asked), codes=("AM007",)) == [("AM007", 2, "info")]
    assert found_at((5 * SECOND, shown), (9 * SECOND // 2, asked), codes=("AM007",)) == [("AM007", 2, "error")]


def test_what_a_packet_shows_itself_counts_at_any_time() -> None:
    faulty = native(bth={"tver": 1})
    assert found_at((5 * SECOND, native()), (1 * SECOND, faulty), codes=("BTH003",)) == [("BTH003", 2, "error")]


@pytest.mark.parametrize("window", [100, 200, 300, 1 << 20])
@pytest.mark.parametrize(
    ("most", "expected", "lost"), [(4096, [3, 4, 7], 0), (2, [3, 4, 7], 0), (1, [3, 4, 7, 8], 1), (0, [3, 4, 5, 6, 7, 8], 2)]
)
def test_stretches(most: int, expected: list[int], lost: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across chunks; a time of 0 is unknown; if there are too many stretches, all that follows is taken for one."""
    monkeypatch.setattr(doubtful_frames, "MAX_STRETCHES", most)
    past, times = LateFrames(), [10, 20, 12, 13, 0, 21, 15, 22]
    pcap = Pcap(ETHERNET, tuple(Record(i, time * SECOND, bytes(60), 60) for i, time in enumerate(times, 1)))
    for table in tables_of(pcap.packed(), window):
        past.feed(table)
    assert [frame for frame in range(1, 9) if frame in past] == expected
    assert (past.dropped.count, past.dropped.frame) == (lost, {0: 0, 1: 7, 2: 3}[lost])


@every("right", range(2 * doubtful_frames.SHARE))
def test_what_share_of_wrong_icrcs_tells_damage(right: int) -> None:
    """One of SHARE packets that were checked so far, the damaged one counted."""
    frames = [*OTHERS[:1] * right, damaged(LESSON), CONTRADICTS]
    severity = "info" if right + 1 >= doubtful_frames.SHARE else "error"
    assert found(frames)[-1] == ("SEM034", right + 2, severity)


@every(("back", "late"), [(0, False), (SECOND - 1, False), (SECOND, False), (SECOND + 1, True), (5 * SECOND, True)])
def test_a_frame_is_late_by_more_than_a_second(back: int, late: bool) -> None:
    past = LateFrames()
    times = [100 * SECOND, 100 * SECOND - back, 101 * SECOND]
    capture = Pcap(ETHERNET, tuple(Record(i, time, bytes(60), 60) for i, time in enumerate(times, 1)))
    for table in tables_of(capture.packed()):
        past.feed(table)
    assert [frame in past for frame in (1, 2, 3)] == [False, late, False]


def checksums(first: int, bad: str) -> Any:
    """A chunk with frames from `first` whose ICRCs are right (0), wrong (1) or were not checked (-)."""
    found = SimpleNamespace(bad=np.array([one == "1" for one in bad]), rows=np.flatnonzero([one != "-" for one in bad]))
    chunk = SimpleNamespace(first=first, time_ns=np.arange(first, first + len(bad)) * SECOND)
    return SimpleNamespace(has=lambda _: True, once=lambda _: found, chunk=chunk)


@pytest.mark.parametrize(
    ("most", "chunks", "damaged", "lost"),
    [
        (9, ["00001"], [5], (0, 0)), (9, ["0-1-1"], [3], (0, 0)), (9, ["001", "101", "00001"], [3, 4, 6, 11], (0, 0)),
        (9, ["11", "000", "01"], [7], (0, 0)), (9, ["0011"], [3, 4], (0, 0)), (9, ["011", "0", "1"], [2], (0, 0)),
        (2, ["00001", "11"], [5, 6], (1, 7)), (2, ["0000011", "1"], [6, 7], (1, 8)), (1, ["0000111"], [5], (2, 6)), (2, ["0001", "01"],
        [4, 6], (0, 0)),
    ],
)  # fmt: skip
def test_which_frames_were_damaged(
    monkeypatch: pytest.MonkeyPatch, most: int, chunks: list[str], damaged: list[int], lost: tuple[int, int]
) -> None:
    """One whose ICRC is wrong while no more than half of those so far are; the first ones are remembered."""
    monkeypatch.setattr(doubtful_frames, "MAX_DAMAGED", most)
    found, first = CorruptFrames(), 1
    assert not found.known and found.any_of([1]) is False
    for bad in chunks:
        found.feed(checksums(first, bad))
        first += len(bad)
    assert [frame for frame in range(first + 2) if found.any_of([frame])] == damaged and found.known
    assert (found.dropped.count, found.dropped.frame) == lost
    assert found.any_of([0, damaged[-1], 99]) and not found.any_of([0, 99]) and not found.any_of([])
