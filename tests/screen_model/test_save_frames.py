"""Places where frames may be written, and the lines that are written."""

from __future__ import annotations

import csv
from pathlib import Path

from ibdissect.screen_model.save_frames import unwritable, write
from tests.screen_model import made
from tests.screen_model.made import opened


def test_where_frames_may_be_written(tmp_path: Path) -> None:
    source = made.capture(tmp_path)
    other = tmp_path / "other.pcap"
    assert unwritable(str(other), str(source)) is None
    other.write_bytes(b"")
    assert unwritable(str(other), str(source)) is None
    assert unwritable(str(source), str(source)) == "that is the capture itself"
    assert unwritable(str(tmp_path / "no" / "x.pcap"), str(source)) is not None
    assert unwritable("x.doc", str(source)) is not None and unwritable("", str(source)) is not None


def test_lines_of_the_list_are_written_as_csv_and_text(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    for name in ("out.csv", "out.txt"):
        assert unwritable(str(tmp_path / name), str(tmp_path / "made.pcap")) is None
        assert write(model, lambda low, high: [3, 20][low:high], 2, str(tmp_path / name)) == (2, None)
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert rows[0][:3] == ["No.", "Time", "Source"] and rows[1][:6] == ["3", "0.002000", "LID 3", "LID 5", "RC", "0x9999"]
    assert [line.split()[0] for line in (tmp_path / "out.txt").read_text().splitlines()] == ["3", "20"]
    model.close()
