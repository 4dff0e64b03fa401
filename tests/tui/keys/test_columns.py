"""Columns are chosen, added and remembered, and times written in other ways."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from textual.widgets import Label, SelectionList

from ibdissect.subnet.node_names import NodeNames
from tests.screen_model.made import TOTAL
from tests.screen_model.test_sorting import column
from tests.tui import made
from tests.tui.made import asks, opens, running, shows, text, type_text, until


async def test_the_next_run_shows_the_same_columns(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        window = await opens(pilot, "v")
        window.query_one(SelectionList).deselect("length").select("ibdissect.response_time")
        await pilot.press("enter")
        await pilot.pause()
        shown = [column.key for column in app.main.packets.columns]
        assert "length" not in shown and "ibdissect.response_time" in shown
    assert json.loads((tmp_path / "screen.json").read_text())["columns"] == shown
    async with running(path) as (app, pilot):
        assert [column.key for column in app.main.packets.columns] == shown
        assert "Response" in app.main.packets.head


async def test_names_stand_for_addresses_until_the_key_is_pressed(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        with_lid = next(row for row in range(app.main.packets.count()) if "LID 1 " in text(app, row) + " ")
        assert "host" in text(app, 5), "the capture names LID 5"
        await pilot.press("i")
        await pilot.pause()
        assert "LID 5" in text(app, 5) and "host" not in text(app, 5).partition("SMP")[0]
        app.study.names = NodeNames({}, {1: "node01 port 1"}, {}, {})
        await pilot.press("i")
        await pilot.pause()
        assert "node01 port 1" in text(app, with_lid)
        app.filtering.enter('ibdissect.node contains "host"')
        await until(pilot, lambda: not app.filtering.busy and 0 < app.main.packets.count() < app.model.index.frames)


USUAL = ("number", "time", "source", "destination", "protocol", "p_key", "length", "info")


@pytest.mark.parametrize(("known", "shown"), [(("number",), ("number",)), ((), USUAL)])
async def test_a_note_names_unknown_columns(tmp_path: Path, known: tuple[str, ...], shown: tuple[str, ...]) -> None:
    """Without any known one the default columns are shown."""
    path = made.capture(tmp_path)
    (tmp_path / "screen.json").write_text(json.dumps({"columns": [*known, "\x1b[31mx"]}))
    async with running(path) as (app, _):
        note = app.main.key_bar.note
        assert "unknown now" in note and "\x1b" not in note
        assert [column.key for column in app.main.packets.columns] == [*shown]


async def test_time_formats(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        seen = [text(app, 1)]
        for _ in range(5):
            await pilot.press("t")
            await pilot.pause()
            seen.append(text(app, 1))
        assert all("0.001 000" in one for one in seen[:3]) and "22:13:20.001 000" in seen[3] and "2023-11-14 22:13:20" in seen[4]
        assert ":20.001 000" in seen[5], "of this machine's zone"
        await pilot.press("t")
        await pilot.pause()
        assert text(app, 1) == seen[0]


async def test_dated_times_stay_on_a_narrow_screen(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), (80, 24)) as (app, pilot):
        for _ in range(4):
            await pilot.press("t")
            await pilot.pause()
        assert app.main.packets.time_format.name == "DATE"
        assert "Time" in app.main.packets.head and " 22:13:20.001 000 " in text(app, 1)


async def test_columns(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        choice = (await opens(pilot, "v")).query_one(SelectionList)
        choice.deselect("length")
        await pilot.press("enter")
        await pilot.pause()
        assert "Len" not in app.main.packets.head
        app.jump(3)
        await shows(pilot, 3)
        app.main.tree_pane.reveal(9 + 8 - 6)
        tree = app.main.tree_pane
        tree.select(next(i for i, (_, line) in enumerate(tree.lines) if line.node and line.node.name.endswith("bth.psn")))
        await pilot.press("plus")
        await pilot.pause()
        assert "psn" in app.main.packets.head and "110" in text(app, 18)
        await pilot.press("plus")
        assert [column.key for column in app.main.packets.columns].count("infiniband.bth.psn") == 1


async def test_theme_and_time_format_are_those_of_the_last_run_and_time_has_a_reference(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        await pilot.press("t")
        app.theme = "ibdissect-light"
        await pilot.pause()
    async with running(path, size=(80, 24)) as (app, pilot):
        assert app.theme == "ibdissect-light" and app.main.packets.time_format.name == "DELTA"
        await pilot.press(*["t"] * 5, "end", "Z", "home")
        await pilot.pause()
        assert "-0." in text(app, 0), "times count from the last frame, at 80 columns, too"


async def test_widths_are_changed_with_keys_and_mouse_and_remembered(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        packets = app.main.packets
        before, number = packets.given["source"], packets.given["number"]
        await pilot.press("v", "down", "down", "right", "right", "enter")
        await pilot.pause()
        assert packets.given["source"] == before + 2
        end = 4 + number
        await pilot.mouse_down(packets, offset=(end, 0))
        await pilot.hover(packets, offset=(end + 4, 0))
        await pilot.mouse_up(packets, offset=(end + 4, 0))
        await pilot.pause()
        assert packets.given["number"] == number + 4 and packets.cursor == 0
    async with running(path) as (app, pilot):
        given = app.main.packets.given
        assert (given["source"], given["number"]) == (before + 2, number + 4)
        await pilot.press("v", *["left"] * 7, "enter")
        await pilot.pause()
        assert app.main.packets.given["number"] == number and "number" not in app.main.packets.chosen, "narrower than possible: what fits"


async def test_the_list_is_sorted_by_a_click_and_by_a_key(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        packets = app.main.packets
        lengths = {frame: line.length for frame in range(1, TOTAL + 1) if (line := packets.model.lines([frame])[0])}
        at = 4 + sum(packets.given[column.key] + 2 for column in packets.columns[:6])
        for down, sign in ((False, "▴"), (True, "▾")):
            ordered = sorted(lengths, key=lambda frame: -lengths[frame] if down else lengths[frame])
            await pilot.click(packets, offset=(at + 1, 0))
            await until(pilot, lambda: sign in packets.head and packets.rows is not app.model.rows)  # noqa: B023
            lines = [packets.line(row) for row in range(TOTAL)]
            assert [line.frame for line in lines if line is not None] == ordered
            assert packets.frame == 1, "the cursor stays at its frame"
        await pilot.press("g", "7", "enter")
        await until(pilot, lambda: packets.frame == 7)
        await pilot.click(packets, offset=(at + 1, 0))
        await until(pilot, lambda: packets.rows is app.model.rows)
        assert packets.frame == 7
        await pilot.press("o", "enter")
        await until(pilot, lambda: packets.sorted_by == "No. ▴")


async def test_the_end_of_a_heading_sorts_nothing(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        packets = app.main.packets
        await pilot.click(packets, offset=(4 + packets.given["number"], 0))
        assert packets.rows is app.model.rows


async def test_a_column_of_a_typed_field_in_a_place_of_its_own(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path, (160, 40)) as (app, pilot):
        window = await opens(pilot, "v")
        await pilot.press("plus")
        await until(pilot, lambda: asks(app))
        for typed, completed, offered in (
            ("infini", "infiniband", ""), ("infiniband.bth.p", "infiniband.bth.p", "p_key, padcnt, psn"),
            ("infiniband.bth.ps", "infiniband.bth.psn", ""), ("zzz", "zzz", "no field begins so"), (" bth.ps", "bth.psn", ""),
        ):  # fmt: skip
            asks(app).value = typed
            await pilot.press("tab")
            reason = app.screen.query_one("#prompt-reason", Label)
            await until(pilot, lambda end=completed, reason=reason: asks(app).value == end and reason.content is not None)
            await pilot.pause()
            assert not offered or str(reason.render()) == offered, typed
        asks(app).value = ""
        await type_text(pilot, "bth.no")
        await pilot.press("enter")
        asks(app).value = "frame.time_delta"  # there is no field bth.no
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is window)
        await pilot.press("greater_than_sign", "greater_than_sign", "less_than_sign", "enter")
        await until(pilot, lambda: app.screen is app.main)
        shown = [column.key for column in app.main.packets.columns]
        assert shown[:3] == ["number", "frame.time_delta", "time"] and "Δ captured" in app.main.packets.head
        assert app.main.packets.cells(3)[1] == "0.001 000" and app.main.packets.cells(0)[1] == "0.000 000"
        app.main.packets.set_columns([*app.main.packets.columns, column("delta_shown"), column("frame.time_relative")])
        app.filtering.apply("frame.number in {3, 9}")
        await until(pilot, lambda: not app.filtering.busy and app.main.packets.total == 2)
        assert [app.main.packets.cells(1)[i] for i in (1, -2, -1)] == ["0.001 000", "0.006 000", "0.008000000"]
    async with running(path, (160, 40)) as (app, _):
        assert [column.key for column in app.main.packets.columns] == shown


async def test_info_is_scrolled_sideways(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), (80, 24)) as (app, pilot):
        before = text(app, 1)
        await pilot.press("greater_than_sign")
        assert "‹" in text(app, 1) and app.main.packets.aside == 16
        await pilot.press("less_than_sign", "less_than_sign")
        assert text(app, 1) == before


async def test_a_sort_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it read before it noticed is told nobody."""
    monkeypatch.setattr("ibdissect.tui.keys.columns.SLOW", -1.0)
    async with running(made.capture(tmp_path)) as (app, pilot):
        after, go_on = app.model.index.after, threading.Event()
        monkeypatch.setattr(app.model.index, "after", lambda *given: (go_on.wait(10), after(*given))[1])
        await pilot.press("o", "down", "enter")
        await until(pilot, lambda: app.filtering.busy)
        await pilot.press("escape")
        go_on.set()
        await until(pilot, lambda: not app.filtering.busy)
        await pilot.pause()
        assert app.main.packets.rows is app.model.rows and app.main.key_bar.note == "not sorted"


async def test_times_of_day_are_shifted(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        packets = app.main.packets
        await pilot.press("z")
        await until(pilot, lambda: asks(app))
        await type_text(pilot, "+3600.5")
        await pilot.press("enter")
        await until(pilot, lambda: "2023-11-14 23:13:20.501" in text(app, 1))
        await pilot.press("t", "t")
        assert packets.time_format.name == "RELATIVE"
        await pilot.pause()
        assert "0.001 000" in text(app, 1), "only times of day"
        await pilot.press("z", "enter")
        await until(pilot, lambda: packets.shift_ns == 0)


async def test_times_since_the_frame_before_in_the_conversation(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.main.packets.set_columns([column("number"), column("delta_conversation")])
        app.news()
        await until(pilot, lambda: len(app.study.before) == app.model.index.frames and not app.main.finding)
        frame = next(frame for frame in range(1, TOTAL + 1) if app.study.before.of(frame))
        since = app.model.index.time_ns(frame) - app.model.index.time_ns(app.study.before.of(frame))
        assert since % 1_000_000 == 0 and app.main.packets.cells(frame - 1) == [str(frame), f"0.{since // 1_000_000:03} 000"]
