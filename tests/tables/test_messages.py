"""Messages are written and queried as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import ibdissect
from ibdissect.dfilter.compile import compile_filter
from tests.commands import run
from tests.craft import erf_pcap, rc, ud


@pytest.mark.slow
def test_tables(repo: Path, tmp_path: Path) -> None:
    capture, file = str(repo / "captures/rxe-nak-bad-rkey.pcap"), tmp_path / "messages.csv"
    assert run("export", capture, "--messages", "--output", str(file), "-Y", "ibdissect.message.naks > 0").returncode == 0
    rows = list(csv.DictReader(file.open()))
    assert [(row["kind"], row["first_frame"], row["complete"], row["latency"]) for row in rows] == [
        ("WRITE", "4", "false", ""), ("READ", "11", "false", ""), ("ATOMIC", "18", "false", ""),
    ]  # fmt: skip
    query = "select kind, naks, dest_qp from messages where service = 'RC' order by first_frame"
    out = run("sql", capture, query, "--format", "csv").stdout.decode()
    assert out.splitlines()[1:] == ['"WRITE",1,85', '"READ",1,86', '"ATOMIC",1,87']


FRAMES = [
    rc(0x0A, bytes(8), bth={"psn": 5, "destqp": 7, "a": 1}, ext={"RETH": {"dmalen": 8}}),
    rc(0x00, bytes(256), bth={"psn": 6, "destqp": 7}), rc(0x02, bytes(4), bth={"psn": 7, "destqp": 7, "a": 1}),
    rc(0x11, bth={"psn": 5, "destqp": 8}, ext={"AETH": {"syndrome": 0}}, slid=2, dlid=1),
    rc(0x11, bth={"psn": 7, "destqp": 8}, ext={"AETH": {"syndrome": 0}}, slid=2, dlid=1),
    rc(0x04, bytes(4), bth={"psn": 8, "destqp": 7, "a": 1}), ud(b"hello", dest_qp=9),
]  # fmt: skip


@pytest.mark.parametrize(("most", "sizes"), [(4096, [4]), (4, [4]), (3, [3, 1]), (1, [1] * 4)])
def test_messages_in_the_order_of_their_first_frames(monkeypatch: pytest.MonkeyPatch, most: int, sizes: list[int]) -> None:
    """What is not known is null: who acknowledged, how long it took."""
    pytest.importorskip("pyarrow")
    from ibdissect.tables import messages

    monkeypatch.setattr(messages, "BATCH", most)
    with ibdissect.open(io.BytesIO(erf_pcap(FRAMES))) as capture:
        rows = [*capture.messages()]
        assert [batch.num_rows for batch in capture.messages().batches()] == sizes
    assert [[row[name] for name in ("kind", "first_frame", "last_frame", "ack_frame", "bytes", "packets")] for row in rows] == [
        ["WRITE", 1, 4, 4, 8, 2], ["SEND", 2, 5, 5, 260, 3], ["SEND", 6, 6, None, 4, 1], ["SEND", 7, 7, None, 5, 1],
    ]  # fmt: skip
    assert [(row["service"], row["source"], row["destination"], row["dest_qp"]) for row in rows[::3]] == [
        ("RC", "LID 1", "LID 2", 7), ("UD", "LID 1", "LID 2", 9),
    ]  # fmt: skip
    assert [row["latency"] is None for row in rows] == [row["retry_latency"] is None for row in rows] == [False, False, True, True]
    assert [float(row["latency"]) for row in rows[:2]] == [0.003, 0.003]
    assert [row["complete"] for row in rows] == [True, True, False, True]


@pytest.mark.parametrize(("only", "found"), [("frame.number == 2", [2]), ("frame.number == 3", []), ("bth.opcode in {10, 4}", [1, 6])])
def test_messages_whose_first_frame_is_selected(only: str, found: list[int]) -> None:
    pytest.importorskip("pyarrow")
    with ibdissect.open(io.BytesIO(erf_pcap(FRAMES))) as capture:
        capture.selection = compile_filter(only, capture.catalog)
        assert [row["first_frame"] for row in capture.messages()] == found
