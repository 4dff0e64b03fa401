"""The columns and the time format of the packet list (t, Z, i, v, +)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ibdissect.screen_model import packet_columns
from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.packet_columns import ListColumn
from ibdissect.screen_model.shown_frames import SortedRows, in_order
from ibdissect.screen_model.sorting import sort_rows
from ibdissect.screen_model.threads import Work

from ..screens.choice import ColumnChoice
from ..screens.prompt import Prompt
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

ASIDE = 16
"""Characters by which Info is scrolled sideways."""
OF_DAY = (packet_columns.TimeFormat.ABSOLUTE, packet_columns.TimeFormat.DATE, packet_columns.TimeFormat.LOCAL)
SORT = "sort"
"""Name of the work that sorts the list."""
SLOW = 0.5
"""Seconds after which a sort says how far it is."""


def next_time_format(app: TuiApp) -> None:
    app.main.key_bar.say(f"time: {app.main.packets.next_time_format().value}")
    app.memory.keep("time", app.main.packets.time_format.name)


def set_reference(app: TuiApp) -> None:
    """Count times from the selected frame; if it is the reference already, from the first frame."""
    packets = app.main.packets
    line = packets.line(packets.cursor)
    if line is not None:
        packets.reference_ns = 0 if packets.reference_ns == line.time_ns else line.time_ns
        packets.forget()
        app.main.key_bar.say(f"times since frame {line.frame}" if packets.reference_ns else "times since the first frame")


def shift_times(app: TuiApp) -> None:
    """Ask by how much times of day are wrong, or what the time of the selected frame was; an empty text takes it back."""
    packets = app.main.packets
    line = packets.line(packets.cursor)
    if line is None:
        return
    time_ns = line.time_ns

    def check(_: str, text: str) -> str | None:
        try:
            packet_columns.shift_of(text, time_ns) if text.strip() else 0
        except (ValueError, OverflowError):
            return "+1.5 or -3600 (seconds), or the time of this frame: 2026-11-28 15:00:00.5"
        return None

    def done(answer: tuple[str, str]) -> None:
        packets.shift_ns = packet_columns.shift_of(answer[1], time_ns) if answer[1].strip() else 0
        if packets.shift_ns and packets.time_format not in OF_DAY:
            packets.time_format = packet_columns.TimeFormat.DATE
        packets.show_times()
        shift = packet_columns.seconds_text(packets.shift_ns)
        app.main.key_bar.say(f"times of day are shifted by {shift} s; filters are not" if packets.shift_ns else "times as captured")

    title = f"Shift times of day; frame {line.frame} is from {packet_columns.time_text(line, packet_columns.TimeFormat.DATE, 0)} UTC"
    app.over(Prompt(title, check, placeholder="+3600, or 2026-11-28 15:00:00; empty: as captured"), done)


def toggle_names(app: TuiApp) -> None:
    app.main.packets.toggle_names()
    app.main.findings_pane.redraw()
    named, known = app.main.packets.names.wanted, app.study.names is not None and app.study.names.node_by_guid
    app.main.key_bar.say(("names where they are known" if known else "no names are known yet") if named else "addresses")


def sort_by(app: TuiApp, key: str) -> None:
    """Sort the list by a column: the lowest first, by the same column again the highest, then by time."""
    packets = app.main.packets
    now = packets.rows
    same = isinstance(now, SortedRows) and now.key == key
    if all(one.key != key for one in packets.columns) or (same and isinstance(now, SortedRows) and now.down):
        app.filtering.work.cancel()
        packets.show_rows(in_order(now), packets.frame)
        app.main.key_bar.say("in the order of the capture")
        app.news()
    elif app.filtering.busy and not isinstance(now, SortedRows):
        app.note("The filter is still looking for frames: sort when it is done")
    else:
        sort(app, key, same)


def sort(app: TuiApp, key: str, down: bool, *, again: bool = False) -> None:
    """Sort the frames of the list by a column, the lowest or the highest first. `again`: as it was before; nothing is said of it."""
    packets, model = app.main.packets, app.model
    column = next((one for one in packets.columns if one.key == key), None)
    if column is None:
        return
    base, name = in_order(packets.rows), packets.names.address if packets.names.wanted else None

    def say_how_far(part: float, wanted: Callable[[], bool]) -> None:
        if wanted():  # it may have been stopped since
            app.main.key_bar.say(f"sorting by {column.title}: {part:.0%}; Esc stops", stays=True)

    def work(wanted: Callable[[], bool]) -> None:
        def progress(part: float) -> None:
            if time.monotonic() - begun > SLOW:
                app.call_later(say_how_far, part, wanted)

        rows = sort_rows(
            model, base, column, down=down, wanted=wanted, name=name, progress=progress,
            before=app.study.before,
        )  # fmt: skip
        if rows is not None and wanted():
            app.call_later(done, rows)

    def done(rows: SortedRows) -> None:
        if packets is app.main.packets:
            packets.show_rows(rows, packets.frame)
            way = "highest first" if rows.down else "lowest first"
            if again and time.monotonic() - begun > SLOW:
                app.main.key_bar.say("")  # how far it was
            elif not again:
                app.main.key_bar.say(f"sorted by {column.title}, {way}; o and the same column twice: by time")
            app.news()

    begun = time.monotonic()
    if not again:
        app.main.key_bar.say(f"sorting by {column.title}…", stays=True)
    app.filtering.work.run(work, SORT, model)


def stop(app: TuiApp) -> None:
    """End a sort; the list stays as it is. A filter goes on."""
    if app.filtering.work.name == SORT:
        app.filtering.work.cancel()
        app.main.key_bar.say("not sorted")


def choose_sort(app: TuiApp) -> None:
    """Offer the columns that the list can be sorted by, and the order of the capture."""
    packets = app.main.packets
    now = packets.rows

    def said(column: ListColumn) -> str:
        if not isinstance(now, SortedRows) or now.key != column.key:
            return "lowest first"
        return "by time again" if now.down else "highest first"

    entries = [(column.key, column.title, said(column)) for column in packets.columns]
    if isinstance(now, SortedRows):
        entries.sort(key=lambda entry: entry[0] != now.key)
        entries.append(("", "by time", "in the order of the capture"))
    app.choose("Sort the list by", entries, lambda key: sort_by(app, key))


def find_before(app: TuiApp) -> None:
    """If the list shows times since the frame before in a conversation: find these frames, again when far more are there."""
    main, study, model = app.main, app.study, app.model
    known, ready = len(study.before), study.finished or (model.live and study.done > 2 * len(study.before))
    if packet_columns.DELTA_CONVERSATION not in main.packets.columns or main.finding or not ready or known == model.index.frames:
        return
    main.finding = True

    def found() -> None:
        main.finding = False
        main.packets.redraw()

    def use(shot: Snapshot) -> None:
        def work() -> None:
            study.before.fill(model, shot.conversations, lambda: True)
            app.call_later(found)

        Work(work, "conversations", model).start()

    app.with_snapshot(use)


def choose_columns(app: TuiApp) -> None:
    packets = app.main.packets
    extra = [column for column in packets.columns if column.field and column not in packet_columns.MORE_COLUMNS]
    offered = [*packet_columns.COLUMNS[:-1], *packet_columns.MORE_COLUMNS, *extra, packet_columns.COLUMNS[-1]]

    widths = dict(packets.chosen)

    def done(keys: list[str]) -> None:
        if keys:
            for key in packets.chosen.keys() | widths.keys():
                app.memory.keep(f"width {key}", str(widths.get(key, "")))
            packets.chosen = widths
            _show(app, [choice.by_key[key] for key in keys])

    shown = [column.key for column in packets.columns]
    typed = partial(packet_columns.typed, catalog=app.model.catalog)
    made = partial(packet_columns.added, catalog=app.model.catalog)
    complete = partial(packet_columns.completed, catalog=app.model.catalog)
    choice = ColumnChoice(offered, shown, packets.given, widths, typed, made, complete)
    app.over(choice, done)


def add_column(app: TuiApp) -> None:
    node, packets = app.main.tree_pane.node, app.main.packets
    if node is None or node.field is None or node.field.kind in ("raw", "rest", "hole", "nested"):
        app.note("Select a field of the tree that has a value")
    elif all(column.key != node.name for column in packets.columns):
        _show(app, [*packets.columns[:-1], packet_columns.added(node.name, app.model.catalog), packets.columns[-1]])


def move_aside(app: TuiApp, by: int) -> None:
    app.main.packets.move_aside(by)


def _show(app: TuiApp, chosen: list[ListColumn]) -> None:
    packets = app.main.packets
    packets.set_columns(chosen)
    app.memory.keep_columns([column.key for column in chosen])
    if packets.no_room:
        app.main.key_bar.say(f"no room for {', '.join(column.title for column in packets.no_room)}: a wider window, or v and narrower ones")


COMMANDS = (
    Command("t", "Time format", next_time_format, "Look",
            "time format", "time", 18),
    Command("Z", "Time reference", set_reference, "Look", "count times from this frame"),
    Command("z", "Time shift", shift_times, "Look", "shift times of day"),
    Command("i", "Names of ports", toggle_names, "Look", "names of nodes, or addresses"),
    Command("o", "Sort the list", choose_sort, "Look", "sort the list by a column; so does a click on its heading"),
    Command("escape", "Stop sorting", stop),
    Command("v", "Columns", choose_columns, "Look", "columns and their widths"),
    Command("less_than_sign", "Info further left", partial(move_aside, by=-ASIDE), "Look", "scroll Info sideways"),
    Command("greater_than_sign", "Info further right", partial(move_aside, by=ASIDE), "Look", "scroll Info sideways"),
    Command("plus", "Add the selected field as a column", add_column, "Look", "add the selected field as a column"),
)  # fmt: skip
