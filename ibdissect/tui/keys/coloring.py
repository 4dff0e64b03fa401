"""Coloring rules (#) and profiles (P)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ibdissect.screen_model.saved_state import unusable

from ..screens.prompt import Prompt
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

INKS = {"red": "nak", "orange": "again", "green": "good", "blue": "smp", "cyan": "accent", "violet": "cm", "gray": "dim", "bold": "strong"}
"""Colors that can be read in every theme."""


DELETE = "-"
"""The key of the entry that deletes a profile."""


def apply(app: TuiApp) -> None:
    """Color packets by the rules of the profile, the newest rule first; filters that are not valid for this capture are left out."""
    packets, rules = app.main.packets, reversed(app.memory.by_kind("color").items())
    found = ((app.model.filter(text)[0], INKS.get(color)) for text, color in rules)
    packets.inks.rules = [(matcher, ink) for matcher, ink in found if matcher is not None and ink is not None]
    packets.redraw()


def color(app: TuiApp) -> None:
    """Offer to color the frames of the filter or with the value of the selected field, and to forget a rule."""
    there, taken = app.memory.by_kind("color"), app.main.tree_pane.as_filter
    offered = ((app.filtering.text, "color the frames shown"), (taken, "color frames with this value"))
    entries = [(text, what, text) for text, what in offered if text and text not in there]
    entries += [(text, f"no longer {color}", text) for text, color in reversed(there.items())]

    none = "Apply a filter, or select a field of the tree: their frames can be colored"
    app.choose("Coloring rules", entries, partial(choose, app), none)


def choose(app: TuiApp, text: str) -> None:
    """Offer the colors for the frames of a filter; if they are colored, remove the rule instead."""

    def keep(color: str) -> None:
        app.memory.keep(f"color {text}", color)
        apply(app)

    if text in app.memory.by_kind("color"):
        keep("")
    else:
        app.choose(text, [(color, color, "") for color in INKS], keep)


def profiles(app: TuiApp) -> None:
    """Offer the profiles, and a new one that begins as the screen looks now."""
    now = app.memory.name
    names = ["", *app.memory.others()]
    entries = [(f"={name}", ("● " if name == now else "  ") + (name or "default"), "") for name in names]

    def chosen(key: str) -> None:
        if key == DELETE:
            app.use(app.memory.delete())
        elif key:
            app.use(app.memory.other(key[1:]))
        else:
            prompt = Prompt("Name of the new profile", lambda _, name: unusable(name) or ("there is one" if name in names else None))
            app.over(prompt, lambda answer: app.use(app.memory.save_as(answer[1])))

    gone = [(DELETE, "  delete", now)] if now else []
    app.choose("Profiles", [*entries, *gone, ("", "  new ...", "as the screen looks now")], chosen)


COMMANDS = (
    Command("number_sign", "Coloring rules", color, "Look", "color frames of a filter or with a value"),
    Command("P", "Profiles", profiles, "Look", "profiles: theme, panes, columns, times, colors"),
)
