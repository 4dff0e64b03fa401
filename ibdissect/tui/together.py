"""Frames that belong together: follow a conversation, jump between request and answer, see a transfer reassembled."""

from __future__ import annotations

from collections.abc import Callable

from .follow import conversation_filter, counterpart, find_transfer
from .messages import CounterpartFound, SnapshotReady, TransferFound
from .search import Search
from .study import Snapshot
from .talks import Talk
from .transfer_screen import TransferScreen


class Together(Search):
    """The part of the application that answers the keys c, r and R."""

    _followed = ""
    """The filter that `c` put up, and the one it replaced."""
    _before = ""

    def _ask(self, what: str) -> None:
        """Have the numbers of the study sent here; `what` says for whom."""
        self._asked = what

        def ready(shot: Snapshot) -> None:
            self.post_message(SnapshotReady(shot))

        self.study.want(ready)

    def action_follow(self) -> None:
        if self._followed and self.filter_text == self._followed:
            self._followed = ""
            self.filter_bar.put(self._before)
            self.apply_filter(self._before)
        elif self.packets.frame:
            self._ask("follow")

    def follow(self, talks: list[Talk]) -> None:
        """Show only the conversation of the selected frame."""
        frame = self.packets.frame
        text = conversation_filter(self.model, frame, talks, self.study.connections.all) if frame else None
        if text is None:
            self.notify(f"Frame {frame} belongs to no InfiniBand conversation", markup=False)
            return
        self._before, self._followed = self.filter_text, text
        self.filter_bar.put(text)
        self.apply_filter(text)
        self.key_bar.say("c shows what was shown before")

    def action_counterpart(self) -> None:
        if self.packets.frame:
            self._ask("counterpart")

    def find_counterpart(self, talks: list[Talk]) -> None:
        """Look for the answer or the request of the selected frame, beside the screen."""
        frame, connections = self.packets.frame, self.study.connections.all.copy()

        def work(wanted: Callable[[], bool]) -> None:
            other = counterpart(self.model, frame, talks, connections)
            if wanted():
                self.post_message(CounterpartFound(frame, other))

        self.searching.run(work, "counterpart")

    def on_counterpart_found(self, message: CounterpartFound) -> None:
        if message.other is not None:
            self.jump(message.other)
            self.key_bar.say(f"r goes back to frame {message.frame}")
        else:
            yet = "" if self.study.finished else " yet"
            self.notify(f"No request and no answer known{yet} that goes with frame {message.frame}", markup=False)

    def action_transfer(self) -> None:
        frame = self.packets.frame
        if not frame:
            return

        def work(wanted: Callable[[], bool]) -> None:
            found = find_transfer(self.model, frame, wanted)
            if wanted():
                self.post_message(TransferFound(frame, found))

        self.searching.run(work, "transfer")

    def on_transfer_found(self, message: TransferFound) -> None:
        transfer = message.transfer
        if transfer is None:
            self.notify(f"Frame {message.frame} belongs to no RMPP transfer", markup=False)
            return
        presenter = self.model.presenter(transfer.end_frame or message.frame)
        self.push_screen(TransferScreen(transfer, self.model.catalog, presenter), self.jump)
