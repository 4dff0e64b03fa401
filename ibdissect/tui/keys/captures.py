"""Open, switch and close captures (Ctrl+O, ], [, Ctrl+W); decode packets as another protocol (D)."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from ibdissect.errors import CaptureError
from ibdissect.study.capture_model import CaptureModel
from ibdissect.study.decoding import Decoding, decodings

from ..screens.prompt import Prompt
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp


def ask_path(app: TuiApp) -> None:
    """Ask for a file, and open it beside those that are open."""

    def done(answer: tuple[str, str]) -> None:
        try:
            model = CaptureModel(os.path.expanduser(answer[1]), catalog=app.model.catalog, show_keys=app.model.show_keys)
        except CaptureError as error:
            app.warn(str(error))
        else:
            app.run_worker(app.open(model))

    def check(_: str, path: str) -> str | None:
        there = os.path.expanduser(path)
        if not path or os.path.isdir(there):
            return "type the path of a capture file"
        return None if os.path.exists(there) else "there is no such file"

    app.over(Prompt("Open a capture", check, placeholder="other.pcapng"), done)


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
    app.choose("Decode as", entries, done, "Nothing to decode here: select a message to a queue pair, or UDP of a file, not RoCE yet")


COMMANDS = (
    Command("ctrl+o", "Open another capture", ask_path, "Keep", "open another capture"),
    Command("right_square_bracket,ctrl+pagedown", "Next capture", partial(step, by=1), "Move", "next, previous capture"),
    Command("left_square_bracket,ctrl+pageup", "Previous capture", partial(step, by=-1), "Move", "next, previous capture"),
    Command("ctrl+w", "Close this capture", lambda app: app.run_worker(app.close()), "Keep", "close this capture"),
    Command("D", "Decode as", decode_as, "Look", "decode as: RoCE on this UDP port, messages to this queue pair"),
)
