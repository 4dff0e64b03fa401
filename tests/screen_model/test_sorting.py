"""The list is sorted by numbers as numbers, by texts with their numbers, and by time again."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # a column

import pytest

from ibdissect.screen_model.packet_columns import recalled
from ibdissect.screen_model.sorting import sort_rows
from ibdissect.wire.catalog import builtin
from tests import craft
from tests.screen_model.made import filtered, opened, written

FRAMES = [
    craft.native(0x04, bytes(size), slid=slid, dlid=5, bth={"p_key": p_key, "psn": psn})
    for size, slid, p_key, psn in ((8, 10, 0xFFFF, 30), (64, 9, 0x8001, 4), (16, 10, 0x0001, 200), (4, 1, 0x7FFF, 30))
]


def column(key: str) -> Any:
    """A column of the list by the name under which it is remembered."""
    (found,), unknown = recalled([key], builtin())
    assert not unknown
    return found


@pytest.mark.parametrize(
    ("key", "up", "down"),
    [
        ("number", [1, 2, 3, 4], [4, 3, 2, 1]), ("time", [1, 2, 3, 4], [4, 3, 2, 1]), ("length", [4, 1, 3, 2], [2, 3, 1, 4]),
        ("source", [4, 2, 1, 3], [1, 3, 2, 4]), ("p_key", [3, 4, 2, 1], [1, 2, 4, 3]), ("protocol", [1, 2, 3, 4], [1, 2, 3, 4]),
        ("infiniband.bth.psn", [2, 1, 4, 3], [3, 1, 4, 2]), ("infiniband.reth.dmalen", [1, 2, 3, 4], [1, 2, 3, 4]),
        ("info", [2, 1, 4, 3], [3, 1, 4, 2]),
        ("frame.time_delta", [1, 2, 3, 4], [2, 3, 4, 1]), ("_ws.col.source", [4, 2, 1, 3], [1, 3, 2, 4]),
    ],
)  # fmt: skip
def test_order(tmp_path: Path, key: str, up: list[int], down: list[int]) -> None:
    model = opened(written(tmp_path, *FRAMES))
    for downwards, order in ((False, up), (True, down)):
        rows = sort_rows(model, model.rows, column(key), down=downwards, wanted=lambda: True)
        assert rows is not None and rows.frames(0, 9) == order, (key, downwards)
        assert [rows.nearest(frame) for frame in order] == [0, 1, 2, 3]
    assert sort_rows(model, model.rows, column("info"), down=False, wanted=lambda: False) is None
    model.close()


def test_only_the_frames_shown_are_sorted(tmp_path: Path) -> None:
    model = opened(written(tmp_path, *FRAMES))
    base = filtered(model, "infiniband.lrh.slid == 10")
    rows = sort_rows(model, base, column("length"), down=True, wanted=lambda: True)
    assert rows is not None and rows.frames(0, 9) == [3, 1] and rows.frame(1) == 1 and rows.nearest(4) == 0
    model.close()


def test_names_are_those_that_the_list_shows_at_each_frame(tmp_path: Path) -> None:
    """LID 10 has another owner from frame 3 on; LID 9 is "b" always, and LID 1 has no name."""
    model = opened(written(tmp_path, *FRAMES))

    def name(text: str, frame: int) -> str:
        return "b" if text == "LID 9" else text if text != "LID 10" else "a" if frame < 3 else "c"

    for down, order in ((False, [4, 1, 2, 3]), (True, [3, 2, 1, 4])):
        rows = sort_rows(model, model.rows, column("source"), down=down, wanted=lambda: True, name=name)
        assert rows is not None and rows.frames(0, 9) == order
    model.close()


def test_hidden_keys_are_not_put_in_order(tmp_path: Path) -> None:
    """Their order would tell which is higher; the order of their masks tells nothing."""
    frames = [craft.smp(0x01, 0x15, m_key=key) for key in (9, 5, 7)]
    for show, order in ((False, [1, 2, 3]), (True, [2, 3, 1])):
        model = opened(written(tmp_path, *frames), show_keys=show)
        rows = sort_rows(model, model.rows, column("infiniband.smplid.mkey"), down=False, wanted=lambda: True)
        assert rows is not None and rows.frames(0, 9) == order
        model.close()


def test_progress_is_told(tmp_path: Path) -> None:
    model, told = opened(written(tmp_path, *FRAMES)), list[float]()
    sort_rows(model, model.rows, column("info"), down=False, wanted=lambda: True, progress=told.append)
    assert told == [1.0]
    model.close()
