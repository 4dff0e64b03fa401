"""Is a cause that several connections share said of the host it belongs to, and not of the one that all of them touch?"""

from __future__ import annotations

from tests.diagnosis.lab import MS, SEC, Lab, joined
from tests.diagnosis.test_causes import lossy, repeated


def test_a_dead_host_is_named_and_the_one_that_asks_everybody_is_not() -> None:
    dead, labs = bytes([10, 0, 0, 9]), []
    for i in range(3):
        lab = Lab(b=dead, qa=0x100 + i, qb=0x200 + i)
        lab.good(0, 1000 * i + 100, 5)
        repeated(lab, MS, 1000 * i + 105)
        labs.append(lab)
    for i in range(6):
        lab = Lab(b=bytes([10, 0, 0, 20 + i]), qa=0x300 + i, qb=0x400 + i)
        lab.good(SEC, 50_000 + 1000 * i, 5)
        labs.append(lab)
    found = joined(*labs).diagnosis().shared
    assert [(one.cause, one.host, one.connections, one.of) for one in found] == [("retries-exhausted", "10.0.0.9", 3, 3)]


def test_one_connection_shares_nothing() -> None:
    lab = Lab()
    lossy(lab)
    assert lab.diagnosis().shared == []
