"""Open, switch and close captures (Ctrl+O, ], [, Ctrl+W); decode packets as another protocol (D)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ibdissect.errors import CaptureError
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.decode_as import Decoding, decodings
from ibdissect.screen_model.packet_columns import common_start

from ..screens.prompt import Prompt
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp

NAMES = 6
"""Names of files that are offered at once."""


def ask_path(app: TuiApp) -> None:
    """Ask for a file, and open it beside those that are open."""

    def done(answer: tuple[str, str]) -> None:
        try:
            model = CaptureModel(os.path.expanduser(answer[1]), catalog=app.model.catalog, show_keys=app.model.show_keys)
        except CaptureError as error:
            app.warn(str(error))
        else:
            app.recent.add(os.path.abspath(os.path.expanduser(answer[1])), path=True)
            app.run_worker(app.open(model))

    app.over(path_prompt(app.recent.texts), done)


def path_prompt(recent: Sequence[str]) -> Prompt:
    """Asks for the path of a capture; `recent`: those opened before, the latest last."""

    def check(_: str, path: str) -> str | None:
        there = os.path.expanduser(path)
        if not path or os.path.isdir(there):
            return "type the path of a capture file"
        return None if os.path.exists(there) else "there is no such file"

    return Prompt("Open a capture (Tab completes, ↑ ↓ recent ones)", check, placeholder="other.pcapng", complete=complete_path,
                  earlier=recent)  # fmt: skip


def complete_path(text: str) -> tuple[str, str]:
    """A path as far as only one way leads on, and the names that begin so."""
    folder, _, begin = os.path.expanduser(text).rpartition("/")
    try:
        with os.scandir(folder + "/" if "/" in os.path.expanduser(text) else ".") as there:
            names = sorted(one.name + "/" * one.is_dir() for one in there if one.name.startswith(begin) and (begin or one.name[0] != "."))
    except OSError as error:
        return text, error.strerror or ""
    if not names:
        return text, "no file begins so"
    said = "" if len(names) == 1 else ", ".join(names[:NAMES]) + (" …" if len(names) > NAMES else "")
    return text[: len(text) - len(begin)] + common_start(names), said


def hold(app: TuiApp) -> None:
    """Stop following a capture that grows, go on, or end the reading."""
    model, main = app.model, app.main
    if model.complete:
        app.note("The capture has been read to its end")
        return
    packets = main.packets
    go_on = "go on showing new frames", "and those that came meanwhile"
    entries = [("hold", *(go_on if packets.held else ("show no new frames for now", "they are read all the same"))),
               ("stop", "read no more", "what is there stays")]  # fmt: skip

    def done(key: str) -> None:
        if key == "hold":
            packets.held = 0 if packets.held else model.index.frames
        else:
            packets.held = 0
            model.stop_reading()
        main.key_bar.stand("held: H, then Enter, shows new frames again" if packets.held else "")
        app.news()

    app.choose("Live capture", entries, done)


def step(app: TuiApp, by: int) -> None:
    """Show the next or previous capture."""
    if len(app.captures) > 1:
        app.run_worker(app.show(app.captures[(app.captures.index(app.capture) + by) % len(app.captures)]))
    else:
        app.note("No other capture is open; Ctrl+O opens one")


def decode_as(app: TuiApp) -> None:
    """Offer what the payload of the selected frame can be read as."""
    model, frame = app.model, app.main.packets.frame
    found = decodings(model, frame) if frame else []

    def done(key: str) -> None:
        chosen: Decoding = found[int(key)]
        if chosen.port:
            app.run_worker(app.reopen(model.catalog.with_roce([chosen.port])))
        elif not model.live:
            app.run_worker(app.reopen(None, chosen))
        else:
            model.decode(chosen)
            app.main.packets.forget()
            app.main.packets.tell()
            app.filtering.apply(app.filtering.text)
            app.note("New frames are read this way. A pipe cannot be read again, so earlier findings stay")

    entries = [(str(i), one.carrier, one.what) for i, one in enumerate(found)]
    app.choose(
        "Decode as", entries, done, "Nothing to decode here: select a message to a queue pair, or a UDP datagram that is not RoCE yet"
    )


COMMANDS = (
    Command("ctrl+o", "Open another capture", ask_path, "Keep", "open another capture"),
    Command("H", "Hold or stop a live capture", hold, "Look", "hold or stop a capture that grows"),
    Command("right_square_bracket,ctrl+pagedown", "Next capture", partial(step, by=1), "Move", "next, previous capture"),
    Command("left_square_bracket,ctrl+pageup", "Previous capture", partial(step, by=-1), "Move", "next, previous capture"),
    Command("ctrl+w", "Close this capture", lambda app: app.run_worker(app.close()), "Keep", "close this capture"),
    Command("D", "Decode as", decode_as, "Look", "decode as: RoCE on this UDP port, messages to this queue pair"),
)
