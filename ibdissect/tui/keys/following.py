"""Follow a conversation (c), go from a request to its answer (r), show a reassembled transfer (R)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ibdissect.mad.rmpp_reassembly import Reassembled
from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.payload import SentMessage, followed
from ibdissect.screen_model.related_frames import counterpart, filter_for_frame, find_transfer

from ..screens.payload import PayloadScreen
from ..screens.transfer import TransferScreen
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp


class Following:
    """Goes from the selected frame to related ones."""

    def __init__(self, app: TuiApp) -> None:
        self.app = app
        self._followed = self._before = ""
        """The filter that `c` put up, and the one it replaced."""

    def conversation(self) -> None:
        """Show only the conversation of the selected frame; pressed again, the frames shown before."""
        app = self.app
        if self._followed and app.filtering.text == self._followed:
            self._followed = ""
            app.main.filter_bar.put(self._before)
            app.filtering.apply(self._before)
        elif app.main.packets.frame:
            app.with_snapshot(self._follow)

    def _follow(self, shot: Snapshot) -> None:
        app = self.app
        frame = app.main.packets.frame
        text = filter_for_frame(app.model, frame, shot.conversations, app.study.connections.all) if frame else None
        if text is None:
            app.note(f"Frame {frame} belongs to no InfiniBand conversation")
            return
        self._before, self._followed = app.filtering.text, text
        app.main.filter_bar.put(text)
        app.filtering.apply(text)
        app.main.key_bar.say("c shows what was shown before")

    def counterpart(self) -> None:
        """Go to the answer or the request of the selected frame."""
        app, frame = self.app, self.app.main.packets.frame

        def work(wanted: Callable[[], bool]) -> None:
            other = counterpart(app.model, frame)
            if wanted():
                app.call_later(self._counterpart_found, frame, other)

        if frame:
            app.searching.work.run(work, "counterpart", app.model)

    def _counterpart_found(self, frame: int, other: int | None) -> None:
        if other is not None:
            self.app.jump(other)
            self.app.main.key_bar.say(f"r goes back to frame {frame}")
        else:
            yet = "" if self.app.study.finished else " yet"
            self.app.note(f"No request and no answer known{yet} that goes with frame {frame}")

    def transfer(self) -> None:
        """Show the RMPP transfer of the selected frame, or the payloads of its queue pairs' messages."""
        app, frame = self.app, self.app.main.packets.frame

        def work(wanted: Callable[[], bool]) -> None:
            found = find_transfer(app.model, frame, wanted)
            messages, model = app.model.answers.messages, app.model
            assert messages is not None
            messages_found = followed(messages, frame, model.table, show_keys=model.show_keys) if found is None else None
            if wanted():
                app.call_later(self._transfer_found, frame, found, messages_found)

        if frame:
            app.searching.work.run(work, "transfer", app.model)

    def _transfer_found(self, frame: int, transfer: Reassembled | None, messages: list[SentMessage] | None) -> None:
        if messages:
            self.app.push_screen(PayloadScreen(self.app, messages), self.app.jump)
            return
        if transfer is None:
            yet = "" if self.app.study.finished else " yet"
            self.app.note(f"Frame {frame} belongs to no RMPP transfer and to no message that is known{yet}")
            return
        presenter = self.app.model.presenter(transfer.end_frame or frame)
        reading = self.app.model.reading
        self.app.push_screen(TransferScreen(transfer, reading.catalog, reading.services, presenter), self.app.jump)


COMMANDS = (
    Command("c", "Follow the conversation of the frame, or all frames again", lambda app: app.following.conversation(), "Follow",
            "only this frame's conversation; again: as before", "follow", 11),
    Command("r", "Request or answer of the frame", lambda app: app.following.counterpart(), "Follow",
            "from a request to its answer, and back", "answer", 12),
    Command("R", "Reassembled transfer or payload", lambda app: app.following.transfer(), "Follow",
            "the reassembled RMPP transfer, or the payloads of this connection"),
)  # fmt: skip
