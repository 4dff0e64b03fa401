"""Mark frames (m, M), note (K), copy (y) and write them (w)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ibdissect.screen_model import save_frames
from ibdissect.screen_model.number_text import number
from ibdissect.screen_model.shown_frames import in_order
from ibdissect.screen_model.sweeps import frames_filter
from ibdissect.screen_model.threads import Work
from ibdissect.screen_model.value_filters import combined
from ibdissect.wire.text import counted, printable

from ..screens.choice import Choice
from ..screens.prompt import Prompt
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

LOST = "Marks and notes cannot be kept:"
"""Begins the question before the program ends."""


LISTED = 500
"""Marked frames whose numbers stand in a filter; of more it says that they are marked."""


def mark(app: TuiApp) -> None:
    frame, model = app.main.packets.frame, app.model
    if frame:
        model.marked ^= {frame}
        app.main.packets.redraw()
        app.main.key_bar.say(f"{number(len(model.marked))} marked" if model.marked else "")


def mark_all(app: TuiApp) -> None:
    rows = app.main.packets.rows
    app.model.marked = set() if app.model.marked else set(rows.frames(0, len(rows)))
    app.main.packets.redraw()


def note(app: TuiApp) -> None:
    """Ask for a note on the selected frame; a pcapng file that is written holds it as a comment."""
    frame = app.main.packets.frame

    def done(answer: tuple[str, str]) -> None:
        if answer[1].strip():
            app.model.note(frame, answer[1].strip())
            app.model.marked |= {frame}
            app.main.packets.redraw()
            app.main.key_bar.say("noted and marked; w writes it to a pcapng file")

    if frame:
        there = "; ".join(app.model.reader.comments.get(frame, ()))
        title = f"Note on frame {frame}" + (f" (there is: {printable(there)})" if there else "")
        app.over(Prompt(title, lambda _, text: None), done)


def ignore(app: TuiApp) -> None:
    """Leave the selected frame out of the list, or the marked ones if there are any: the filter says so, and can be changed."""
    frames = app.model.marked or {app.main.packets.frame}
    if any(frames):
        text = frames_filter([*frames]) if len(frames) <= LISTED else "frame.marked"
        app.filtering.enter(combined(app.filtering.text, text, "and not" if app.filtering.text else "not") or "")


def leave(app: TuiApp) -> None:
    """End the program; ask before marks and notes are lost, as those of a pipe are. Asked already: end."""
    lost = [one.name for one in app.captures if not one.kept.keep()]
    if not lost or (isinstance(app.screen, Choice) and app.screen.heading.startswith(LOST)):
        app.exit()
        return
    entries = [("write", "write the frames", "notes are comments of a pcapng file"), ("quit", "quit", "without marks and notes")]
    app.choose(f"{LOST} {', '.join(lost)}", entries, lambda key: write(app) if key == "write" else app.exit())


def copy(app: TuiApp) -> None:
    pane, line = app.main.tree_pane, app.main.packets.line(app.main.packets.cursor)
    entries: list[tuple[str, str, str]] = []
    node, tree = pane.node, pane.frame_tree
    if node is not None and tree is not None:
        texts = [
            ("field and value", f"{node.label}: {node.text}"), ("value", "" if node.value is None else str(node.value)),
            ("filter name", node.name), ("as filter", pane.as_filter or ""),
            ("bytes in hex", "" if tree.hides(node) else node.raw.hex(" ")),
        ]  # fmt: skip
        entries += [(text, what, text) for what, text in texts if text]
    if line is not None:
        cells = app.main.packets.cells(app.main.packets.cursor)
        entries.append(("  ".join(cells), "line of the list", line.info))
        entries.append((",".join('"' + text.replace('"', '""') + '"' for text in cells), "line as CSV", line.info))

    def done(text: str) -> None:
        app.copy_to_clipboard(text)
        app.main.key_bar.say("copied")

    app.choose("Copy", entries, done, "Select a frame or a field")


def write(app: TuiApp) -> None:
    model, rows, marked = app.model, app.main.packets.rows, sorted(app.model.marked)
    here, between = app.main.packets.frame, marked[-1] - marked[0] + 1 if len(marked) > 1 else 0
    kinds = (
        *((f"marked ({number(len(marked))})",) if marked else ()), f"displayed ({number(len(rows))})",
        *((f"from first to last marked ({number(between)})",) if between else ()), *((f"this frame ({here})",) if here else ()),
    )  # fmt: skip

    def check(_: str, path: str) -> str | None:
        return save_frames.unwritable(path, str(model.source) if isinstance(model.source, str) else "-")

    def done(answer: tuple[str, str]) -> None:
        path = os.path.expanduser(answer[1])
        if answer[0].startswith("marked"):
            take, total = (lambda low, high: marked[low:high]), len(marked)
        elif answer[0].startswith("from"):
            take, total = (lambda low, high: list(range(marked[0] + low, marked[0] + high))), between
        elif answer[0].startswith("this"):
            take, total = (lambda low, high: [here][low:high]), 1
        else:
            take, total = in_order(rows).frames, len(rows)

        def work() -> None:
            app.call_later(written, app, path, *save_frames.write(model, take, total, path))

        Work(work, "write", model).start()

    app.over(Prompt("Write frames to", check, kinds=kinds, placeholder="out.pcapng", ask=save_frames.overwrites), done)


def written(app: TuiApp, path: str, frames: int, error: str | None) -> None:
    if error is not None:
        app.warn(error)
    elif path.endswith(save_frames.TABLES):
        app.note(f"{counted(frames, 'line', ',')} written to {path}")
    else:
        app.note(f"{counted(frames, 'frame', ',')} written to {path}; keys in them are not masked")


COMMANDS = (
    Command("m", "Mark the frame", mark, "Keep", "mark a frame", "mark", 15),
    Command("M", "Mark all displayed frames, or none", mark_all, "Keep", "mark all frames shown, or none"),
    Command("K", "Note on the frame", note, "Keep", "note on a frame, a comment in pcapng"),
    Command("I", "Ignore the frame", ignore, "Search", "leave out this frame, or the marked ones"),
    Command("y", "Copy", copy, "Keep", "copy field, value, bytes, as filter, frame", "copy", 17),
    Command("w", "Write frames to a file", write, "Keep", "write displayed, marked, a range, this frame: pcap, pcapng, csv, json, txt",
            "write", 16),
)  # fmt: skip
