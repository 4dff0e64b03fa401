"""The conversations: flows to queue pairs, and management requests with their answers."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static

from .conversations import Exchange, Flow, exchange_filter, flow_filter
from .ink import duration, fit, number, octets, spark
from .line_list import LineList
from .study import Snapshot

ADDRESS = 17
FLOW_HEAD = (
    f"   {'Source':<{ADDRESS}}  {'Destination':<{ADDRESS}}  {'QP':<8} {'Svc':<4}{'Packets':>10}{'Bytes':>10}{'Repeated':>10}{'NAKs':>7}"
    "   Over time"
)
EXCHANGE_HEAD = (
    f"   {'Requester':<{ADDRESS}}  {'Responder':<{ADDRESS}}  {'Class':<15}{'Requests':>9}{'Answered':>10}{'p50':>9}{'p99':>9}"
    "   Latency 1 µs … 10 s"
)
FLOW_WIDTH = 3 + 2 * ADDRESS + 4 + 9 + 4 + 10 + 10 + 10 + 7 + 3
EXCHANGE_WIDTH = 3 + 2 * ADDRESS + 4 + 15 + 9 + 10 + 9 + 9 + 3


class FlowTable(LineList):
    """Flows, the busiest first."""

    empty = "No data packets: the capture holds no flow to a queue pair."

    def __init__(self, flows: list[Flow]) -> None:
        super().__init__(id="flows")
        self.flows = flows

    def count(self) -> int:
        return len(self.flows)

    def parts(self, index: int, width: int) -> list[Segment]:
        flow = self.flows[index]
        return [
            Segment(f"   {fit(flow.source, ADDRESS)}"), Segment("→ ", self.ink("dim")), Segment(f"{fit(flow.destination, ADDRESS)}  "),
            Segment(f"0x{flow.qp:06x} ", self.ink("strong")), Segment(fit(flow.service, 4), self.ink("dim")),
            Segment(fit(number(flow.packets), 10, "right")), Segment(fit(octets(flow.octets), 10, "right")),
            Segment(fit(number(flow.repeats) if flow.repeats else "·", 10, "right"), self.ink("again" if flow.repeats else "dim")),
            Segment(fit(number(flow.naks) if flow.naks else "·", 7, "right"), self.ink("nak" if flow.naks else "dim")),
            Segment("   "), Segment(spark(flow.spark)[: max(width - FLOW_WIDTH - 1, 0)], self.ink("plot")),
        ]  # fmt: skip

    def choose(self) -> None:
        flow = self.flows[self.cursor]
        if flow.destination:
            self.screen.dismiss(flow_filter(flow))


class ExchangeTable(LineList):
    """Requests and answers, the busiest first."""

    empty = "No management requests."

    def __init__(self, exchanges: list[Exchange]) -> None:
        super().__init__(id="exchanges")
        self.exchanges = exchanges

    def count(self) -> int:
        return len(self.exchanges)

    def parts(self, index: int, width: int) -> list[Segment]:
        exchange = self.exchanges[index]
        half, nearly = exchange.quantile(0.5), exchange.quantile(0.99)
        missing = exchange.answers < exchange.requests
        return [
            Segment(f"   {fit(exchange.requester, ADDRESS)}"), Segment("⇄ ", self.ink("dim")),
            Segment(f"{fit(exchange.responder, ADDRESS)}  "),
            Segment(fit(exchange.kind, 15), self.ink("strong")), Segment(fit(number(exchange.requests), 9, "right")),
            Segment(fit(number(exchange.answers), 10, "right"), self.ink("again") if missing else None),
            Segment(fit("≤" + duration(half) if half else "·", 9, "right")),
            Segment(fit("≤" + duration(nearly) if nearly else "·", 9, "right")),
            Segment("   "), Segment(spark(exchange.latency.tolist()[9:34])[: max(width - EXCHANGE_WIDTH - 1, 0)], self.ink("plot-two")),
        ]  # fmt: skip

    def choose(self) -> None:
        self.screen.dismiss(exchange_filter(self.exchanges[self.cursor]))


class ConversationScreen(Screen[str | None]):
    """Returns the filter of the conversation that was chosen."""

    BINDINGS = [Binding("escape,q,c", "dismiss(None)", "back"), Binding("tab", "other", "other table", priority=True)]

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def compose(self) -> ComposeResult:
        shot = self.snapshot
        yield Static(
            f" Conversations   {number(len(shot.flows))} flows to queue pairs, {number(len(shot.exchanges))} management exchanges"
            f" in {number(shot.frames)} frames", classes="screen-title", markup=False,
        )  # fmt: skip
        yield Static(FLOW_HEAD, classes="table-head", markup=False)
        yield FlowTable(shot.flows)
        yield Static(EXCHANGE_HEAD, classes="table-head", markup=False)
        yield ExchangeTable(shot.exchanges)
        yield Static(" Enter shows its frames · Tab other table · Esc back · an RC packet names only the queue pair it goes to: a flow"
                     " is one direction", classes="screen-keys", markup=False)  # fmt: skip

    def on_mount(self) -> None:
        for table in self.query(LineList):
            table.renew()
        flows, exchanges = self.query_one(FlowTable), self.query_one(ExchangeTable)
        (flows if self.snapshot.flows else exchanges).focus()

    def on_resize(self, event: events.Resize) -> None:
        # Each table has what it needs; where that is too much, the one with less keeps it and the other scrolls.
        flows, exchanges = self.query_one(FlowTable), self.query_one(ExchangeTable)
        room = max(event.size.height - 4, 4)
        first, second = max(flows.count(), 1) + 1, max(exchanges.count(), 1) + 1
        if first + second > room:
            first, second = (room - second, second) if second <= room // 2 else (min(first, room - room // 2), 0)
            second = room - first
        flows.styles.height, exchanges.styles.height = first, second

    def action_other(self) -> None:
        flows, exchanges = self.query_one(FlowTable), self.query_one(ExchangeTable)
        (exchanges if flows.has_focus else flows).focus()
