"""Are requests with their answers a table, those of plugins, too?"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ibdissect
from tests.craft import erf_pcap, smp
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


def test_requests_of_a_plugin(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcapng", ("1:read", 7, 0), ("2:reply", 7, 250), ("1:read", 8, 1))
    with ibdissect.open(path, plugins=[PLUGIN]) as opened:
        rows = [(row["request"], row["request_frame"], row["response_frame"], str(row["response_time"])) for row in opened.requests()]
    assert rows == [("Talk", 1, 2, "0.250000000"), ("Talk", 3, None, "None")]
