"""An expired request is reported once the capture shows answers to its sender, wherever chunks end."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from ibdissect.decode.addresses import lid_end
from ibdissect.mad import visible_answers
from ibdissect.python_interface import Capture
from tests.craft import gmp, interfaces_pcapng
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


@pytest.mark.parametrize(("most", "known"), [(2, [False, False, True]), (1, [False, True, True])])
def test_what_was_forgotten_is_not_shown(most: int, known: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """LIDs 2 and 9 answer in the second network, LID 7 does not."""
    monkeypatch.setattr(visible_answers, "MAX_ADDRESSES", most)
    found, talk = visible_answers.VisibleAnswers(), [perf(GET, 1), perf(GET_RESP, 1)]
    frames = [*((i, frame) for i in (0, 1) for frame in talk), (1, perf(GET, 2, dlid=9)), (1, perf(GET_RESP, 2, slid=9))]
    with Capture(io.BytesIO(interfaces_pcapng(frames))) as opened:
        for table in opened.tables():
            found.feed(table)
    assert table.networks is not None and table.networks[-1]
    asked: Any = [SimpleNamespace(route=None, target=lid_end(lid, int(table.networks[-1]))) for lid in (2, 9, 7)]
    assert [found.shows_none_of(one) for one in asked] == known
