"""Requests with their answers are a table, those of plugins, too."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ibdissect
from ibdissect.dfilter.compile import compile_filter
from ibdissect.tables import arrow
from tests.cases import every
from tests.craft import erf_pcap, interfaces_pcapng, smp
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
            _, answer = opened.table().select("ibdissect.response_time", "ibdissect.request_frame")
            assert answer == {"ibdissect.response_time": wanted, "ibdissect.request_frame": 1}


def test_requests_of_a_plugin(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcapng", ("1:read", 7, 0), ("2:reply", 7, 250), ("1:read", 8, 1))
    with ibdissect.open(path, plugins=[PLUGIN]) as opened:
        rows = [(row["request"], row["request_frame"], row["response_frame"], str(row["response_time"])) for row in opened.requests()]
    assert rows == [("Talk", 1, 2, "0.250000000"), ("Talk", 3, None, "None")]


def sent(*what: tuple[int, int, int, int]) -> bytes:
    """SMPs with these methods, transactions, statuses and LIDs of the port."""
    return erf_pcap([
        smp(how, 0x11, header={"transaction_id": n, "status": status}, **ends(how, lid)) for how, n, status, lid in what
    ])  # fmt: skip


def ends(method: int, lid: int) -> dict[str, int]:
    return {"slid": lid, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": lid}


TALK = sent((1, 1, 0, 2), (1, 2, 0, 3), (1, 2, 0, 3), (0x81, 2, 0x1C, 3), (0x81, 1, 0x8004, 2), (1, 4, 0, 5), (1, 3, 0, 4), (1, 4, 0, 5))


def test_all_columns_of_requests() -> None:
    """Answered ones in the order of their answers, the others by their first frame; times in order."""
    with ibdissect.open(io.BytesIO(TALK)) as opened:
        rows = [list(row.values()) for row in opened.requests()]
        assert list(next(iter(opened.requests()))) == opened.requests().schema().names
    assert [row[4:8] + row[9:] for row in rows] == [[2, 3, 2, 4, 0x1C], [1, 1, 1, 5, 0x8004], [6, 8, 2, None, None], [7, 7, 1, None, None]]
    assert [(row[0], row[1], row[2]) for row in rows] == [("SubnGet(NodeInfo)", "LID 1", f"LID {lid}") for lid in (3, 2, 5, 4)]
    assert [row[8] is None for row in rows] == [False, False, True, True] and len({row[3] for row in rows}) == 4
    times = [int(row[3].value) if hasattr(row[3], "value") else round(row[3].timestamp() * 1e9) for row in rows]
    assert round(float(rows[1][8]), 6) == 0.004 and round(float(rows[0][8]), 6) == 0.001, "from the latest try"
    assert times[1] < times[0] < times[2] < times[3]


@every(
    ("only", "found"),
    [
        ("frame.number == 1", [1]), ("frame.number == 5", [1]), ("frame.number == 2", [2]), ("frame.number == 3", [2]),
        ("frame.number == 4", [2]),         ("frame.number == 6", [6]), ("frame.number == 8", [6]), ("frame.number == 7", [7]),
        ("frame.number > 8", []),
        ("frame.number in {4, 7}", [2, 7]),
    ],
)  # fmt: skip
def test_requests_of_which_a_frame_is_selected(only: str, found: list[int]) -> None:
    """The first try, the latest one, or the answer."""
    with ibdissect.open(io.BytesIO(TALK)) as opened:
        opened.selection = compile_filter(only, opened.catalog)
        assert [row["request_frame"] for row in opened.requests()] == found


@pytest.mark.parametrize(("path", "status"), [([], 0x801C), ([1, 2], 0x1C)])
def test_the_direction_of_an_smp_is_no_status(path: list[int], status: int) -> None:
    kw = {"path": path} if path else {}
    frames = [smp(1, 0x11, header={"transaction_id": 1}, **kw), smp(0x81, 0x11, header={"transaction_id": 1, "status": 0x801C}, **kw)]
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
        assert [row["status"] for row in opened.requests() if row["status"] is not None] in ([status], [])


@pytest.mark.parametrize(("most", "sizes"), [(1, [1] * 4), (2, [2, 2]), (3, [3, 1]), (4, [4]), (5, [4])])
def test_requests_come_some_at_a_time(monkeypatch: pytest.MonkeyPatch, most: int, sizes: list[int]) -> None:
    monkeypatch.setattr(arrow, "BATCH", most)
    with ibdissect.open(io.BytesIO(TALK)) as opened:
        assert [batch.num_rows for batch in opened.requests().batches()] == sizes
