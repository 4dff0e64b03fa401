"""An expired request is reported once the capture shows answers to its sender, wherever chunks end."""

from __future__ import annotations

import pytest

from tests.craft import gmp
from tests.rules.findings import lint
from tests.rules.TXN.cases import GET, GET_RESP, PERF, perf

PORT_COUNTERS_EXTENDED = 0x1D
REPLACED = gmp(PERF, GET, PORT_COUNTERS_EXTENDED, bytes([0, 1]), slid=1, dlid=2, header={"transaction_id": 1})
"""Another question with the transaction id of the first one, which is given up then."""


@pytest.mark.parametrize("chunks", [(), (1, 1, 1), (2, 1)])
def test_a_replaced_request_is_reported_when_answers_show_later(chunks: tuple[int, ...]) -> None:
    found = lint([perf(GET, 1), REPLACED, perf(GET, 2), perf(GET_RESP, 2)], "TXN001", chunks=chunks, step_ns=2_000_000_000)
    assert [one.frame for one in found] == [1, 2], "the question that replaced it was not answered either"


@pytest.mark.parametrize("chunks", [(), (1, 1)])
def test_not_while_the_capture_shows_one_direction(chunks: tuple[int, ...]) -> None:
    assert not lint([perf(GET, 1), REPLACED, perf(GET, 2)], "TXN001", chunks=chunks)
