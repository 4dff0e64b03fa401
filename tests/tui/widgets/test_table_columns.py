"""Are cells sorted by what they say?"""

from __future__ import annotations

import pytest

from ibdissect.tui.widgets.table_columns import sort_value


@pytest.mark.parametrize(
    "ascending",
    [
        ["0", "9", "10", "1,234"], ["999 B", "1.2 kB", "3 MB"], ["800 ns", "1.5 µs", "2 ms", "1 s", "2 min 3 s"],
        ["LID 9", "LID 10", "leaf2", "leaf10"], ["0x00000f", "0x000010", "0x0000a0"], ["192.168.7.9", "192.168.77.1"],
    ],
)  # fmt: skip
def test_sort_value(ascending: list[str]) -> None:
    assert sorted(ascending[::-1], key=sort_value) == ascending


def test_text_that_looks_like_a_number_is_text() -> None:
    assert all(sort_value(text)[0] == -1 for text in ("...", ",", "1.2.3", "fe80::1", "", "·"))
