"""An expired request is reported once the capture shows answers to its sender, wherever chunks end."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibdissect.decode.addresses import ends_of, lid_end
from ibdissect.mad import visible_answers
from ibdissect.python_interface import Capture
from tests.craft import ethernet_pcap, gmp, interfaces_pcapng
from tests.rules.findings import lint
from tests.rules.made.connections import over_ethernet
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


@pytest.mark.parametrize(("most", "known"), [(2, [True, True, False, False]), (1, [True, False, False, False])])
def test_what_was_forgotten_is_not_shown(most: int, known: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """LIDs 2 and 9 answer LID 1 in the second network, LID 7 does not, and nobody answers LID 2."""
    monkeypatch.setattr(visible_answers, "MAX_PAIRS", most)
    monkeypatch.setattr(visible_answers, "MAX_ADDRESSES", most)
    found, talk = visible_answers.VisibleAnswers(), [perf(GET, 1), perf(GET_RESP, 1)]
    frames = [*((i, frame) for i in (0, 1) for frame in talk[: 1 + i]), (1, perf(GET, 2, dlid=9)), (1, perf(GET_RESP, 2, slid=9))]
    with Capture(io.BytesIO(interfaces_pcapng(frames))) as opened:
        for table in opened.tables():
            found.feed(table)
    network = int(table.networks[-1]) if table.networks is not None else 0
    assert network
    assert [lid_end(lid, network) in found.senders for lid in (2, 9, 7)] == known[:3]
    ways = [(1, 2), (1, 9), (1, 7), (2, 1)]
    asked: Any = [SimpleNamespace(route=None, source=lid_end(one, network), target=lid_end(other, network)) for one, other in ways]
    assert [not found.shows_none_to(one) for one in asked] == known
    assert found.shows_none_to(SimpleNamespace(route=None, source=lid_end(1), target=lid_end(2))), "the first network shows a request"


def test_ends_of_roce() -> None:
    """Both kinds of addresses are known again: the number of an address is that of its column."""
    found = visible_answers.VisibleAnswers()
    one, two = bytes([0xFE, 0x80, *bytes(13), 1]), bytes([0xFE, 0x80, *bytes(13), 2])
    wide = [perf(GET, 1, grh={"sgid": one, "dgid": two}), perf(GET_RESP, 1, grh={"sgid": two, "dgid": one})]
    frames = [over_ethernet(perf(GET, 1), 1), over_ethernet(perf(GET_RESP, 1), 2)]
    frames += [bytes(12) + b"\x89\x15" + frame[8:-2] for frame in wide]
    with Capture(io.BytesIO(ethernet_pcap(frames))) as opened:
        for table in opened.tables():
            found.feed(table)
            ends = ends_of(table, np.arange(4))
    asked: list[Any] = [SimpleNamespace(route=None, source=near, target=far) for near, far in ends]
    assert [not found.shows_none_to(one) for one in asked] == [True, False, True, False]
