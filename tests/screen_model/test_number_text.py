"""Numbers, durations and small graphs read as people write them."""

from __future__ import annotations

from ibdissect.screen_model.number_text import duration, octets, spark, squeeze


def test_numbers_for_people() -> None:
    assert [octets(n) for n in (0, 999, 1500, 123_456, 5_000_000_000)] == ["0 B", "999 B", "1.5 kB", "123 kB", "5.0 GB"]
    assert [duration(n) for n in (5, 61_000, 2_500_000)] == ["5 ns", "61 µs", "2.5 ms"]
    assert [duration(n) for n in (3_100_000_000, 90_000_000_000)] == ["3.10 s", "1 min 30 s"]
    assert spark([0, 1, 8]) == " ▁█" and spark([]) == "" and spark([0, 0]) == "  "
    assert set(squeeze([7] * 4096, 108)[:-1]) == {7 * 38}, "equal buckets give a flat line, no comb"
    assert squeeze([1, 2, 3, 4], 2) == [3, 7] and squeeze([5], 3) == [5, 5, 5] and squeeze([], 2) == [0, 0]
