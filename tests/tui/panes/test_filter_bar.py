"""Names and values are completed by keys, arrows and clicks."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import OptionList

from tests.tui import made
from tests.tui.made import running, type_text, until


async def test_filter_completion(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("slash")
        await type_text(pilot, "bth.opc")
        assert app.main.filter_bar.choices.display
        await pilot.press("tab")
        assert app.main.filter_bar.input.value == "bth.opcode" and not app.main.filter_bar.choices.display
        await pilot.press("escape")
        assert app.main.filter_bar.input.value == ""


async def test_completions_by_arrows_and_by_a_click(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.press("slash")
        await type_text(pilot, "infiniband.bth.p")
        bar = app.main.filter_bar
        await until(pilot, lambda: bar.choices.display)
        offered = [entry.text for entry in bar._found]
        await pilot.press("down", "down", "up", "up", "up")
        assert bar.choices.highlighted == len(offered) - 1, "up from the first is the last"
        await pilot.press("tab")
        assert bar.input.value == offered[-1] and not bar.choices.display
        await pilot.press("ctrl+u")
        assert bar.input.value == ""
        await type_text(pilot, "infiniband.bth.p")
        await until(pilot, lambda: bar.choices.display)
        bar.query_one(OptionList).action_first()
        await pilot.click("#filter-choices", offset=(3, 1))
        await until(pilot, lambda: bar.input.value in offered and not bar.choices.display)


async def test_a_click_leads_into_the_bar(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        await pilot.click("#filter-input")
        await until(pilot, lambda: app.main.filter_bar.input.has_focus)


async def test_each_completion_is_one_line(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path), size=(80, 24)) as (app, pilot):
        await pilot.press("slash", "e")
        choices = app.main.filter_bar.choices
        await until(pilot, lambda: choices.display and choices.option_count > 5)
        assert choices.virtual_size.height == choices.option_count and choices.region.right <= 80


async def test_an_enter_that_a_click_led_elsewhere_does_not_hold_keys_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The focus leaves the bar between the key's coming and its being read, as when the list is clicked just before."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        after = app.set_timer
        monkeypatch.setattr(app, "set_timer", lambda seconds, call: after(seconds / 30, call))
        await pilot.press("slash")
        await app.on_event(events.Key("enter", "\r"))
        app.main.set_focus(app.main.packets)
        app.post_message(events.Key("m", "m"))
        await until(pilot, lambda: app.main.packets.frame in app.model.marked)


async def test_a_whole_filter_is_not_offered_names(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):
        bar = app.main.filter_bar
        await pilot.press("slash")
        await type_text(pilot, '_ws.col.info == "SEND"')
        assert not bar.choices.display
        await pilot.press("space")
        await until(pilot, lambda: [entry.text for entry in bar._found] == ["and", "or", "xor"])
        await pilot.press("ctrl+u")
        await type_text(pilot, "lid")
        assert [entry.text for entry in bar._found][:2] == ["infiniband.lrh.slid", "infiniband.lrh.dlid"]
        await pilot.press("tab")
        assert bar.input.value == "infiniband.lrh.slid"
