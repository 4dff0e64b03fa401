"""Is the next frame with a text, with bytes or with a match found in both directions?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.dfilter.compile import compile_filter
from ibdissect.study.find import FindKind, Query, find
from ibdissect.study.shown_frames import AllRows
from tests.study import made
from tests.study.made import opened


@pytest.mark.parametrize(
    ("kind", "text", "start", "forward", "found"),
    [
        (FindKind.TEXT, "needle", 0, True, (6, False)),
        (FindKind.TEXT, "NAK", 25, True, (20, True)),
        (FindKind.TEXT, "subngetresp", 3, False, (1, False)),
        (FindKind.HEX, "6e65 65:64", 10, False, (6, False)),
        (FindKind.HEX, "ffffffffffffffffffffffff01", 0, True, None),
        (FindKind.FILTER, "frame.number == 12", 2, True, (11, False)),
        (FindKind.FILTER, "bth.psn == 110", 29, False, (20, False)),
    ],
)
def test_find(tmp_path: Path, kind: FindKind, text: str, start: int, forward: bool, found: tuple[int, bool] | None) -> None:
    model = opened(made.capture(tmp_path))
    matcher = compile_filter(text) if kind is FindKind.FILTER else None
    rows: AllRows = model.rows
    assert find(model, rows, Query(kind, text, matcher), start, forward=forward, wanted=lambda: True) == found
    model.close()


@pytest.mark.parametrize("text", ["", "0", "xy", "0x"])
def test_invalid_hex(text: str) -> None:
    with pytest.raises(ValueError):
        Query.hexadecimal(text)
