"""The menu for the selected field and frame: right mouse button, Shift+F10, space bar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ibdissect.study.decoding import decodings
from ibdissect.study.related_frames import counterpart

from . import coloring
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp


COLOR = "color "
"""Prefix of the key of the coloring entry; its filter follows. Other entries have the keys of commands."""


def menu(app: TuiApp) -> None:
    """Offer the actions that apply here, each with its effect."""
    node, frame = app.main.tree_pane.node, app.main.packets.frame
    title = node.label if node is not None else f"Frame {frame}"

    def done(key: str) -> None:
        if key.startswith(COLOR):
            coloring.choose(app, key.removeprefix(COLOR))
        else:
            app.action_command(key)

    if frame:
        app.choose(title, list(_entries(app, frame)), done)


def _entries(app: TuiApp, frame: int) -> Iterator[tuple[str, str, str]]:
    node, model = app.main.tree_pane.node, app.model
    if text := app.main.tree_pane.as_filter:
        yield "a", "Apply as filter", text
        yield "p", "Prepare as filter", text
        yield f"{COLOR}{text}", "Color", text
    if node is not None and node.field is not None and node.name:
        yield "plus", "Add as column", node.name
    yield "y", "Copy", "field, value, bytes, frame"
    for finding in model.findings.of_frame(frame)[:1]:
        yield "e", "Explain", f"{finding.code} {finding.name}"
    if other := counterpart(model, frame):
        yield "r", "Go to the answer or request", f"frame {other}"
    if int(model.table([frame]).located.at("bth")[0]) >= 0:
        yield "c", "Only this conversation", ""
        yield "L", "Ladder", ""
        yield "R", "Follow", "transfer or payloads"
    if found := decodings(model, frame):
        yield "D", "Decode as", found[0].carrier
    yield "m", "Take the mark away" if frame in model.marked else "Mark", f"frame {frame}"
    yield "K", "Note", f"on frame {frame}"
    yield "Z", "Time reference", f"frame {frame}"


COMMANDS = (Command("space,shift+f10,f22", "Menu of the selected field and frame", menu, "Look", "what can be done here: a menu"),)
