"""Coloring rules colour, and a profile brings back theme, panes, columns, widths, times and colours."""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.app import TuiApp
from tests.tui import made
from tests.tui.made import asks, offered, running, type_text, until


def in_ink(app: TuiApp, name: str) -> set[int]:
    """The frames whose lines are drawn in an ink of the theme."""
    packets = app.main.packets
    wanted = packets.ink(name).color
    return {
        row + 1 for row in range(packets.count())
        if any(part.style is not None and part.style.color == wanted for part in packets.parts(row, 120) if len(part.text.strip()) > 9)
    }  # fmt: skip


async def test_frames_of_a_filter_are_colored_until_the_rule_is_taken_away(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        app.filtering.enter("infiniband.mad.method == 1")
        await until(pilot, lambda: not app.filtering.busy and app.main.packets.count())
        packets = app.main.packets
        frames = set(packets.rows.frames(0, 99))
        await pilot.press("number_sign", "enter", "enter")  # the filter, and the first colour
        await pilot.pause()
        app.filtering.enter("")
        await pilot.pause()
        assert in_ink(app, "nak") == frames | {21} and frames < set(range(1, 31)), "and the NAK, which is red without a rule"
    async with running(path) as (app, pilot):
        await until(pilot, lambda: app.main.packets.inks.rules)
        app.jump(min(frames))
        await pilot.press("number_sign")
        assert [what for _, what, _ in offered(app)][-1] == "no longer red"
        await pilot.press("end", "enter")
        await pilot.pause()
        assert app.main.packets.inks.rules == [] and not app.memory.by_kind("color")


async def test_a_rule_may_ask_for_findings(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    (tmp_path / "screen.json").write_text('{"color ibdissect.code": "violet", "color no.such == 1": "red", "color mad": "no colour"}')
    async with running(path) as (app, pilot):
        await until(pilot, lambda: app.main.packets.inks.rules)
        packets = app.main.packets
        assert packets.inks.rules is not None and len(packets.inks.rules) == 1, "what this capture does not know is left out"
        assert in_ink(app, "cm") == set(app.model.findings.frames().tolist()) != set()


async def test_profiles(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    async with running(path) as (app, pilot):
        await pilot.press("P", "end", "enter")
        await until(pilot, lambda: asks(app))
        await type_text(pilot, "work")
        await pilot.press("enter")
        await until(pilot, lambda: app.memory.name == "work")
        app.theme = "ibdissect-light"
        await pilot.press("t", "x")
        await pilot.mouse_down("#split-detail")
        await pilot.hover("#packets", offset=(9, 6))
        await pilot.mouse_up("#packets", offset=(9, 6))
        await pilot.pause()
        high, shown = app.main.query_one("#detail").size.height, app.main.layout_.wanted
        assert app.memory.by_kind("size") and shown == {"bytes": False}
        await pilot.press("P", "home", "enter")
        await until(pilot, lambda: app.memory.name == "")
        await pilot.pause()
        assert app.theme == "ibdissect-dark" and app.main.packets.time_format.name == "RELATIVE" and not app.main.layout_.wanted
        assert app.main.query_one("#detail").size.height != high
        await pilot.press("P", "down", "enter")
        await until(pilot, lambda: app.memory.name == "work")
        await pilot.pause()
        assert (app.theme, app.main.packets.time_format.name, app.main.layout_.wanted) == ("ibdissect-light", "DELTA", {"bytes": False})
        assert abs(app.main.query_one("#detail").size.height - high) <= 1
        await pilot.press("P", "down", "down", "enter")
        await until(pilot, lambda: app.memory.name == "")
        await pilot.press("P")
        assert [what for _, what, _ in offered(app)] == ["● default", "  new ..."]
        assert not (tmp_path / "screen-work.json").exists() and app.theme == "ibdissect-dark"
