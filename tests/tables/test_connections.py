"""The table of connections says what `diagnose` says."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ibdissect
from ibdissect.tables import arrow
from tests.diagnosis.lab import SEC, START, TIMEOUT, Lab, joined


def lost() -> Lab:
    """Five SENDs that work, and one that is sent eight times and never acknowledged."""
    lab = Lab()
    lab.good(lab.up(), 100, 5)
    for n in range(8):
        lab.ask(SEC + n * TIMEOUT, 105)
    lab.cnp(4 * SEC)
    return lab


TIMES = ["since", "start_time", "end_time", "outcome_time"]


def table(capture: bytes) -> pa.Table:
    """The connections of a capture."""
    with ibdissect.open(io.BytesIO(capture)) as opened:
        return pa.table(opened.connection_table())


def rows(lab: Lab, snap: int | None = None) -> list[dict[str, Any]]:
    return table(lab.pcap(snap) if snap else lab.pcap()).drop(TIMES).to_pylist()


def test_a_row() -> None:
    one = lost().only()
    (row,) = rows(lost())
    assert (row["source"], row["source_qp"], row["destination"], row["dest_qp"]) == ("10.0.0.1", 0x111, "10.0.0.2", 0x222)
    assert (row["verdict"], row["cause"], row["blamed"]) == ("failed", "retries-exhausted", "10.0.0.2")
    assert (row["proof_frame"], row["decisive_frame"], json.loads(row["detail"])) == (*one.evidence, one.detail)
    assert (row["messages"], row["bytes"], row["retries"], row["set_up"], row["outcome"]) == (6, 384, 7, "complete", "failed")
    assert row["round_trip"] == Decimal("0.000005000") and one.times is not None
    parts = [row[name] for name in ("transferring", "ack_wait", "rnr_wait", "loss_recovery", "timeout", "idle")]
    assert sum(parts) == row["data_time"] == Decimal(one.times.span) / SEC and row["timeout"] > 0 and row["rnr_wait"] == 0
    assert row["bits_per_second"] == pytest.approx(8 * 384 / float(row["data_time"]))
    assert row["episodes"][0].keys() == {"kind", "start_ns", "end_ns", "retries"}
    assert {each["kind"] for each in row["episodes"]} == {"timeout", "idle"}


def test_times_are_those_of_the_frames() -> None:
    assert table(lost().pcap()).column("since").cast(pa.int64()).to_pylist() == [START + SEC]


def test_what_is_not_known_is_null() -> None:
    lab = Lab()
    lab.ask(0, 100)
    (row,) = rows(lab)
    assert row["source_qp"] is None and row["service"] is None and row["set_up_time"] is None and row["round_trip"] is None
    assert row["blamed"] is None and row["proof_frame"] is None and row["bits_per_second"] is None and row["advice"] is None


def test_every_column_has_values_of_some_connection() -> None:
    filled = {name for row in rows(lost()) for name, value in row.items() if value is not None}
    assert {*table(lost().pcap()).column_names} - filled == {"reject_reason", *TIMES}


def test_of_many_connections_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "BATCH", 2)
    labs = [Lab(qa=0x100 + number, qb=0x200 + number) for number in range(5)]
    for number, lab in enumerate(labs):
        lab.good(0, 1000 * number, 5)
    with ibdissect.open(io.BytesIO(joined(*labs).pcap())) as capture:
        assert [batch.num_rows for batch in pa.RecordBatchReader.from_stream(capture.connection_table())] == [2, 2, 1]


def test_from_python() -> None:
    with ibdissect.open(io.BytesIO(lost().pcap())) as capture:
        found = capture.connection_table()
    assert len(found) == 1 and found.schema().names == table(lost().pcap()).column_names
    assert "retries-exhausted" in found._repr_html_() and repr(found) == "<ConnectionTable: 1 connection>"
    assert pa.RecordBatchReader.from_stream(found).read_all().num_rows == 1


@pytest.mark.parametrize("one_way", ["both", "requests", "answers"])
def test_what_was_not_captured_is_null(one_way: str) -> None:
    """Of one direction, and where answers are cut off before they say what they are; what was seen nevertheless is told."""
    lab = Lab()
    lab.good(0, 100, 5)
    kept = {"requests": 0x222, "answers": 0x111}.get(one_way)
    lab.frames = [(time, frame) for time, frame in lab.frames if kept in (None, int.from_bytes(frame[47:50], "big"))]
    (row,) = rows(lab)
    unknown = {"requests": ("naks", "rnr_naks", "cnps"), "answers": ("messages", "bytes", "retries")}.get(one_way, ())
    for name in ("messages", "bytes", "retries", "naks", "rnr_naks", "cnps"):
        assert (row[name] is None) is (name in unknown), name
    assert (row["directions"], row["ce_marks"], row["episodes"]) == (one_way, 0, [])
    if one_way == "both":
        (cut,) = rows(lab, 54)
        assert cut["unread_answers"] and (cut["naks"], cut["rnr_naks"], cut["episodes"], cut["cnps"]) == (None, None, None, 0)
