"""The buckets of the time chart are equal, and what one counts by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.time_chart import Series, TimeChart, ticks, time_filter
from tests import craft


def chart_of(
    tmp_path: Path, *texts: str, many: int = 8, wanted: Callable[[], bool] = lambda: True, most: int = 1000
) -> TimeChart:  # fmt: skip
    """A chart of that many SENDs, a millisecond apart, of growing length; `most`: of so many frames at once."""
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, bytes(4 * (i % 3)), bth={"destqp": i % 2}) for i in range(many)]))
    model = CaptureModel(str(path))
    model.scan(lambda: None)
    chart = TimeChart(model)
    chart.series = [Series(text, model.filter(text)[0]) for text in texts]
    after = model.index.after
    model.index.after = lambda done, count: after(done, min(count, most))  # type: ignore[method-assign]
    chart.follow(wanted, lambda: None)
    return chart


@pytest.mark.parametrize("columns", [1, 3, 10, 97])
def test_every_bucket_is_as_long_and_nothing_is_lost(tmp_path: Path, columns: int) -> None:
    chart = chart_of(tmp_path, "", "infiniband.bth.destqp == 1", many=300)
    step, (every, odd) = chart.counts((0, chart.span), columns)
    by_hand = Counter(frame * 1_000_000 // step for frame in range(300))
    assert len(every) <= columns and every == [by_hand[bucket] for bucket in range(len(every))]
    assert sum(odd) == 150


def test_zoom_and_bytes(tmp_path: Path) -> None:
    chart = chart_of(tmp_path, "", many=10)
    step, (octets,) = chart.counts((2_000_000, 5_000_000), 3, measure="bytes")
    lengths = [int(length) for length in chart.model.index.chunk([3, 4, 5]).length]
    assert step == 1_000_000 and octets == lengths and chart.first_frame((2_000_000, 5_000_000)) == 3
    assert chart.first_frame((9_500_000, 9_600_000)) is None


def test_a_chart_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three frames at a time, and no more after the first three."""
    chart = chart_of(tmp_path, "", wanted=iter([True, False]).__next__, most=3)
    assert chart.frames == 3 and sum(chart.counts((0, chart.span), 5)[1][0]) == 3
    chart.follow(lambda: True, lambda: None)
    assert chart.frames == 8 and sum(chart.counts((0, chart.span), 5)[1][0]) == 8
    chart.follow(lambda: True, lambda: None)
    assert chart.frames == 8


def test_ticks_are_round_and_apart() -> None:
    found = ticks((0, 1_000_000_000), 100)
    assert [text for _, text in found] == ["0 ns", "200 ms", "400 ms", "600 ms", "800 ms"]
    assert np.diff([place for place, _ in found]).min() >= 12


def test_filter_of_a_range(tmp_path: Path) -> None:
    chart = chart_of(tmp_path, "")
    text = time_filter((2_000_000, 4_000_000), "bth.destqp == 1 || bth.destqp == 0")
    matcher = chart.model.filter(text)[0]
    assert matcher is not None and chart.model.matches(matcher, chart.model.index.after(0, 8)).nonzero()[0].tolist() == [2, 3]
