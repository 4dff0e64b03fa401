"""The key , shows what is set, changes it, and comes back."""

from __future__ import annotations

from pathlib import Path

from tests.tui import drawn, made
from tests.tui.made import offered, running, until


async def test_preferences(tmp_path: Path) -> None:
    async with running(made.capture(tmp_path)) as (app, pilot):

        async def choose(what: str, answer: str = "") -> None:
            await pilot.press("comma")
            for wanted in filter(None, (what, answer)):
                await until(pilot, lambda key=wanted: key in [one[0] for one in offered(app)])
                app.screen.dismiss(wanted)
                await pilot.pause()

        await choose("theme", "ibdissect-light")
        assert app.theme == app.memory.look["theme"] == "ibdissect-light" and offered(app), "back in the list"
        await pilot.press("escape")
        await choose("time", "DATE")
        assert app.memory.look["time"] == "DATE" and app.main.packets.time_format.name == "DATE"
        await pilot.press("escape")
        await choose("pane findings", "hidden")
        assert not app.main.findings_pane.display
        await pilot.press("escape")
        await choose("names")
        assert not app.main.packets.names.wanted
        await pilot.press("escape")
        app.history.add("infiniband.bth")
        app.memory.keep("layer BTH", "open")
        await choose("history")
        await pilot.press("escape")
        await choose("layers")
        await pilot.press("escape")
        assert not app.history.texts and not app.memory.by_kind("layer") and not app.main.tree_pane.chosen_layers
        await choose("columns")
        assert "Columns of the packet list" in drawn.text(app)
