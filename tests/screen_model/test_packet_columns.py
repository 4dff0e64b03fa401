"""Columns of the packet list: those that are shown, their order when space is short, and the forms of a time."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any  # a column of the list

import numpy as np
import pytest

from ibdissect.screen_model.packet_columns import shift_of, widths
from tests.cases import every
from tests.craft import erf_pcap, interfaces_pcapng
from tests.tui.made import app_on, frames

GUTTER, LEAST_INFO, GOOD_INFO, TIME_OF_DAY = 4, 14, 30, 16
"""Cells: of the mark in front, of Info at least and where addresses give way for it, of a time without its date."""


def shown(folder: Path, *keys: str, fields: tuple[str, ...] = (), points: bool = False) -> list[Any]:
    """The columns of the list: those that the last run had, and `fields` of a plugin. `points`: of a merged capture of several points."""
    (folder / "x.pcap").write_bytes(erf_pcap(frames()[:1]))
    (folder / "screen.json").write_text(json.dumps({"columns": keys}))
    app = app_on(folder / "x.pcap", fields=fields)
    if points:
        app.model.delays = np.zeros(1, np.int64)
        app.main.recall()
    app.model.close()
    return app.main.packets.columns


@pytest.fixture
def usual(tmp_path: Path) -> list[Any]:
    return shown(tmp_path)


def test_columns_of_plugins(tmp_path: Path) -> None:
    found = shown(tmp_path, fields=("acme.stream.tag", "acme.stream.left"))
    assert [column.key for column in found[-3:]] == ["acme.stream.tag", "acme.stream.left", "info"]
    found = shown(tmp_path, "number", "infiniband.bth.psn", "info", fields=("infiniband.bth.psn",))
    assert [column.key for column in found] == ["number", "infiniband.bth.psn", "info"]


def test_unknown_columns(tmp_path: Path) -> None:
    found = shown(tmp_path, "info", "infiniband.bth.psn", "infiniband.bth.opcode", "ibdissect.response_time", "x.y")
    assert [column.key for column in found] == ["info", "infiniband.bth.psn", "infiniband.bth.opcode", "ibdissect.response_time"]
    assert [column.title for column in found[1:3]] == ["psn", "OpCode"], "the label of the field, as in the tree, if it is not long"


def test_the_time_stays_without_its_date_when_space_is_short(usual: list[Any]) -> None:
    wanted = {"number": 5, "time": 26, "source": 30, "destination": 30, "protocol": 9}
    assert widths(usual, wanted, 120)["time"] == 26
    given = widths(usual, wanted, 80)
    assert given["time"] >= TIME_OF_DAY and given["info"] >= LEAST_INFO
    assert GUTTER + sum(given.values()) + 2 * len(given) <= 80
    assert widths(usual, wanted, 80, {"time": 27})["time"] == given["time"], "rather than none"


def test_times(tmp_path: Path) -> None:
    start = 1_700_000_000_000_000_000
    (tmp_path / "x.pcapng").write_bytes(interfaces_pcapng(
        [(0, frames()[0])] * 3, times=[start, start + 214_031_500, start - 1_500_000]))  # fmt: skip
    app = app_on(tmp_path / "x.pcapng")
    app.model.scan(lambda: None)
    packets, found = app.main.packets, dict[str, list[str]]()
    for _ in range(6):
        found[packets.time_format.name] = [packets.cells(row)[1] for row in (1, 2)]
        packets.next_time_format()
    moment = datetime.fromtimestamp(1_700_000_000).strftime("%Y-%m-%d %H:%M:%S")
    assert found == {
        "RELATIVE": ["0.214 031", "-0.001 500"], "DELTA": ["0.214 031", "-0.215 531"], "CAPTURED": ["0.214 031", "-0.215 531"],
        "ABSOLUTE": ["22:13:20.214 031", "22:13:19.998 500"],
        "DATE": ["2023-11-14 22:13:20.214 031", "2023-11-14 22:13:19.998 500"], "LOCAL": [f"{moment}.214 031", found["LOCAL"][1]],
    }  # fmt: skip
    app.model.close()


def test_columns_go_in_order_when_space_is_short(usual: list[Any], tmp_path: Path) -> None:
    wanted = {"number": 4, "time": 9, "source": 9, "destination": 9, "protocol": 3}
    full = widths(usual, wanted, 160)
    assert list(full) == [column.key for column in usual] and full["info"] > 60
    gone = []
    for width in range(120, 50, -1):
        now = widths(usual, wanted, width)
        assert GUTTER + sum(now.values()) + 2 * len(now) <= width
        gone += [key for key in full if key not in now and key not in gone]
    assert gone == ["length", "p_key", "time"]
    assert widths(usual, {**wanted, "source": 39, "destination": 39}, 100)["info"] >= LEAST_INFO
    assert widths(usual, {**wanted, "source": 24, "destination": 24}, 120)["info"] == GOOD_INFO, "names give way"
    merged = shown(tmp_path, points=True)
    given = widths(merged, wanted, 80)
    assert merged[1].title == "Point" and merged[1].key in given and "time" in given, "it tells copies apart"


def test_a_width_that_the_user_chose_counts(usual: list[Any]) -> None:
    wanted = {"number": 4, "time": 9, "source": 39, "destination": 39, "protocol": 3}
    given = widths(usual, wanted, 110, {"source": 30, "protocol": 3})
    assert given["source"] == 30 and given["protocol"] == 3 and given["destination"] < 30, "the other address gives way"


@every(
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


def test_columns_of_the_user_stay_rather_than_those_of_everybody(tmp_path: Path) -> None:
    """Where space is short long titles give way, then Len, P_Key and the time go; an own column goes last."""
    wanted = {"number": 5, "time": 9, "source": 12, "destination": 12, "protocol": 3}
    usual = ("number", "time", "source", "destination", "protocol", "p_key", "length")
    one, two, three = (f"infiniband.portinfo.{name}" for name in ("portphysicalstate", "capabilitymask", "linkwidthsupported"))

    def given(width: int, *own: str, **more: int) -> dict[str, int]:
        return widths(shown(tmp_path, *usual, *own, "info"), {**wanted, **more}, width)

    found = given(80, one)
    assert found[one] == 8 and "time" in found and "length" not in found and found["info"] >= LEAST_INFO
    found = given(80, one, two)
    assert {one, two} <= found.keys() and "time" not in found
    found = given(80, one, two, three, **{three: 24})
    own = [key for key in found if key.startswith("infiniband.")]
    assert len(own) == 2 and sum(found.values()) + 2 * len(found) + GUTTER <= 80
