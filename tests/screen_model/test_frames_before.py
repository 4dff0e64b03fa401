"""The frame before is found in both directions of a conversation, and in a transaction of management."""

from __future__ import annotations

from pathlib import Path

from ibdissect.screen_model.sorting import sort_rows
from tests import craft
from tests.screen_model.made import opened, studied, written
from tests.screen_model.test_sorting import column


def test_frames_before(tmp_path: Path) -> None:
    there, back = ({"destqp": 0x11, "psn": 5}, {"destqp": 0x22, "psn": 5})
    path = written(
        tmp_path,
        craft.native(0x04, bytes(8), slid=1, dlid=2, bth=there),
        craft.smp(0x01, 0x15, header={"transaction_id": 7}),
        craft.native(0x11, b"\x1f\0\0\1", slid=2, dlid=1, bth=back),
        craft.native(0x04, bytes(8), slid=1, dlid=3, bth=there),
        craft.smp(0x01, 0x15, header={"transaction_id": 8}),
        craft.smp(0x81, 0x15, header={"transaction_id": 7}),
        craft.native(0x04, bytes(8), slid=1, dlid=2, bth={**there, "psn": 6}),
    )  # fmt: skip
    study, shot = studied(opened(path))
    model, before = opened(path), study.before
    assert before.of(1) == 0 and not len(before)
    before.fill(model, shot.conversations, lambda: False)
    assert not len(before), "no longer wanted"
    before.fill(model, shot.conversations, lambda: True)
    assert [before.of(frame) for frame in range(1, 9)] == [0, 0, 1, 0, 0, 2, 3, 0]
    rows = sort_rows(model, model.rows, column("delta_conversation"), down=True, wanted=lambda: True, before=before)
    assert rows is not None and rows.frames(0, 9) == [6, 7, 3, 1, 2, 4, 5], "the longest first"
    model.close()


def test_datagrams_are_told_apart_by_their_sender(tmp_path: Path) -> None:
    """Two queue pairs of one host ask the same one; its answers name whom they are for."""
    path = written(tmp_path, *(craft.ud(bytes(4), dest_qp=to, src_qp=by, q_key=1, slid=slid, dlid=3 + 4 - slid) for to, by, slid in (
        (0x40, 0x41, 3), (0x40, 0x42, 3), (0x42, 0x40, 4), (0x41, 0x40, 4), (0x40, 0x42, 3), (0x40, 0x41, 4))))  # fmt: skip
    study, shot = studied(opened(path))
    model, before = opened(path), study.before
    before.fill(model, shot.conversations, lambda: True)
    assert [before.of(frame) for frame in range(1, 7)] == [0, 0, 2, 1, 3, 0]
    model.close()
