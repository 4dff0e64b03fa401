"""The conversations: pairs of queue pairs, and management requests with their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static

from ibdissect.flow.exchanges import Exchange
from ibdissect.study.background import Snapshot
from ibdissect.study.conversations import Conversation, conversation_filter, exchange_filter
from ibdissect.study.number_text import duration, number, octets, spark, squeeze

from ..keys.command import Command
from ..widgets.cells import width_of
from ..widgets.headed_list import HeadedList
from ..widgets.line_list import LineList
from ..widgets.table_columns import Heading

if TYPE_CHECKING:
    from ..app import TuiApp

LEAST, MOST = 9, 26
"""Cells of an address."""
SPARK = 12
"""Cells of a time line, at least, while other columns can be left out."""


def _wide(names: Iterable[str], title: str) -> int:
    return min(max(max(map(width_of, names), default=0), len(title), LEAST), MOST)


def _over_time(values: list[int], room: int, ink: Style) -> Segment:
    return Segment(spark(squeeze(values, room) if room < len(values) else values), ink)


class ConversationTable(HeadedList):
    """Conversations between queue pairs, the busiest first."""

    empty = "No data packets: the capture holds no conversation between queue pairs."
    behind, least_behind = "Over time", SPARK

    def __init__(self, conversations: list[Conversation], name: Callable[[str], str] = str) -> None:
        super().__init__(id="conversations")
        self.conversations, self.named = conversations, name
        near = _wide((name(str(one.near)) for one in conversations), "One end")
        far = _wide((name(str(one.far)) for one in conversations), "Other end")
        self.columns = [
            Heading("near", "One end", near, "left"), Heading("near_qp", "QP", 8, "left"),
            Heading("arrow", "", 1, "left"), Heading("far", "Other end", far, "left"),
            Heading("far_qp", "QP", 8, "left"), Heading("service", "Svc", 4, "left", 1),
            Heading("there", "Packets →", 9), Heading("back", "Packets ←", 9, rank=2),
            Heading("octets", "Bytes", 8, rank=4), Heading("repeated", "Repeated", 8),
            Heading("missing", "Missing", 7, rank=3), Heading("naks", "NAKs", 5, rank=1),
            Heading("not_ready", "RNR", 5, rank=5), Heading("known_by", "Pair by", 8, "left", 6),
        ]  # fmt: skip

    def count(self) -> int:
        return len(self.conversations)

    def cell(self, index: int, key: str) -> tuple[str, str]:
        one = self.conversations[index]
        if key in ("repeated", "missing", "naks", "not_ready"):
            value: int = getattr(one, key)
            ink = "nak" if key in ("naks", "not_ready") else "again"
            return (number(value), ink) if value else ("0" if one.counted else "·", "dim")
        if key in ("near_qp", "far_qp"):
            qp: int = getattr(one, key)
            return (f"0x{qp:06x}", "strong") if qp >= 0 else ("?", "dim")
        return {
            "near": (self.named(str(one.near)), ""), "far": (self.named(str(one.far)), ""),
            "arrow": ("⇄" if one.packets[1] else "→", "dim"),
            "service": (one.service, "dim"), "there": (number(one.packets[0]), ""),
            "back": (number(one.packets[1]) if one.packets[1] else "·", "" if one.packets[1] else "dim"),
            "octets": (octets(sum(one.octets)), ""), "known_by": (one.known_by or "one way", "dim"),
        }[key]  # fmt: skip

    def rest(self, index: int, room: int) -> Segment:
        return _over_time(list(self.conversations[index].spark), room, self.ink("plot"))

    def choose(self) -> None:
        one = self.conversations[self.chosen]
        if one.far != "?":
            self.screen.dismiss(conversation_filter(one))


class ExchangeTable(HeadedList):
    """Requests and answers, the busiest first."""

    empty = "No management requests."
    behind, least_behind = "Latency 0.5 µs … 30 s", SPARK

    def __init__(self, exchanges: list[Exchange], name: Callable[[str], str] = str) -> None:
        super().__init__(id="exchanges")
        self.exchanges, self.named = exchanges, name
        near = _wide((name(str(exchange.requester)) for exchange in exchanges), "Requester")
        far = _wide((name(str(exchange.responder)) for exchange in exchanges), "Responder")
        self.columns = [
            Heading("requester", "Requester", near, "left"), Heading("arrow", "", 1, "left"),
            Heading("responder", "Responder", far, "left"), Heading("kind", "Class", 15, "left"),
            Heading("answered", "Answered", 9), Heading("unanswered", "Unanswered", 10),
            Heading("retries", "Retries", 7, rank=2), Heading("p50", "p50", 8), Heading("p90", "p90", 8, rank=3),
            Heading("p99", "p99", 8, rank=1),
        ]  # fmt: skip

    def count(self) -> int:
        return len(self.exchanges)

    def cell(self, index: int, key: str) -> tuple[str, str]:
        exchange = self.exchanges[index]
        if key.startswith("p") and key[1:].isdigit():
            time = exchange.quantile(int(key[1:]) / 100)
            return (duration(time), "") if time is not None else ("·", "dim")
        if key in ("unanswered", "retries"):
            value: int = getattr(exchange, key)
            return (number(value), "again") if value else ("·", "dim")
        return {
            "requester": (self.named(str(exchange.requester)), ""), "responder": (self.named(str(exchange.responder)), ""),
            "arrow": ("⇄", "dim"),
            "kind": (exchange.kind, "strong"), "answered": (number(exchange.answered), ""),
        }[key]  # fmt: skip

    def rest(self, index: int, room: int) -> Segment:
        return _over_time(self.exchanges[index].times.octaves(), room, self.ink("plot-two"))

    def choose(self) -> None:
        self.screen.dismiss(exchange_filter(self.exchanges[self.chosen]))


class ConversationScreen(Screen[str | None]):
    """Returns the filter of the conversation that was chosen."""

    BINDINGS = [Binding("escape,q,C", "dismiss(None)", "back"), Binding("tab", "other", "other table", priority=True)]

    def __init__(self, snapshot: Snapshot, name: Callable[[str], str] = str) -> None:
        super().__init__()
        self.snapshot, self.named = snapshot, name

    def compose(self) -> ComposeResult:
        shot = self.snapshot
        yield Static(
            f" Conversations   {number(len(shot.conversations))} between queue pairs, {number(len(shot.exchanges))} of management,"
            f" in {number(shot.frames)} frames", classes="screen-title", markup=False,
        )  # fmt: skip
        yield Static("", classes="table-head", id="conversation-head", markup=False)
        yield ConversationTable(shot.conversations, self.named)
        yield Static("", classes="table-head", id="exchange-head", markup=False)
        yield ExchangeTable(shot.exchanges, self.named)
        keys = " Enter shows its frames · o O sort by another column · / search · Tab other table · Esc back"
        yield Static(keys, classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        for table in self.query(LineList):
            table.renew()
        conversations, exchanges = self.query_one(ConversationTable), self.query_one(ExchangeTable)
        (conversations if self.snapshot.conversations else exchanges).focus()

    def on_headed_list_sorted(self) -> None:
        self.write_titles()

    def on_resize(self, event: events.Resize) -> None:
        # Each table has what it needs; where that is too much, the one with less keeps it and the other scrolls.
        conversations, exchanges = self.query_one(ConversationTable), self.query_one(ExchangeTable)
        room = max(event.size.height - 4, 4)
        first, second = max(conversations.count(), 1) + 1, max(exchanges.count(), 1) + 1
        if first + second > room:
            first, second = (room - second, second) if second <= room // 2 else (min(first, room - room // 2), 0)
            second = room - first
        conversations.styles.height, exchanges.styles.height = first, second
        self.call_after_refresh(self.write_titles)

    def write_titles(self) -> None:
        """Write the titles above the tables."""
        for table, head in ((ConversationTable, "#conversation-head"), (ExchangeTable, "#exchange-head")):
            self.query_one(head, Static).update(self.query_one(table).title_line)

    def action_other(self) -> None:
        conversations, exchanges = self.query_one(ConversationTable), self.query_one(ExchangeTable)
        (exchanges if conversations.has_focus else conversations).focus()


def _open(app: TuiApp, shot: Snapshot) -> None:
    def done(text: str | None) -> None:
        if text:
            app.filtering.enter(text)

    app.push_screen(ConversationScreen(shot, app.main.packets.address), done)


COMMAND = Command(
    "C", "Conversations", lambda app: app.with_snapshot(partial(_open, app)), "Look", "conversations, and what was sent again",
    "conversations", 14,
)  # fmt: skip
