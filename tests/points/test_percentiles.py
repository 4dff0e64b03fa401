"""Are percentiles of many values near those of all, and of few exact?"""

from __future__ import annotations

import numpy as np

from ibdissect.points.percentiles import Percentiles


def test_few_are_exact() -> None:
    found = Percentiles(1000)
    assert set(found.result().values()) == {None}
    values = np.random.default_rng(1).integers(-50, 9_000, 900)
    for part in np.split(values, [1, 1, 400]):
        found.add(part)
    wanted = np.rint(np.percentile(values, (0, 50, 90, 99, 100))).astype(int).tolist()
    assert list(found.result().values()) == wanted


def test_of_many_a_share_is_kept() -> None:
    found, values = Percentiles(1000), np.random.default_rng(2).integers(0, 100_000, 50_000)
    for part in np.split(values, range(0, 50_000, 777)):
        found.add(part)
    assert 500 < len(found._kept) <= 1000
    least, *middle, most = found.result().values()
    assert (least, most) == (values.min(), values.max())
    assert np.allclose(np.array(middle, float), np.percentile(values, (50, 90, 99)), atol=4_000)
    ordered = Percentiles(100)
    for at in range(0, 10_000, 37):
        ordered.add(np.arange(at, min(at + 37, 10_000)))
    assert set(np.diff(ordered._kept)) == {ordered._every}  # evenly spread, whatever the parts
