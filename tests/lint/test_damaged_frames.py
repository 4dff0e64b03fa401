"""Does a damaged frame prove nothing about others, unless most ICRCs are wrong?"""

from __future__ import annotations

import pytest

from ibdissect.lint import damaged_frames
from ibdissect.lint.engine import Linter
from tests.craft import erf_pcap, native
from tests.fabric.made import answer, node
from tests.rules.findings import rules
from tests.table.made import tables_of

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


@pytest.mark.parametrize("window", [1 << 20, 600])
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


@pytest.mark.parametrize("window", [1 << 20, 600])
def test_the_first_are_remembered_and_the_others_reported_in_every_window(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    codes = ("ROC006", "SEM034", "CAP016")
    frames = [*OTHERS, *OTHERS, *OTHERS, damaged(LESSON), *OTHERS, damaged(OTHERS[0]), *OTHERS, CONTRADICTS]
    monkeypatch.setattr(damaged_frames, "MAX_DAMAGED", 2)
    assert [one for one in found(frames, codes, window) if one[0] != "ROC006"] == [("SEM034", 18, "info")]
    monkeypatch.setattr(damaged_frames, "MAX_DAMAGED", 1)
    assert [one for one in found(frames, codes, window) if one[0] != "ROC006"] == [("CAP016", 14, "info"), ("SEM034", 18, "info")]
    frames[9], frames[13] = frames[13], frames[9]
    assert [one for one in found(frames, codes, window) if one[0] != "ROC006"] == [("CAP016", 14, "info"), ("SEM034", 18, "error")]
