"""Columns of the packet list: those that are shown, their order when space is short, and the forms of a time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from ibdissect.screen_model import packet_columns
from ibdissect.screen_model.capture_model import PacketLine
from ibdissect.screen_model.packet_columns import COLUMNS, TimeFormat, seconds_text, shift_of, time_text, widths, with_fields
from ibdissect.wire.catalog import builtin


def test_columns_of_plugins() -> None:
    shown = with_fields(COLUMNS, ("acme.stream.tag", "acme.stream.left"))
    assert [column.key for column in shown[-3:]] == ["acme.stream.tag", "acme.stream.left", "info"]
    assert with_fields(shown, ("acme.stream.tag",)) == shown


def test_unknown_columns(tmp_path: Path) -> None:
    found, unknown = packet_columns.recalled(["info", "infiniband.bth.psn", "ibdissect.response_time", "x.y"], builtin())
    assert [column.key for column in found] == ["info", "infiniband.bth.psn", "ibdissect.response_time"] and unknown == ["x.y"]
    titles = [packet_columns.added(f"infiniband.bth.{name}", builtin()).title for name in ("opcode", "psn")]
    assert titles == ["OpCode", "psn"], "the label of the field, as in the tree, if it is not long"


def test_the_time_stays_without_its_date_when_space_is_short() -> None:
    wanted = {"number": 5, "time": 26, "source": 30, "destination": 30, "protocol": 9}
    assert widths(COLUMNS, wanted, 120)["time"] == 26
    given = widths(COLUMNS, wanted, 80)
    assert given["time"] >= packet_columns.TIME_OF_DAY and given["info"] >= packet_columns.LEAST_INFO
    assert packet_columns.GUTTER + sum(given.values()) + 2 * len(given) <= 80
    assert widths(COLUMNS, wanted, 80, {"time": 27})["time"] == given["time"], "rather than none"


def test_times() -> None:
    line = PacketLine(1, 1_700_000_000_214_031_500, "", "", "", None, 0, "", False)
    first = 1_700_000_000_000_000_000
    assert time_text(line, TimeFormat.RELATIVE, first) == "0.214 031"
    assert time_text(line, TimeFormat.ABSOLUTE, first) == "22:13:20.214 031"
    assert time_text(line, TimeFormat.DATE, first) == "2023-11-14 22:13:20.214 031"
    moment = datetime.fromtimestamp(line.time_ns // 1_000_000_000).strftime("%Y-%m-%d %H:%M:%S")
    assert time_text(line, TimeFormat.LOCAL, first) == f"{moment}.214 031"
    assert seconds_text(-1_500_000) == "-0.001 500"


def test_columns_go_in_order_when_space_is_short() -> None:
    wanted = {"number": 4, "time": 9, "source": 9, "destination": 9, "protocol": 3}
    full = widths(COLUMNS, wanted, 160)
    assert list(full) == [column.key for column in COLUMNS] and full["info"] > 60
    gone = []
    for width in range(120, 50, -1):
        now = widths(COLUMNS, wanted, width)
        assert packet_columns.GUTTER + sum(now.values()) + 2 * len(now) <= width
        gone += [key for key in full if key not in now and key not in gone]
    assert gone == ["length", "p_key", "time"]
    assert widths(COLUMNS, {**wanted, "source": 39, "destination": 39}, 100)["info"] >= packet_columns.LEAST_INFO
    assert widths(COLUMNS, {**wanted, "source": 24, "destination": 24}, 120)["info"] == packet_columns.GOOD_INFO, "names give way"
    points = widths([COLUMNS[0], packet_columns.POINT, *COLUMNS[1:]], wanted, 80)
    assert packet_columns.POINT.key in points and "time" in points, "it tells copies apart"


def test_a_width_that_the_user_chose_counts() -> None:
    wanted = {"number": 4, "time": 9, "source": 39, "destination": 39, "protocol": 3}
    given = widths(COLUMNS, wanted, 110, {"source": 30, "protocol": 3})
    assert given["source"] == 30 and given["protocol"] == 3 and given["destination"] < 30, "the other address gives way"


@pytest.mark.parametrize(
    ("text", "shift"),
    [
        ("+1.5", 1_500_000_000), ("-3600", -3_600_000_000_000), (" +0.000000001 ", 1), ("2023-11-14 22:13:21.5", 1_500_000_000),
        ("2023-11-14T23:13:20+01:00", 0), ("5", None), ("+1e3", None), ("-9999999999", None), ("+999999999999", None), ("noon", None),
        ("9999-06-01", None), ("", None),
    ],
)  # fmt: skip
def test_shift_of_times(text: str, shift: int | None) -> None:
    if shift is None:
        with pytest.raises(ValueError):
            shift_of(text, 1_700_000_000_000_000_000)
    else:
        assert shift_of(text, 1_700_000_000_000_000_000) == shift


def test_columns_of_the_user_stay_rather_than_those_of_everybody() -> None:
    """Where space is short long titles give way, then Len, P_Key and the time go; an own column goes last."""
    wanted = {"number": 5, "time": 9, "source": 12, "destination": 12, "protocol": 3}
    one, two, wide = (packet_columns.ListColumn(f"x.{name}", "Long title 14 c", "left", 8, 24, packet_columns.OWN) for name in "abc")
    given = widths([*COLUMNS[:-1], one, COLUMNS[-1]], wanted, 80)
    assert given["x.a"] == 8 and "time" in given and "length" not in given and given["info"] >= packet_columns.LEAST_INFO
    given = widths([*COLUMNS[:-1], one, two, COLUMNS[-1]], wanted, 80)
    assert {"x.a", "x.b"} <= given.keys() and "time" not in given
    given = widths([*COLUMNS[:-1], one, two, wide, COLUMNS[-1]], {**wanted, "x.c": 24}, 80)
    assert sum(key.startswith("x.") for key in given) == 2 and sum(given.values()) + 2 * len(given) + packet_columns.GUTTER <= 80


@pytest.mark.parametrize(
    ("typed", "completed", "offered"),
    [
        ("infini", "infiniband", ""), ("infiniband.bth.p", "infiniband.bth.p", "p_key, padcnt, psn"),
        ("infiniband.bth.ps", "infiniband.bth.psn", ""), ("zzz", "zzz", "no field begins so"), (" bth.ps", "bth.psn", ""),
    ],
)  # fmt: skip
def test_names_of_fields_are_completed(typed: str, completed: str, offered: str) -> None:
    assert packet_columns.completed(typed, builtin()) == (completed, offered)
