"""Are the worst connections told first, and what it cost?"""

from __future__ import annotations

import msgspec

from ibdissect.diagnosis.connection import Times
from ibdissect.diagnosis.text import lines, where_time_went, worst_first
from ibdissect.wire.text import plain
from tests.diagnosis.lab import START, Lab, joined
from tests.diagnosis.test_causes import exhausted, idle, slow_rnr, slow_timeout


def several() -> Lab:
    labs = []
    for i, make in enumerate((slow_rnr, idle, exhausted, slow_timeout, lambda lab: lab.good(0, 100, 5))):
        lab = Lab(a=bytes([10, 0, 1, i]), b=bytes([10, 0, 2, i]), qa=0x100 + i, qb=0x200 + i)
        make(lab)
        labs.append(lab)
    return joined(*labs)


def test_the_order() -> None:
    found = worst_first(several().diagnosis().connections)
    assert [one.cause for one in found][:4] == ["retries-exhausted", "slow-by-timeout", "slow-by-rnr", "slow-by-application"]


def test_the_text() -> None:
    text = "\n".join(lines(several().diagnosis(), plain, START, 2))
    assert text.startswith("lab: 6 connections in ") and "1 failed, 3 slow, 2 healthy" in text
    assert "✖ 10.0.1.2 QP 0x000102 → 10.0.2.2 QP 0x000202  RC  retries-exhausted" in text
    assert "... and 2 more; --top 4 shows them all" in text and "slow-by-rnr" not in text
    assert "Where the time went" in text and "waiting for time-outs" in text.partition("Where the time went")[2]
    assert "healthy" in "\n".join(lines(several().diagnosis(), plain, START, 20, every=True)).partition("waiting")[2]


def test_connections_that_lost_no_time_are_not_told_of() -> None:
    """Not even where a capture's clock made their sums negative."""
    lab = Lab()
    lab.good(0, 100, 5)
    found = lab.only()
    for times in (Times(-10, transferring=-10), Times(-10, transferring=-11, timeout=1), Times(10, transferring=10)):
        assert list(where_time_went([msgspec.structs.replace(found, times=times)], lambda text, _: text)) == []
