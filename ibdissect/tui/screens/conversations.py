"""The conversations: pairs of queue pairs, and management requests with their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from textual import events
from textual.binding import Binding

from ibdissect.mad.response_times import Exchange
from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.conversations import Conversation, conversation_filter, exchange_filter
from ibdissect.screen_model.node_names import PERMISSIVE
from ibdissect.screen_model.number_text import duration, number, octets, spark, squeeze
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.table import ADDRESS, Cell, Heading, Table, address_heading
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

T = TypeVar("T")
SPARK = 12
"""Least width of a time line, as long as other columns can be left out."""
TITLE = "Over time"
NONE: Cell = "·", "dim"


def _over_time(values: list[int], room: int) -> str:
    return spark(squeeze(values, room) if room < len(values) else values)


def _some(count: int, ink: str) -> Cell:
    return (number(count), ink) if count else NONE


def _qp(number: int) -> Cell:
    return (f"0x{number:06x}", "strong") if number >= 0 else ("?", "dim")


def _trouble(one: Conversation, count: int, ink: str) -> Cell:
    return (number(count), ink) if count else ("0" if one.counted else "·", "dim")


def _percentile(one: Conversation, share: float) -> Cell:
    return (duration(one.times.percentile(share)), "") if one.times is not None else NONE


class ConversationTable(Table[Conversation]):
    empty = "No data packets: the capture holds no conversation between queue pairs."
    least_rest, rest_rank = SPARK, 4

    def __init__(self, conversations: Sequence[Conversation], name: Callable[[str], str] = str, id: str = "conversations") -> None:
        super().__init__(conversations, id=id)
        self.columns = [
            address_heading("One end", conversations, lambda one: name(str(one.near)), least=ADDRESS[0]),
            Heading("QP", 8, lambda one: _qp(one.near_qp), "left"),
            Heading("", 1, lambda one: ("⇄" if one.packets[1] else "→", "dim"), "left"),
            address_heading("Other end", conversations, lambda one: name(str(one.far)), least=ADDRESS[0]),
            Heading("QP", 8, lambda one: _qp(one.far_qp), "left"),
            Heading("Svc", 4, lambda one: (one.service, "dim"), "left", 5),
            Heading("Packets →", 9, lambda one: (number(one.packets[0]), ""), rank=3),
            Heading("Packets ←", 9, lambda one: _some(one.packets[1], ""), rank=6),
            Heading("Frame bytes", 11, lambda one: (octets(sum(one.octets)), ""), rank=7),
            Heading("Repeated", 8, lambda one: _trouble(one, one.repeated, "again")),
            Heading("of all", 7, lambda one: (f"{one.repeated / one.total:.2%}", "") if one.repeated else NONE, rank=8),
            Heading("Missing", 7, lambda one: _trouble(one, one.missing, "again"), rank=2),
            Heading("NAKs", 5, lambda one: _trouble(one, one.naks, "nak"), rank=1),
            Heading("RNR", 5, lambda one: _trouble(one, one.not_ready, "nak"), rank=4),
            Heading("Messages", 8, lambda one: _some(one.messages, ""), rank=9),
            Heading("Median", 7, lambda one: _percentile(one, 0.5), rank=10),
            Heading("99 %", 7, lambda one: _percentile(one, 0.99), rank=11),
            Heading("Pair by", 8, lambda one: (one.known_by or "one way", "dim"), "left", 8),
        ]  # fmt: skip

    @property
    def rest_title(self) -> str:  # type: ignore[override]
        return TITLE if self.rest_room(self.line_width) >= len(TITLE) else "Time"

    def rest(self, item: Conversation, room: int) -> Cell:
        return _over_time(list(item.spark), room), "plot"

    def answer(self, item: Conversation) -> str | None:
        return conversation_filter(item) if item.far != "?" else None


def responses(of: Callable[[T], Exchange], *quantiles: tuple[str, float, int], retries: int) -> list[Heading[T]]:
    """How many requests were answered, and how fast: columns, with the rank of that for retries. `quantiles`: title, share, rank."""

    def quantile(share: float) -> Callable[[T], Cell]:
        return lambda item: (duration(time), "") if (time := of(item).quantile(share)) is not None else NONE

    return [
        Heading("Answered", 9, lambda item: (number(of(item).answered), "")),
        Heading("Unanswered", 10, lambda item: _some(of(item).unanswered, "again")),
        Heading("Retries", 7, lambda item: _some(of(item).retries, "again"), rank=retries),
        *(Heading(title, 8, quantile(share), rank=rank) for title, share, rank in quantiles),
    ]


class ExchangeTable(Table[Exchange]):
    empty = "No management requests."
    rest_title, least_rest = "Latency 0.5 µs … 30 s", SPARK

    def __init__(self, exchanges: Sequence[Exchange], name: Callable[[str], str] = str) -> None:
        super().__init__(exchanges, id="exchanges")
        self.columns = [
            address_heading("Requester", exchanges, lambda one: name(str(one.requester))), Heading("", 1, lambda _: ("⇄", "dim"), "left"),
            address_heading("Responder", exchanges, lambda one: name(str(one.responder))),
            Heading("Class", 15, lambda one: (one.kind, "strong"), "left"),
            *responses(lambda one: one, ("p50", 0.5, 0), ("p90", 0.9, 3), ("p99", 0.99, 1), retries=2),
        ]  # fmt: skip

    def rest(self, item: Exchange, room: int) -> Cell:
        return _over_time(item.times.octaves(), room), "plot-two"

    def answer(self, item: Exchange) -> str:
        return exchange_filter(item)


class ConversationScreen(Overlay[str]):
    """Returns the filter of the conversation that was chosen."""

    BINDINGS = [Binding("C", "dismiss(None)", "back"), Binding("tab", "app.focus_next", "other table", priority=True)]
    keys = "Enter shows its frames · o O sort · / search · Tab other table"

    def __init__(self, snapshot: Snapshot, name: Callable[[str], str] = str) -> None:
        pairs, asked = snapshot.conversations, snapshot.exchanges
        many = f"{number(len(pairs))} between queue pairs, {number(len(asked))} of management"
        senders = snapshot.senders
        routed = senders[0] if len(senders) == 1 else f"{len(senders)} nodes" if senders else PERMISSIVE
        self.conversations = ConversationTable(pairs, name)
        self.exchanges = ExchangeTable(asked, lambda end: routed if end == PERMISSIVE else name(end))
        super().__init__(f"Conversations   {many}, in {counted(snapshot.frames, 'frame', ',')}", self.conversations, self.exchanges)

    def on_mount(self) -> None:
        (self.conversations if self.conversations.items else self.exchanges).focus()

    def on_resize(self, event: events.Resize) -> None:
        # Each table has what it needs; where that is too much, the one with less keeps it and the other scrolls.
        room = max(event.size.height - 2, 6)
        first, second = (max(table.count(), 1) + 2 for table in (self.conversations, self.exchanges))
        if first + second > room:
            first = room - second if second <= room // 2 else min(first, room - room // 2)
            second = room - first
        self.conversations.styles.height, self.exchanges.styles.height = first, second


def _open(app: TuiApp) -> None:
    app.with_snapshot(lambda shot: app.over(ConversationScreen(shot, app.main.packets.names.address), app.filtering.enter))


COMMAND = Command("C", "Conversations", _open, "Look", "conversations, and what was sent again", "conversations", 14)
