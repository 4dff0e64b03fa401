"""The model gives the right lines, trees and matches for any frame in any order."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ibdissect.errors import CaptureError
from ibdissect.screen_model.capture_model import CaptureModel
from tests.capture.built import Pipe
from tests.screen_model import made
from tests.screen_model.made import TOTAL, filtered, opened, studied


def test_a_file_that_shrinks_gives_shorter_frames(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    model = opened(path)
    path.write_bytes(path.read_bytes()[:300])
    lines = model.lines([1, TOTAL])
    assert [line.frame for line in lines] == [1, TOTAL]
    assert model.tree(TOTAL).data == b""
    model.close()
    assert model.tree(1).data == b""


def test_lines_and_tree(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    lines = model.lines([3, 4, 21])
    assert [(line.frame, line.protocol, line.p_key) for line in lines] == [(3, "RC", 0x9999), (4, "SMP", 0xFFFF), (21, "RC", 0xFFFF)]
    assert lines[2].info.startswith("NAK") and lines[0].source == "LID 3" and lines[0].destination == "LID 5"
    tree = model.tree(3)
    assert tree.frame == 3 and any(node.name == "infiniband.bth.p_key" and node.value == 0x9999 for node in tree.walk())
    assert model.lines([]) == []
    psn, transaction = "infiniband.bth.psn", "infiniband.mad.transactionid"
    assert model.fields([3, 4], [psn, transaction]) == {3: {psn: "20001"}, 4: {psn: "1", transaction: "0x0000000000001234"}}
    model.close()


@pytest.mark.slow
def test_keys_have_no_number_before_the_study_came_by(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    q_key = next(node for node in model.tree(7).walk() if node.name == "infiniband.deth.q_key")
    assert q_key.value is None and q_key.text == "Q_Key#?"
    studied(model)
    shown = opened(made.capture(tmp_path), show_keys=True)
    assert next(node for node in shown.tree(7).walk() if node.name == "infiniband.deth.q_key").value == 0x1234567


def test_pipes_and_compressed_files_are_walked_too(tmp_path: Path) -> None:
    data = made.capture(tmp_path).read_bytes()

    packed = tmp_path / "made.pcap.gz"
    packed.write_bytes(gzip.compress(data))
    for model in (CaptureModel(Pipe(data)), CaptureModel(str(packed))):
        model.scan(lambda: None)
        assert model.index.frames == TOTAL and model.complete and model.error is None
        assert [line.frame for line in model.lines([2, 30])] == [2, 30]
        assert model.tree(7).data == made.frames()[6]
        model.close()


def test_a_file_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_text("no capture")
    with pytest.raises(CaptureError):
        CaptureModel(str(path))


def test_filter_fills_rows(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path, repeat=30))
    rows = filtered(model, "infiniband.bth.p_key == 0x9999")
    assert rows.frames(0, 4) == [3, 3 + TOTAL, 3 + 2 * TOTAL, 3 + 3 * TOTAL] and len(rows) == 30 and rows.checked == model.index.frames
    assert rows.frame(1) == 3 + TOTAL
    assert (rows.nearest(1), rows.nearest(TOTAL - 1), rows.nearest(10**9)) == (0, 1, 29)
    stopped = filtered(model, "infiniband", wanted=lambda: False)
    assert len(stopped) == 0 and stopped.nearest(5) == 0
    model.close()


def test_filters_are_checked(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    assert model.filter("  ") == (None, None)
    good, none = model.filter("infiniband")
    assert good is not None and none is None
    nothing, error = model.filter("infiniband.bth.psnn == 1")
    assert nothing is None and error is not None and "psn" in error.hint + error.reason
    model.close()
