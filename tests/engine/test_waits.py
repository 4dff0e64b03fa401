"""Are packets that wait kept in order, and within their bound?"""

from __future__ import annotations

from ibdissect.engine import kinds
from tests.engine.plain import plain


def test_the_ring_goes_round_and_grows() -> None:
    waits = plain("waits").Waits()
    assert waits.first() is None
    seen = []
    for i in range(100):
        assert waits.add(i, i + 1, 10 * i, 100 + i, 7, 8) == 0
        if i % 3 == 2:
            seen.append(waits.value(0, 0))
            waits.drop()
    while waits.count:
        assert waits.first() == (waits.value(0, 0), 100 + waits.value(0, 0), 7)
        seen.append(waits.value(0, 0))
        waits.drop()
    assert seen == list(range(100))


def test_it_is_bounded() -> None:
    waits = plain("waits").Waits()
    assert [waits.add(i, i + 1, 0, 0, 0, 0) for i in range(kinds.MAX_WAITING + 2)] == [0] * kinds.MAX_WAITING + [1, 1]
