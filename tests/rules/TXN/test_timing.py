"""A second that brought too many requests to remember them all is reported in the same way, whatever the window."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.decode.history import SECOND_NS
from ibdissect.lint.rule import Context
from ibdissect.rules.TXN import timing
from ibdissect.rules.TXN.timing import Flood, TransactionReused
from tests.craft import erf_pcap, gmp
from tests.decode.made import tables_of


@pytest.mark.parametrize(("most", "kept"), [(9, [2, 4]), (1, [4])])
def test_only_requests_of_the_last_second_are_remembered(most: int, kept: list[int]) -> None:
    """Also where a late record stands between them."""
    times = np.array([1, 2, 5, 3, 5.5]) * SECOND_NS
    assert np.arange(5)[timing._last_second(times, most)].tolist() == kept


@pytest.mark.parametrize("rule", [Flood, TransactionReused])
@pytest.mark.parametrize("window", [16, 5000, 1 << 20])
def test_the_first_one_without_room_is_named(rule: type[Flood | TransactionReused], window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MAX_KEPT", 40)
    monkeypatch.setattr(timing, "MAX_ASKED", 40)
    packets = [gmp(0x04, 1, 0x12, slid=1, dlid=2, header={"transaction_id": i + 1}) for i in range(200)]
    judge = rule()
    for table in tables_of(erf_pcap(packets, step_ns=10_000_000), window):
        list(judge.look(table, Context()))
    assert (judge.dropped.frame, judge.dropped.count) == (41, 160)
