"""Percentiles of many values are near those of all, and of few exact."""

from __future__ import annotations

import numpy as np

from ibdissect.points.percentiles import Percentiles


def test_few_are_exact() -> None:
    found = Percentiles(1000)
    assert set(found.result().values()) == {None, 1}
    values = np.random.default_rng(1).integers(-50, 9_000, 900)
    for part in np.split(values, [1, 1, 400]):
        found.add(part)
    wanted = np.sort(values)[[0, 449, 809, 854, 890, 899]].tolist()  # the nearest rank: 50 % of 900 are 450 values
    assert list(found.result().values()) == [*wanted, 1] and list(found.result()) == ["min", "p50", "p90", "p95", "p99", "max", "one_of"]


def test_of_many_a_share_is_kept() -> None:
    found, values = Percentiles(1000), np.random.default_rng(2).integers(0, 100_000, 50_000)
    for part in np.split(values, range(0, 50_000, 777)):
        found.add(part)
    assert 500 < len(found._kept) <= 1000
    least, *middle, most, one_of = found.result().values()
    assert one_of == found._every == 64
    assert (least, most) == (values.min(), values.max())
    assert np.allclose(np.array(middle, float), np.percentile(values, (50, 90, 95, 99)), atol=4_000)
    ordered = Percentiles(100)
    for at in range(0, 10_000, 37):
        ordered.add(np.arange(at, min(at + 37, 10_000)))
    assert set(np.diff(ordered._kept)) == {ordered._every}  # evenly spread, whatever the parts
