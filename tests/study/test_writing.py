"""Where may frames be written?"""

from __future__ import annotations

from pathlib import Path

from ibdissect.study.writing import overwrites, unwritable
from tests.study import made


def test_where_frames_may_be_written(tmp_path: Path) -> None:
    source = made.capture(tmp_path)
    other = tmp_path / "other.pcap"
    assert unwritable(str(other), str(source)) is None and overwrites(str(other)) is None
    other.write_bytes(b"")
    assert unwritable(str(other), str(source)) is None and "overwrites" in (overwrites(str(other)) or "")
    assert unwritable(str(source), str(source)) == "that is the capture itself"
    assert unwritable(str(tmp_path / "no" / "x.pcap"), str(source)) is not None
    assert unwritable("x.txt", str(source)) is not None and unwritable("", str(source)) is not None
