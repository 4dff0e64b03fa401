"""Does a choice of frames hold for each chunk, and leave others alone?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ibdissect.lint.shown_frames import ShownFrames


def test_choice_by_chunk() -> None:
    shown = ShownFrames()
    assert 7 in shown
    chunks: list[tuple[int, str]] = [(11, "0100000001"), (31, "1")]
    for first, bits in chunks:
        table: Any = SimpleNamespace(chunk=SimpleNamespace(first=first))
        shown.choose(table, np.array([bit == "1" for bit in bits]))
    assert [frame for frame in range(9, 34) if frame not in shown] == [11, 13, 14, 15, 16, 17, 18, 19]
