"""The menu for the selected field and frame: right mouse button, Shift+F10, space bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ibdissect.screen_model.decode_as import decodings
from ibdissect.screen_model.linked_values import Link, links
from ibdissect.screen_model.packet_columns import ListColumn
from ibdissect.screen_model.related_frames import counterpart
from ibdissect.screen_model.value_filters import cell_filter

from . import coloring, columns
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp


COLOR, APPLY, PREPARE, COMBINE, COPY, SORT, GO, CELL = "color ", "apply ", "prepare ", "combine ", "copy ", "sort ", "go ", "cell "
"""Prefixes of keys of entries; a filter, a text or a column follows. Other entries have the keys of commands."""


def menu(app: TuiApp) -> None:
    """Offer the actions that apply here, each with its effect."""
    node, frame = app.main.tree_pane.node, app.main.packets.frame
    title = node.label if node is not None else f"Frame {frame}"
    if app.focused is app.main.findings_pane:
        values(app, app.main.findings_pane.line_text)
    elif frame:
        listed = app.focused is app.main.packets and any(_of_line(app))
        entry = [(CELL, "A cell of this line", "filter, color, copy, sort")] if listed else []
        found = [*_of_field(app)]
        parts = [*entry, *found] if app.main.tree_pane.as_filter is None else [*found, *entry]
        app.choose(title, [*parts, *_entries(app, frame)], partial(_done, app))


def of_cell(app: TuiApp, column: ListColumn) -> None:
    """Offer the actions for a cell of the packet list and for its frame."""
    packets = app.main.packets
    line = packets.line(packets.cursor)
    if line is None:
        return
    text = packets.cells(packets.cursor)[packets.columns.index(column)]
    entries = [*_of_value(cell_filter(line, column, app.main.tree_pane.frame_tree, packets.names.for_filters(line)))]
    entries += [(f"{SORT}{column.key}", "Sort the list", f"by {column.title}"), (f"{COPY}{text}", "Copy", text)]
    app.choose(f"{column.title}: {text}", [*entries, *_entries(app, line.frame)], partial(_done, app))


def _of_line(app: TuiApp) -> Iterator[tuple[str, str, str]]:
    """The cells of the selected line: each leads to its own menu."""
    packets = app.main.packets
    if packets.line(packets.cursor) is not None:
        for column, text in zip(packets.columns, packets.cells(packets.cursor), strict=True):
            if text.strip():
                yield column.key, column.title, text


def _of_cells(app: TuiApp) -> None:
    columns_ = {column.key: column for column in app.main.packets.columns}
    app.choose(f"Cells of frame {app.main.packets.frame}", [*_of_line(app)], lambda key: of_cell(app, columns_[key]))


def values(app: TuiApp, text: str, none: str = "This line names no node, port, queue pair, partition or frame") -> None:
    """Offer what a line names; over another screen, which is left for the frames."""
    app.choose("Values of this line", list(_of_links(app, text)), partial(_leave, app), none)


def of_link(app: TuiApp, link: Link) -> None:
    """Offer what can be done with one value that a text names."""
    entries = [(f"{GO}{link.frame}", "Go there", "")] if link.frame else [*_of_value(link.filter)]
    app.choose(link.what, [*entries, (f"{COPY}{link.what}", "Copy", link.what)], partial(_leave, app))


def _leave(app: TuiApp, key: str) -> None:
    while app.screen is not app.main:
        app.pop_screen()
    _done(app, key)


def _of_links(app: TuiApp, text: str) -> Iterator[tuple[str, str, str]]:
    here = app.main.packets.frame
    for link in links(text, app.study.names):
        if link.frame and link.frame <= app.model.index.frames and (link.frame != here or app.screen is not app.main):
            yield f"{GO}{link.frame}", f"Go to {link.what}", ""
        elif link.filter:
            yield f"{APPLY}{link.filter}", f"Frames of {link.what}", link.filter


def _done(app: TuiApp, key: str) -> None:
    filtering = app.filtering
    ways: dict[str, Callable[[str], object]] = {
        COLOR: partial(coloring.choose, app), APPLY: filtering.enter, PREPARE: filtering.prepare, COMBINE: filtering.combine,
        COPY: app.copy_to_clipboard, SORT: partial(columns.sort_by, app), GO: lambda frame: app.jump(int(frame)),
        CELL: lambda _: _of_cells(app),
    }  # fmt: skip
    for prefix, way in ways.items():
        if key.startswith(prefix):
            way(key.removeprefix(prefix))
            return
    app.action_command(key)


def _of_value(text: str | None) -> Iterator[tuple[str, str, str]]:
    if text:
        yield f"{APPLY}{text}", "Apply as filter", text
        yield f"{COMBINE}{text}", "Filter: and, or, not", text
        yield f"{PREPARE}{text}", "Prepare as filter", text
        yield f"{COLOR}{text}", "Color", text


def _of_field(app: TuiApp) -> Iterator[tuple[str, str, str]]:
    node = app.main.tree_pane.node
    yield from _of_value(app.main.tree_pane.as_filter)
    if node is not None and node.field is not None and node.name:
        yield "plus", "Add as column", node.name
    if app.main.tree_pane.item is not None:
        yield from _of_links(app, app.main.tree_pane.line_text)
    yield "y", "Copy", "field, value, bytes, frame"


def _entries(app: TuiApp, frame: int) -> Iterator[tuple[str, str, str]]:
    model = app.model
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
