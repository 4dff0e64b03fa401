"""Requests and answers by frame, response times, and the message of each frame: the values of `named_values.ANSWER_NAMES`."""

from __future__ import annotations

import numpy as np

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.counted_packets import Distinct
from ibdissect.dissect.named_values import MESSAGE
from ibdissect.mad.request_outcomes import AnsweredMany
from ibdissect.mad.transactions import Transactions
from ibdissect.transport.message_table import MessageTable
from ibdissect.transport.plugin_requests import PluginAnswers, answering

REQUEST_FRAME, RESPONSE_FRAME = "ibdissect.request_frame", "ibdissect.response_frame"
_ANSWER, _FIRST, _LATEST, _TIME = range(4)


class AnswerFrames:
    """Requests and answers by frame. Feed it chunks, or events of another `Transactions`; one thread may add, any may read."""

    def __init__(self, *, messages: bool = False) -> None:
        """`messages`: whether the values of messages are wanted, too."""
        self.transactions, self.distinct, self.of_plugins = Transactions(), Distinct(), PluginAnswers()
        self.messages = MessageTable() if messages else None
        self._rows: Int = np.empty((1024, 4), np.int64)
        """Frame of the answer (ascending), of the request's first and latest try, response time in nanoseconds."""
        self._count = 0
        self._by_request: tuple[int, Int, Int] = (0, np.empty(0, np.int64), np.empty(0, np.int64))
        """Cache: number of rows it was built from, request frames (ascending), and the frames of their answers."""

    def __len__(self) -> int:
        return self._count

    def feed(self, table: ChunkTable) -> None:
        table = self.distinct.of(table)
        for event in self.transactions.feed(table):
            self.take(event)
        self.take_plugins(table)
        if self.messages is not None:
            self.messages.feed(table)

    def finish(self) -> None:
        if self.messages is not None:
            self.messages.finish()

    def take(self, event: object) -> None:
        """Process an event of a `Transactions`; ignores everything but answers."""
        if isinstance(event, AnsweredMany):
            self._add(np.stack((event.frames, event.request_frames, event.last_frames, event.latency_ns), axis=1))

    def take_plugins(self, table: ChunkTable) -> None:
        """Take the answers in a chunk that structures of plugins declare."""
        found = self.of_plugins.feed(table) if answering(table.catalog) else ()
        if found:
            self._add(np.array([(one.frame, one.request.frame, one.request.frame, one.latency_ns) for one in found], np.int64))

    def _add(self, rows: Int) -> None:
        """Add answers, ascending; those of another protocol may lie between the latest ones, which are put into a new array."""
        old, new = self._count, self._count + len(rows)
        late = old > 0 and len(rows) > 0 and rows[0, _ANSWER] < self._rows[old - 1, _ANSWER]
        if new > len(self._rows) or late:
            grown = np.empty((max(2 * new, 1024), 4), np.int64)
            grown[:old] = self._rows[:old]
            grown[old:new] = rows
            if late:
                grown[:new] = grown[np.argsort(grown[:new, _ANSWER], kind="stable")]
            self._rows = grown
        else:
            self._rows[old:new] = rows
        self._count = new

    def value(self, name: str, frame: int) -> int | None:
        """The value of one of ANSWER_NAMES for a frame; None if there is none (yet)."""
        _, values = self.values(name, frame, 1)
        return int(values[0]) if len(values) else None

    def values(self, name: str, first: int, count: int) -> tuple[Int, Int]:
        """The values of one of ANSWER_NAMES for `count` frames from `first`: rows relative to `first`, ascending, and values.

        For an answer: the frame of the request's latest try, and the nanoseconds since. For a request (its first and its latest
        try): the frame of the answer. A time below 0 is not known: the clock was set back.
        """
        if name.startswith(MESSAGE):
            assert self.messages is not None, "made without messages"
            return self.messages.values(name.removeprefix(MESSAGE), first, count)
        if name == RESPONSE_FRAME:
            frames, values = self._requests()
        else:
            rows = self._rows[: self._count]
            frames, values = rows[:, _ANSWER], rows[:, _LATEST if name == REQUEST_FRAME else _TIME]
        low, high = np.searchsorted(frames, (first, first + count))
        frames, values = frames[low:high], values[low:high]
        known = values >= 0
        return frames[known] - first, values[known]

    def _requests(self) -> tuple[Int, Int]:
        """Distinct request frames, ascending, and the frames of their answers."""
        known, frames, answers = self._by_request
        count = self._count
        if known != count:
            rows = self._rows[:count]
            asked = np.concatenate((rows[:, _FIRST], rows[:, _LATEST]))
            frames, first = np.unique(asked, return_index=True)
            answers = np.tile(rows[:, _ANSWER], 2)[first]
            self._by_request = count, frames, answers
        return frames, answers


class PluginsFollower:
    """Feeds the answers that plugins declare, as a follower of a check."""

    after = ()

    def __init__(self, answers: AnswerFrames) -> None:
        self.answers = answers

    def feed(self, table: ChunkTable) -> tuple[object, ...]:
        self.answers.take_plugins(table)
        return ()
