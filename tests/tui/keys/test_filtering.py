"""A filter is entered, applied, refused, and made from a field."""

from __future__ import annotations

from pathlib import Path

from textual import events
from textual.widgets import Input, Label

from tests.screen_model.made import TOTAL
from tests.tui import made
from tests.tui.made import running, shows, type_text, until


async def test_filter_bar(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("down", "down", "down", "slash")
        await type_text(pilot, "bth.psn =")
        assert app.main.filter_bar.has_class("invalid") and not app.main.filter_bar.has_class("valid")
        await pilot.press("escape")
        assert "▴" in str(app.query_one("#filter-reason", Label).render())
        await type_text(pilot, "= 110")
        assert app.main.filter_bar.has_class("valid")
        await pilot.press("enter")
        await until(pilot, lambda: len(app.main.packets.rows) == 3 and not app.filtering.busy)
        assert app.main.packets.rows.frames(0, 9) == [19, 20, 21] and app.main.packets.has_focus
        await shows(pilot, 19)  # the nearest to frame 4
        await until(pilot, lambda: "3 of 30 shown" in str(app.query_one("#filter-count", Label).render()))
        await pilot.press("slash", "ctrl+u", "enter")
        await until(pilot, lambda: len(app.main.packets.rows) == TOTAL)
        await shows(pilot, 19)
        await pilot.press("slash", "up")
        assert app.main.filter_bar.input.value == "bth.psn == 110"
        await pilot.press("down")
        assert app.main.filter_bar.input.value == ""
        await pilot.press("escape")
        assert app.main.packets.has_focus and not app.main.filter_bar.input.can_focus


async def test_what_comes_in_one_go_behind_the_slash_is_the_filter(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        for character in "/bth.psn == 110":
            app.post_message(events.Key({"/": "slash"}.get(character, character), character))
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: app.filtering.text == "bth.psn == 110" and len(app.main.packets.rows) == 3)
        await pilot.press("ctrl+f", "slash")
        assert app.screen.query_one(Input).value == "/"  # where text is typed it is text


async def test_filter_without_matches_and_from_the_command_line(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), display_filter="frame.number > 25") as (app, pilot):
        await until(pilot, lambda: len(app.main.packets.rows) == TOTAL - 25)
        app.filtering.apply("frame.number > 1000")
        await until(pilot, lambda: "No frame matches" in app.main.packets.empty)
        await pilot.press("down", "end", "m", "a", "y", "n")
        app.jump(2)
        await shows(pilot, 2)
        assert len(app.main.packets.rows) == TOTAL and app.filtering.text == ""


async def test_apply_and_prepare_the_selected_field(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.jump(3)
        await shows(pilot, 3)
        app.main.tree_pane.reveal(10)  # BTH.P_Key of a frame without GRH
        await pilot.pause()
        await pilot.press("p")
        assert app.main.filter_bar.input.has_focus and app.main.filter_bar.input.value == "infiniband.bth.p_key == 0x9999"
        await pilot.press("escape", "a")
        await until(pilot, lambda: app.main.packets.rows.frames(0, 9) == [3])
        app.main.tree_pane.select(0)
        await pilot.press("a")
        assert app.filtering.text == "infiniband.bth.p_key == 0x9999"


async def test_a_filter_without_matches_is_reported(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        app.filtering.apply("frame.number == 999")
        await until(pilot, lambda: app.main.packets.count() == 0 and not app.filtering.busy)
        await pilot.pause(0.1)
        assert "No frame matches this filter" in app.main.packets.render_line(1).text


async def test_the_list_says_that_a_filter_is_at_work(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, _):
        app.filtering.apply("frame.number == 999")
        assert app.main.packets.empty == "Filtering…", "at once, not when the screen is looked at again"


async def test_filters_are_saved_by_name(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("B")
        assert app.screen is app.main, "nothing is saved"
        app.filtering.enter("lrh.slid == 3")
        await pilot.press("B", "enter", *"three", "enter")
        await until(pilot, lambda: app.screen is app.main)
        app.filtering.enter("")
    async with running(tmp_path / "made.pcap") as (app, pilot):
        await pilot.press("B", "enter")
        await until(pilot, lambda: app.filtering.text == "lrh.slid == 3")
        await pilot.press("B", "end", "enter")
        await until(pilot, lambda: app.screen is app.main)
    assert "lrh.slid" not in (tmp_path / "screen.json").read_text()


async def test_keys_typed_right_behind_enter_are_commands(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("slash")
        for key, character in (*((one, one) for one in "arp"), ("enter", None), ("g", "g"), ("7", "7"), ("enter", None)):
            app.post_message(events.Key(key, character))
        await until(pilot, lambda: app.filtering.text == "" and app.main.packets.frame == 7)
        assert app.main.filter_bar.input.value == "", "frame 7 is no match: the filter is taken away"
        await pilot.press("slash")
        for key, character in (("x", "x"), ("enter", None), ("g", "g")):
            app.post_message(events.Key(key, character))
        await until(pilot, lambda: app.main.filter_bar.input.value == "xg"), "no valid filter: the bar keeps the keys"


async def test_a_long_filter_is_seen_from_its_start(tmp_path: Path) -> None:
    """It is edited at its end, though."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        text, line = " || ".join(f"frame.number == {frame}" for frame in range(1, 12)), app.main.filter_bar.input
        app.filtering.enter(text)
        await pilot.pause()
        assert line.value == text and line.cursor_position == 0 and line.scroll_offset.x == 0
        await pilot.press("slash")
        assert line.cursor_position == len(text)
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert line.cursor_position == 0 and app.filtering.text == text
