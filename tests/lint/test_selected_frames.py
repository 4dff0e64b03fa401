"""Does a choice of frames hold for each chunk, and leave others alone?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ibdissect.lint.selected_frames import SelectedFrames


def test_choice_by_chunk() -> None:
    selected = SelectedFrames()
    assert 7 in selected
    chunks: list[tuple[int, str]] = [(11, "0100000001"), (31, "1")]
    for first, bits in chunks:
        table: Any = SimpleNamespace(chunk=SimpleNamespace(first=first))
        selected.choose(table, np.array([bit == "1" for bit in bits]))
    assert [frame for frame in range(9, 34) if frame not in selected] == [11, 13, 14, 15, 16, 17, 18, 19]
