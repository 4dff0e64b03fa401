"""Records of RMPP transfers are exported and queried whole, with the frames that they came from."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.dfilter.compile import compile_filter
from tests.cases import every
from tests.commands import run
from tests.craft import build, erf_pcap, gmp
from tests.mad.test_rmpp_records import FRAMES
from tests.subnet.made import p_keys


@pytest.fixture
def capture(tmp_path: Path) -> str:
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap(FRAMES))
    return str(path)


def exported(capture: str, *args: str) -> list[dict[str, Any]]:
    done = run("export", capture, "--records", "--output", "-", "--format", "jsonl", *args)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_record_is_a_row_with_the_frames_it_came_from(capture: str) -> None:
    rows = exported(capture)
    assert [(row["layer"], row["record"], row["frames"]) for row in rows] == [
        ("NodeRecord", 0, [1]), ("NodeRecord", 1, [1, 4]), ("NodeRecord", 2, [4]), ("NodeRecord", 3, [4, 2]), ("NodeRecord", 4, [2]),
    ]  # fmt: skip
    assert (rows[1]["offsets"], rows[1]["lengths"], rows[1]["segments"]) == ([196, 84], [88, 24], 3)
    assert [json.loads(row["fields"])["infiniband.sa.lid"] for row in rows] == [1, 2, 3, 4, 5] and all(row["complete"] for row in rows)
    assert [row["record"] for row in exported(capture, "--frames", "2")] == [3, 4]


def test_a_transfer_that_the_capture_does_not_end_has_its_records_too(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap(FRAMES[:1]))
    assert [(row["record"], row["complete"]) for row in exported(str(path))] == [(0, False)]


def test_sql(capture: str) -> None:
    query = "select record, fields->>'infiniband.sa.lid' as lid from records where len(frames) > 1 order by record"
    assert run("sql", capture, query, "--format", "csv").stdout.splitlines() == [b'"record","lid"', b'1,"2"', b'3,"4"']


def test_keys_are_null_unless_asked_for(tmp_path: Path) -> None:
    table = build("ServiceRecord", 176, service_id=1, service_key=b"k" * 16) + build("ServiceRecord", 176, service_id=2)
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap([gmp(0x03, 0x92, 0x31, _data(1, 3, 40 + 352) + table[:200], at=24),
                               gmp(0x03, 0x92, 0x31, _data(2, 5, 20 + 152) + table[200:], at=24)]))  # fmt: skip
    done = run("export", str(path), "--records", "--output", str(tmp_path / "x.jsonl"), text=True)
    assert done.stderr.startswith("note: 1 key left out; --show-keys writes them\n")
    assert "left out" not in run("export", str(path), "--records", "--output", str(tmp_path / "x.jsonl"), "--show-keys", text=True).stderr
    keys = [json.loads(row["fields"])["infiniband.linkrecord.servicekey"] for row in exported(str(path))]
    assert keys == [None, "00" * 16]
    shown = json.loads(exported(str(path), "--show-keys")[0]["fields"])
    assert shown["infiniband.linkrecord.servicekey"] == "6b" * 16


def _data(number: int, flags: int, length: int) -> bytes:
    """The headers of a segment of ServiceRecords."""
    return struct.pack(">BBBBII8xHxx8x", 1, 1, flags, 0, number, length, 176 // 8)


@pytest.mark.parametrize(("most", "sizes"), [(4096, [5]), (5, [5]), (4, [4, 1]), (1, [1] * 5)])
def test_all_columns_of_records(monkeypatch: pytest.MonkeyPatch, most: int, sizes: list[int]) -> None:
    pytest.importorskip("pyarrow")
    from ibdissect.tables import arrow, records

    monkeypatch.setattr(arrow, "BATCH", most)
    with ibdissect.open(io.BytesIO(erf_pcap(FRAMES))) as opened:
        rows = [*opened.records()]
        assert [batch.num_rows for batch in opened.records().batches()] == sizes and list(rows[0]) == records.SCHEMA.names
    assert [row["record"] for row in rows] == [0, 1, 2, 3, 4]
    common = ("layer", "source", "destination", "mgmt_class", "method", "attribute", "segments", "complete")
    assert {tuple(row[name] for name in common) for row in rows} == {
        ("NodeRecord", "LID 1", "LID 2", 3, "SubnAdmGetTableResp", "NodeRecord", 3, True)
    }
    assert len({row["time"] for row in rows}) == 1 and len({row["transaction"] for row in rows}) == 1
    assert all(sum(row["lengths"]) == 112 and len(row["offsets"]) == len(row["frames"]) for row in rows)


@every(("only", "found"), [(1, [0, 1]), (2, [3, 4]), (3, []), (4, [1, 2, 3])])
def test_records_of_which_a_frame_is_selected(only: int, found: list[int]) -> None:
    pytest.importorskip("pyarrow")
    with ibdissect.open(io.BytesIO(erf_pcap(FRAMES))) as opened:
        opened.selection = compile_filter(f"frame.number == {only}", opened.catalog)
        assert [row["record"] for row in opened.records()] == found


def test_fields_of_one_name_are_a_list(tmp_path: Path) -> None:
    """Also of nested structures: the entries of a record's table."""
    record = build("PKeyTableRecord", lid=5, block_num=2)[:8] + p_keys(0xFFFF, 0x8001)
    head = struct.pack(">BBBBII8xHxx8x", 1, 1, 7, 0, 1, 20 + len(record), len(record) // 8)
    path = tmp_path / "x.pcap"
    path.write_bytes(erf_pcap([gmp(0x03, 0x92, 0x33, head + record, at=24)]))
    (row,) = exported(str(path))
    fields = json.loads(row["fields"])
    assert fields["infiniband.p_keytable.p_keybase"] == [0x7FFF, 1, *[0] * 30] and fields["infiniband.sa.lid"] == 5
    assert None not in fields.values() and len(fields) == 6, "what holds others has no value of its own"
