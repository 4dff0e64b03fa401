"""The conversations: pairs of queue pairs, and management requests with their answers."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static

from .exchanges import ROUTES, Exchange, octaves
from .heads import GAP, MARGIN, Head, fitting, room_behind, titles
from .ink import duration, fit, number, octets, spark, squeeze, width_of
from .line_list import LineList
from .study import Snapshot
from .talks import Talk, addressed, talk_filter

LEAST, MOST = 9, 26
"""Cells of an address."""
SPARK = 12
"""Cells of a time line, at least, while other columns can be left out."""


def _wide(names: Iterable[str], title: str) -> int:
    return min(max(max(map(width_of, names), default=0), len(title), LEAST), MOST)


class HeadedList(LineList):
    """A table whose columns follow the width of the screen."""

    behind = ""
    """Title of what takes the room behind the columns."""

    def heads(self) -> list[Head]:
        """All columns."""
        raise NotImplementedError

    def cell(self, index: int, key: str) -> tuple[str, str]:
        """Text of a cell, and the name of its ink (empty: plain)."""
        raise NotImplementedError

    def drawn(self, index: int) -> tuple[list[int], str]:
        """What is drawn behind the columns: values, and the name of their ink."""
        raise NotImplementedError

    @property
    def title_line(self) -> str:
        """The line above the table."""
        return titles(fitting(self.heads(), self.line_width, SPARK), self.behind)

    def parts(self, index: int, width: int) -> list[Segment]:
        heads = fitting(self.heads(), width, SPARK)
        segments = [Segment(" " * MARGIN)]
        for head in heads:
            text, ink = self.cell(index, head.key)
            segments += [Segment(fit(text, head.width, head.align), self.ink(ink) if ink else None), Segment(" " * GAP)]
        values, ink = self.drawn(index)
        room = max(room_behind(heads, width) - 1, 0)
        segments.append(Segment(spark(squeeze(values, room) if room < len(values) else values), self.ink(ink)))
        return segments


class TalkTable(HeadedList):
    """Conversations between queue pairs, the busiest first."""

    empty = "No data packets: the capture holds no conversation between queue pairs."
    behind = "Over time"

    def __init__(self, talks: list[Talk]) -> None:
        super().__init__(id="talks")
        self.talks = talks
        near, far = _wide((talk.near for talk in talks), "One end"), _wide((talk.far for talk in talks), "Other end")
        self._heads = [
            Head("near", "One end", near, "left"), Head("near_qp", "QP", 8, "left"), Head("arrow", "", 1, "left"),
            Head("far", "Other end", far, "left"), Head("far_qp", "QP", 8, "left"), Head("service", "Svc", 4, "left", 1),
            Head("there", "Packets →", 9), Head("back", "Packets ←", 9, rank=2), Head("octets", "Bytes", 8, rank=4),
            Head("repeated", "Repeated", 8), Head("missing", "Missing", 7, rank=3), Head("naks", "NAKs", 5, rank=1),
            Head("not_ready", "RNR", 5, rank=5), Head("known_by", "Pair by", 8, "left", 6),
        ]  # fmt: skip

    def heads(self) -> list[Head]:
        return self._heads

    def count(self) -> int:
        return len(self.talks)

    def cell(self, index: int, key: str) -> tuple[str, str]:
        talk = self.talks[index]
        if key in ("repeated", "missing", "naks", "not_ready"):
            value: int = getattr(talk, key)
            ink = "nak" if key in ("naks", "not_ready") else "again"
            return (number(value), ink) if value else ("0" if talk.counted else "·", "dim")
        if key in ("near_qp", "far_qp"):
            qp: int = getattr(talk, key)
            return (f"0x{qp:06x}", "strong") if qp >= 0 else ("?", "dim")
        return {
            "near": (talk.near, ""), "far": (talk.far, ""), "arrow": ("⇄" if talk.packets[1] else "→", "dim"),
            "service": (talk.service, "dim"), "there": (number(talk.packets[0]), ""),
            "back": (number(talk.packets[1]) if talk.packets[1] else "·", "" if talk.packets[1] else "dim"),
            "octets": (octets(sum(talk.octets)), ""), "known_by": (talk.known_by or "one way", "dim"),
        }[key]  # fmt: skip

    def drawn(self, index: int) -> tuple[list[int], str]:
        return list(self.talks[index].spark), "plot"

    def choose(self) -> None:
        talk = self.talks[self.cursor]
        if talk.far != "?":
            self.screen.dismiss(talk_filter(talk))


class ExchangeTable(HeadedList):
    """Requests and answers, the busiest first."""

    empty = "No management requests."
    behind = "Latency 0.5 µs … 30 s"

    def __init__(self, exchanges: list[Exchange]) -> None:
        super().__init__(id="exchanges")
        self.exchanges = exchanges
        near = _wide((exchange.requester for exchange in exchanges), "Requester")
        far = _wide((exchange.responder for exchange in exchanges), "Responder")
        self._heads = [
            Head("requester", "Requester", near, "left"), Head("arrow", "", 1, "left"), Head("responder", "Responder", far, "left"),
            Head("kind", "Class", 15, "left"), Head("answered", "Answered", 9), Head("unanswered", "Unanswered", 10),
            Head("retries", "Retries", 7, rank=2), Head("p50", "p50", 8), Head("p90", "p90", 8, rank=3), Head("p99", "p99", 8, rank=1),
        ]  # fmt: skip

    def heads(self) -> list[Head]:
        return self._heads

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
            "requester": (exchange.requester, ""), "responder": (exchange.responder, ""), "arrow": ("⇄", "dim"),
            "kind": (exchange.kind, "strong"), "answered": (number(exchange.answered), ""),
        }[key]  # fmt: skip

    def drawn(self, index: int) -> tuple[list[int], str]:
        return octaves(self.exchanges[index].times), "plot-two"

    def choose(self) -> None:
        self.screen.dismiss(exchange_filter(self.exchanges[self.cursor]))


def exchange_filter(exchange: Exchange) -> str:
    """The display filter that shows the requests of an exchange and what comes back."""
    of_class = f"infiniband.mad.mgmtclass == 0x{exchange.mgmt_class:02x}"
    if exchange.responder == ROUTES:
        return of_class
    there, back = addressed(exchange.requester, exchange.responder), addressed(exchange.responder, exchange.requester)
    return f"{of_class} && (({there}) || ({back}))"


class ConversationScreen(Screen[str | None]):
    """Returns the filter of the conversation that was chosen."""

    BINDINGS = [Binding("escape,q,C", "dismiss(None)", "back"), Binding("tab", "other", "other table", priority=True)]

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def compose(self) -> ComposeResult:
        shot = self.snapshot
        yield Static(
            f" Conversations   {number(len(shot.talks))} between queue pairs, {number(len(shot.exchanges))} of management,"
            f" in {number(shot.frames)} frames", classes="screen-title", markup=False,
        )  # fmt: skip
        yield Static("", classes="table-head", id="talk-head", markup=False)
        yield TalkTable(shot.talks)
        yield Static("", classes="table-head", id="exchange-head", markup=False)
        yield ExchangeTable(shot.exchanges)
        yield Static(" Enter shows its frames · Tab other table · Esc back", classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        for table in self.query(LineList):
            table.renew()
        talks, exchanges = self.query_one(TalkTable), self.query_one(ExchangeTable)
        (talks if self.snapshot.talks else exchanges).focus()

    def on_resize(self, event: events.Resize) -> None:
        # Each table has what it needs; where that is too much, the one with less keeps it and the other scrolls.
        talks, exchanges = self.query_one(TalkTable), self.query_one(ExchangeTable)
        room = max(event.size.height - 4, 4)
        first, second = max(talks.count(), 1) + 1, max(exchanges.count(), 1) + 1
        if first + second > room:
            first, second = (room - second, second) if second <= room // 2 else (min(first, room - room // 2), 0)
            second = room - first
        talks.styles.height, exchanges.styles.height = first, second
        self.call_after_refresh(self._title)

    def _title(self) -> None:
        for table, head in ((TalkTable, "#talk-head"), (ExchangeTable, "#exchange-head")):
            self.query_one(head, Static).update(self.query_one(table).title_line)

    def action_other(self) -> None:
        talks, exchanges = self.query_one(TalkTable), self.query_one(ExchangeTable)
        (exchanges if talks.has_focus else talks).focus()
