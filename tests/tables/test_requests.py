"""Are requests with their answers a table, those of plugins, too?"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ibdissect
from ibdissect.dfilter.answers import REQUEST_FRAME, AnswerFrames
from tests.craft import erf_pcap, interfaces_pcapng, smp
from tests.decode.made import tables_of
from tests.talk import PLUGIN, capture

pytest.importorskip("pyarrow")


def test_management_requests_with_and_without_an_answer() -> None:
    sent = ((1, 1), (0x81, 1), (1, 2), (1, 2))
    frames = [smp(how, 0x11, header={"transaction_id": n}, slid=1 + (how > 1), dlid=2 - (how > 1)) for how, n in sent]
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
        rows = [(row["request"], row["request_frame"], row["tries"], row["response_frame"]) for row in opened.requests()]
        assert rows == [("SubnGet(NodeInfo)", 1, 1, 2), ("SubnGet(NodeInfo)", 3, 2, None)]
        assert [row["response_time"] is None for row in opened.requests()] == [False, True]
        found = opened.sql("select count(*) as n, count(response_frame) as answered from requests").to_pylist()
        assert found == [{"n": 2, "answered": 1}]


def test_a_clock_that_was_set_back_makes_response_times_unknown() -> None:
    """In the table and for filters."""
    frames = [smp(how, 0x11, header={"transaction_id": 1}, slid=1 + (how > 1), dlid=2 - (how > 1)) for how in (1, 0x81)]
    for times, wanted in (((10**18, 10**18 - 10**9), None), ((10**18, 10**18), 0)):
        data = interfaces_pcapng([(0, frame) for frame in frames], times=times)
        with ibdissect.open(io.BytesIO(data)) as opened:
            (row,) = opened.requests()
            assert row["response_frame"] == 2 and row["response_time"] == wanted
        answers = AnswerFrames()
        for table in tables_of(data):
            answers.feed(table)
        assert (answers.value("ibdissect.response_time", 2), answers.value(REQUEST_FRAME, 2)) == (wanted, 1)


def test_requests_of_a_plugin(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcapng", ("1:read", 7, 0), ("2:reply", 7, 250), ("1:read", 8, 1))
    with ibdissect.open(path, plugins=[PLUGIN]) as opened:
        rows = [(row["request"], row["request_frame"], row["response_frame"], str(row["response_time"])) for row in opened.requests()]
    assert rows == [("Talk", 1, 2, "0.250000000"), ("Talk", 3, None, "None")]
