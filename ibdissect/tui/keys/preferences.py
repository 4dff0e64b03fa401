"""All that is remembered about the screen, in one list (,)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibdissect.screen_model.packet_columns import TimeFormat
from ibdissect.wire.text import counted

from . import coloring, columns
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

PANES = {"bytes": "bytes pane", "findings": "findings pane"}


def preferences(app: TuiApp) -> None:
    """Show what is set, and change one after the other."""
    memory, packets = app.memory, app.main.packets
    layers = len(memory.by_kind("layer"))
    entries = [
        ("profile", "profile", memory.name or "default"), ("theme", "theme", app.theme), ("time", "times", packets.time_format.value),
        ("names", "ends of packets", "names where they are known" if packets.names.wanted else "addresses"),
        *((f"pane {pane}", what, _pane(memory.look.get(f"pane {pane}", ""))) for pane, what in PANES.items()),
        ("columns", "columns", counted(len(packets.columns), "column")),
        ("colors", "coloring rules", counted(len(memory.by_kind("color")), "rule")),
        ("filters", "saved filters", counted(len(memory.by_kind("filter")), "filter")),
        ("layers", "layers that are opened or closed", f"forget {counted(layers, 'layer')}" if layers else "those that matter are open"),
        ("history", "filters typed before", f"forget {counted(len(app.history.texts), 'filter')}"),
        ("recent", "captures opened before", f"forget {counted(len(app.recent.texts), 'path')}"),
    ]  # fmt: skip
    app.choose("Preferences", entries, lambda key: _change(app, key))


def _pane(there: str) -> str:
    return {"shown": "always", "hidden": "never"}.get(there, "if there is room")


def _change(app: TuiApp, key: str) -> None:
    """Change one, and go back to the list if it needed no screen of its own."""
    memory = app.memory
    others = {"profile": coloring.profiles, "columns": columns.choose_columns, "colors": coloring.color}
    if key in others:
        others[key](app)
    elif key == "filters":
        app.filtering.saved()
    elif key == "theme":
        themes = [(name, name, "") for name in sorted(app.available_themes, key=lambda name: (not name.startswith("ibdissect"), name))]
        app.choose("Theme", themes, lambda name: _theme(app, name))
    elif key == "time":
        app.choose("Times", [(one.name, one.value, "") for one in TimeFormat], lambda name: _times(app, TimeFormat[name]))
    elif key.startswith("pane "):
        app.choose(PANES[key.removeprefix("pane ")], [("", "if there is room", ""), ("shown", "always", ""), ("hidden", "never", "")],
                   lambda there: _keep_pane(app, key, there))  # fmt: skip
    else:
        if key == "names":
            columns.toggle_names(app)
        elif key == "layers":
            for name in memory.by_kind("layer"):
                memory.keep(f"layer {name}", "")
            app.main.recall()
        else:
            (app.history if key == "history" else app.recent).forget()
        preferences(app)


def _theme(app: TuiApp, name: str) -> None:
    app.theme = name
    preferences(app)


def _times(app: TuiApp, how: TimeFormat) -> None:
    app.main.packets.time_format = how
    app.main.packets.show_times()
    app.memory.keep("time", how.name)
    preferences(app)


def _keep_pane(app: TuiApp, key: str, there: str) -> None:
    app.memory.keep(key, there)
    app.main.recall()
    app.main.lay_out()
    preferences(app)


COMMANDS = (Command("comma", "Preferences", preferences, "Look", "preferences: all that is remembered about the screen"),)
