"""Is text cut to terminal cells?"""

from __future__ import annotations

import pytest

from ibdissect.tui.widgets.cells import cut, fit, width_of


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字漢字", 5, "漢字…"), ("漢字", 3, "漢…"), ("abc", 0, ""), ("a", 1, "a"), ("ab", 1, "…")],
)
def test_cut(text: str, width: int, expected: str) -> None:
    assert cut(text, width) == expected
    assert width_of(fit(text, width)) == width
