"""What two queue pairs said to each other: the payloads of their messages, both ways; as hex, ASCII or raw digits, and saved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.binding import Binding

from ibdissect.errors import CaptureError
from ibdissect.export.whole_files import replacing
from ibdissect.screen_model import save_frames
from ibdissect.screen_model.number_text import octets
from ibdissect.screen_model.payload import FORMS, SentMessage, as_text
from ibdissect.wire.text import counted, printable

from ..widgets.cells import line_of
from ..widgets.line_list import LineList
from .overlay import Overlay
from .prompt import Prompt

if TYPE_CHECKING:
    from ..app import TuiApp


class PayloadList(LineList):
    """Messages with their bytes below."""

    empty = "These queue pairs exchanged no payload."

    def __init__(self, found: list[SentMessage]) -> None:
        super().__init__(id="payload")
        self.found, self.form = found, FORMS[0]
        self.lines: list[tuple[int, bool, str]] = []
        """Message, whether it is its title, text."""

    def show(self, form: str) -> None:
        """Write the bytes in a form; the cursor stays at its message, first at the one that was asked about."""
        here = self.lines[self.cursor][0] if self.lines else next((i for i, message in enumerate(self.found) if message.asked), 0)
        self.form, self.lines = form, []
        for i, message in enumerate(self.found):
            self.lines.append((i, True, f"{'▶' if message.forward else '◀'} {message.title}"))
            self.lines += [(i, False, line) for line in as_text(message, form)]
        self.renew()
        self.select(next((at for at, line in enumerate(self.lines) if line[0] == here), 0), center=True)

    def parts(self, index: int, width: int) -> list[Segment]:
        i, title, text = self.lines[index]
        ink = self.ink("plot" if self.found[i].forward else "plot-two")
        return line_of(((" " if title else "   ", None), (printable(text), ink + self.ink("strong") if title else ink)), width)

    def choose(self) -> None:
        self.screen.dismiss(self.found[self.lines[self.cursor][0]].first_frame)


class PayloadScreen(Overlay[int]):
    """Returns a frame to go to."""

    BINDINGS = [Binding("R", "dismiss(None)", "back"), Binding("x", "form", show=False), Binding("w", "save", show=False)]
    keys = "x hex, ASCII, raw · w saves · Enter goes to the message"

    def __init__(self, app: TuiApp, found: list[SentMessage]) -> None:
        size = octets(sum(len(message.data) for message in found))
        self.owner, self.found, self.lines = app, found, PayloadList(found)
        super().__init__(f"Payload   {counted(len(found), 'message', ',')} around the frame's, {size}", self.lines)

    def on_mount(self) -> None:
        self.call_after_refresh(self.lines.show, FORMS[0])

    def action_form(self) -> None:
        self.lines.show(FORMS[(FORMS.index(self.lines.form) + 1) % len(FORMS)])

    def action_save(self) -> None:
        form, source = self.lines.form, self.owner.model.source

        def done(answer: tuple[str, str]) -> None:
            try:
                with replacing(os.path.expanduser(answer[1])) as file:
                    file.write(self._bytes(form))
                self.owner.note(f"Saved as {answer[1]}")
            except (CaptureError, OSError) as error:
                self.owner.warn(str(error))

        what = "the bytes" if form == "raw" else f"the text as {form}"

        def check(_: str, path: str) -> str | None:
            return save_frames.unwritable(path, str(source) if isinstance(source, str) else "-", frames=False)

        self.owner.over(Prompt(f"Save {what}: file name", check, ask=save_frames.overwrites), done)

    def _bytes(self, form: str) -> bytes:
        """What is saved: the bytes themselves for `raw`, else what is shown."""
        if form == "raw":
            return b"".join(message.masked() for message in self.found)
        return "".join(f"{message.title}\n" + "".join(f"{line}\n" for line in as_text(message, form)) for message in self.found).encode()
