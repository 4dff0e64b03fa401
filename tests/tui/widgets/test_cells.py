"""Text is cut to terminal cells."""

from __future__ import annotations

from ibdissect.tui.widgets.cells import line_of, width_of
from ibdissect.tui.widgets.table import Heading, Table
from tests.cases import every


def column(texts: list[str], width: int, names: list[str] | tuple[()] = ()) -> list[str]:
    """The cells of a column of a table; `names`: texts that stay different when they are cut."""
    table = Table(texts)
    table.columns = [Heading("", width, lambda text: (text, ""), "left", names=names)]
    return [table.parts(row, 100)[1].text for row in range(len(texts))]


@every(
    ("text", "width", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字漢字", 5, "漢字…"), ("漢字", 3, "漢…"), ("abc", 0, ""), ("a", 1, "a"), ("ab", 1, "…")],
)
def test_cut(text: str, width: int, expected: str) -> None:
    (shown,) = column([text], width)
    assert shown.rstrip(" ") == expected and width_of(shown) == width


@every("width", [10, 18, 21, 24, 27])
def test_nothing_follows_the_part_that_is_cut(width: int) -> None:
    line = "".join(part.text for part in line_of((("a message of ", None), ("eight words", None), ("  (see 7)", None)), width))
    assert line == ("a message of eight words" if width == 24 else f"{'a message of eight words  (see 7)'[: width - 1].rstrip()}…")


def test_what_is_cut_twice_has_one_sign() -> None:
    assert "".join(part.text for part in line_of((("a long na…", None), ("  and more", None)), 11)) == "a long na…"


def test_parts_that_fit_stay_as_they_are() -> None:
    assert [part.text for part in line_of((("one ", None), ("", None), ("two", None), ("three", None)), 7)] == ["one ", "two"]


@every(
    ("names", "width", "expected"),
    [
        (["192.168.77.1", "192.168.77.2"], 9, ["…168.77.1", "…168.77.2"]),
        (["node0000 HCA-1 port 1", "node0010 HCA-1 port 1"], 9, ["node0000…", "node0010…"]),
        (["host7 rack HCA-1", "host8 rack HCA-1", "host7 rack HCA-2"], 9, ["host7 ra…", "host8 ra…", "host7 ra…"]),
        (["east-rack7-port-1", "east-rack7-port-2", "west-rack7-port-1"], 9, ["east…rt-1", "east…rt-2", "west…rt-1"]),
        (["leaf1", "leaf2"], 9, ["leaf1", "leaf2"]), (["漢字漢字一", "漢字漢字二"], 6, ["…字一", "…字二"]), (["ab", "cd"], 1, ["…", "…"]),
    ],
)  # fmt: skip
def test_names_stay_different(names: list[str], width: int, expected: list[str]) -> None:
    found = column(names, width, names)
    assert [shown.rstrip(" ") for shown in found] == expected and all(width_of(shown) == width for shown in found)
