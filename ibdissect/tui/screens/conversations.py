"""The conversations: pairs of queue pairs, and management requests with their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.binding import Binding

from ibdissect.flow.exchanges import Exchange
from ibdissect.study.background import Snapshot
from ibdissect.study.conversations import Conversation, conversation_filter, exchange_filter
from ibdissect.study.node_names import PERMISSIVE
from ibdissect.study.number_text import duration, number, octets, spark, squeeze
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.cells import width_of
from ..widgets.table import Cell, Heading, Table
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

LEAST, MOST = 9, 26
"""Cells of an address."""
SPARK = 12
"""Cells of a time line, at least, while other columns can be left out."""
NONE: Cell = "·", "dim"


def _wide(names: Iterable[str], title: str) -> int:
    return min(max(max(map(width_of, names), default=0), len(title), LEAST), MOST)


def _over_time(values: list[int], room: int) -> str:
    return spark(squeeze(values, room) if room < len(values) else values)


def _some(count: int, ink: str) -> Cell:
    return (number(count), ink) if count else NONE


class ConversationTable(Table[Conversation]):
    empty = "No data packets: the capture holds no conversation between queue pairs."
    rest_title, least_rest = "Over time", SPARK

    def __init__(self, conversations: Sequence[Conversation], name: Callable[[str], str] = str, id: str = "conversations") -> None:
        super().__init__(conversations, id=id)
        self.named = name
        near = _wide((name(str(one.near)) for one in conversations), "One end")
        far = _wide((name(str(one.far)) for one in conversations), "Other end")
        self.columns = [
            Heading("near", "One end", near, "left"), Heading("near_qp", "QP", 8, "left"),
            Heading("arrow", "", 1, "left"), Heading("far", "Other end", far, "left"),
            Heading("far_qp", "QP", 8, "left"), Heading("service", "Svc", 4, "left", 1),
            Heading("there", "Packets →", 9), Heading("back", "Packets ←", 9, rank=2),
            Heading("octets", "Bytes", 8, rank=4), Heading("repeated", "Repeated", 8), Heading("share", "of all", 7, rank=7),
            Heading("missing", "Missing", 7, rank=3), Heading("naks", "NAKs", 5, rank=1),
            Heading("not_ready", "RNR", 5, rank=5), Heading("messages", "Messages", 8, rank=8), Heading("p50", "Median", 7, rank=9),
            Heading("p99", "99 %", 7, rank=10), Heading("known_by", "Pair by", 8, "left", 6),
        ]  # fmt: skip

    def cells(self, item: Conversation) -> dict[str, Cell]:
        quiet: Cell = ("0" if item.counted else "·", "dim")
        troubles = {key: (number(count), ink) if (count := getattr(item, key)) else quiet
                    for key, ink in (("repeated", "again"), ("missing", "again"), ("naks", "nak"), ("not_ready", "nak"))}  # fmt: skip
        ends = {key: (f"0x{qp:06x}", "strong") if (qp := getattr(item, key)) >= 0 else ("?", "dim") for key in ("near_qp", "far_qp")}
        there, back = item.packets
        times = {f"p{share}": (duration(item.times.percentile(share / 100)), "") if item.times is not None else NONE for share in (50, 99)}
        return troubles | ends | times | {
            "messages": _some(item.messages, ""),
            "near": (self.named(str(item.near)), ""), "far": (self.named(str(item.far)), ""), "arrow": ("⇄" if back else "→", "dim"),
            "service": (item.service, "dim"), "there": (number(there), ""), "back": _some(back, ""),
            "octets": (octets(sum(item.octets)), ""), "known_by": (item.known_by or "one way", "dim"),
            "share": (f"{item.repeated / item.total:.2%}", "") if item.repeated else NONE,
        }  # fmt: skip

    def rest(self, item: Conversation, room: int) -> Cell:
        return _over_time(list(item.spark), room), "plot"

    def answer(self, item: Conversation) -> str | None:
        return conversation_filter(item) if item.far != "?" else None


def response_cells(exchange: Exchange) -> dict[str, Cell]:
    """How many requests were answered, and how fast."""
    shares = {f"p{share}": exchange.quantile(share / 100) for share in (50, 90, 99)} | {"most": exchange.quantile(1)}
    times = {key: (duration(time), "") if time is not None else NONE for key, time in shares.items()}
    return times | {
        "kind": (exchange.kind, "strong"), "answered": (number(exchange.answered), ""),
        "unanswered": _some(exchange.unanswered, "again"), "retries": _some(exchange.retries, "again"),
    }  # fmt: skip


class ExchangeTable(Table[Exchange]):
    empty = "No management requests."
    rest_title, least_rest = "Latency 0.5 µs … 30 s", SPARK

    def __init__(self, exchanges: Sequence[Exchange], name: Callable[[str], str] = str) -> None:
        super().__init__(exchanges, id="exchanges")
        self.named = name
        near = _wide((name(str(exchange.requester)) for exchange in exchanges), "Requester")
        far = _wide((name(str(exchange.responder)) for exchange in exchanges), "Responder")
        self.columns = [
            Heading("requester", "Requester", near, "left"), Heading("arrow", "", 1, "left"),
            Heading("responder", "Responder", far, "left"), Heading("kind", "Class", 15, "left"),
            Heading("answered", "Answered", 9), Heading("unanswered", "Unanswered", 10),
            Heading("retries", "Retries", 7, rank=2), Heading("p50", "p50", 8), Heading("p90", "p90", 8, rank=3),
            Heading("p99", "p99", 8, rank=1),
        ]  # fmt: skip

    def cells(self, item: Exchange) -> dict[str, Cell]:
        ends = {"requester": (self.named(str(item.requester)), ""), "responder": (self.named(str(item.responder)), "")}
        return ends | {"arrow": ("⇄", "dim")} | response_cells(item)

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
    app.with_snapshot(lambda shot: app.over(ConversationScreen(shot, app.main.packets.address), app.filtering.enter))


COMMAND = Command("C", "Conversations", _open, "Look", "conversations, and what was sent again", "conversations", 14)
