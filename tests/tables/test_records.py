"""Are records of RMPP transfers exported and queried whole, with the frames that they came from?"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ibdissect.wire.sa_service import ServiceRecord
from tests.commands import run
from tests.craft import build, erf_pcap, gmp
from tests.mad.test_rmpp_records import FRAMES


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
    table = build(ServiceRecord, 176, service_id=1, service_key=b"k" * 16) + build(ServiceRecord, 176, service_id=2)
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
