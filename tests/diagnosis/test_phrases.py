"""Numbers, times and shares are said as people say them."""

from __future__ import annotations

import pytest

from ibdissect.diagnosis.connection import ConnectionTimes
from ibdissect.diagnosis.phrases import duration, nth, of_whole, often, reason_said, share, sum_of


@pytest.mark.parametrize(("ns", "text"), [
    (0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (61_530_000, "61.5 ms"), (3_820_000_000, "3.82 s"), (5_000_000_000_000, "5,000 s"),
])  # fmt: skip
def test_durations(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_reasons() -> None:
    said = "a reason that is cut off", "reason 28, consumer reject", "reason 1, no QP available", "reason 99"
    assert tuple(map(reason_said, (None, 28, 1, 99))) == said


def test_numbers() -> None:
    assert (often(1), often(8), often(12)) == ("once", "eight times", "12 times")
    assert (share(41, 100), share(0, 100), share(1, 1000), share(1, 0)) == ("41 %", "0 %", "0.1 %", "0 %")
    assert " ".join(map(nth, (1, 2, 3, 4, 11, 12, 13, 21, 112))) == "1st 2nd 3rd 4th 11th 12th 13th 21st 112th"


def test_parts_of_several_times() -> None:
    both = sum_of([ConnectionTimes(span=4_000_000, timeout=1_000_000), ConnectionTimes(span=1_000_000)])
    assert of_whole(both.timeout, both, "their") == "of their 5 ms (20 %)" and sum_of([]) == ConnectionTimes()
