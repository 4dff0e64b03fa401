"""The statistics: packets and bytes over time with the findings on the time line, who sends what, how fast, and what was lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Label

from ibdissect.mad.response_times import FASTEST, OCTAVES, Exchange, Kind
from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.conversations import Conversation, trouble
from ibdissect.screen_model.findings_store import Int
from ibdissect.screen_model.node_names import PERMISSIVE
from ibdissect.screen_model.number_text import duration, octets
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.line_list import LineList
from ..widgets.plots import CountBars, Plot, axis
from ..widgets.table import Heading, Table
from .conversations import ConversationTable, responses
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

MOST = 20
"""Visible rows of a table; it scrolls to the others."""


class KindTable(Table[tuple[Kind, Exchange]]):
    """Response times by management class and attribute."""

    empty = "No management requests."

    def __init__(self, kinds: Sequence[tuple[Kind, Exchange]], catalog: Catalog) -> None:
        super().__init__(kinds, id="kinds")
        quantiles = ("p50", 0.5, 0), ("p90", 0.9, 2), ("p99", 0.99, 0), ("most", 1, 1)
        self.columns = [
            Heading("Class", 15, lambda item: (item[1].kind, "strong"), "left", 4),
            Heading("Request", 40, lambda item: (catalog.request_text(*item[0]), ""), "left"),
            *responses(lambda item: item[1], *quantiles, retries=3),
        ]

    def answer(self, item: tuple[Kind, Exchange]) -> str:
        mgmt_class, _, attribute = item[0]
        return f"infiniband.mad.mgmtclass == 0x{mgmt_class:02x} && infiniband.mad.attributeid == 0x{attribute:04x}"


class StatisticsScreen(Overlay[str]):
    """Numbers of the frames studied so far. Returns the filter of the line that was chosen in a table."""

    BINDINGS = [
        Binding("s", "dismiss(None)", "back"),
        *(Binding(key, f"table('{action}')", show=False) for key, action in (("slash", "search"), ("o", "sort(1)"), ("O", "sort(-1)"))),
    ]
    keys = "↑ ↓ scroll · Tab table · Enter its frames · o O sort · / search"

    def __init__(
        self, snapshot: Snapshot, findings: tuple[Int, Int], catalog: Catalog, named: Callable[[str], str] = str
    ) -> None:  # fmt: skip
        tally, line = snapshot.traffic, snapshot.traffic.line
        self.span = duration(max(line.used, 1) * line.step_ns)
        super().__init__(f"Statistics   {counted(tally.frames, 'frame', ',')}, {octets(tally.octets)}, {self.span}")
        self.snapshot, self.findings, self.catalog, self.named = snapshot, findings, catalog, named

    def content(self) -> ComposeResult:
        shot, tally, line = self.snapshot, self.snapshot.traffic, self.snapshot.traffic.line
        used = max(line.used, 1)
        with VerticalScroll(id="statistics"):
            with Vertical(id="plots"):
                yield Plot("Packets", line.packets[:used].tolist(), "packets", line.step_ns, marks=line.worst(*self.findings))
                yield Plot("Frame bytes", line.octets[:used].tolist(), "bytes", line.step_ns, two=True)
                yield axis(self.span)
            with Horizontal(classes="bar-row"):
                yield CountBars("OpCodes", tally.opcodes, empty="no InfiniBand transport")
                yield CountBars("Management classes", tally.classes, two=True, empty="no management datagrams")
            with Horizontal(classes="bar-row"):
                yield CountBars("Partitions", tally.p_keys, empty="no InfiniBand transport")
                yield CountBars("Response time of management requests", _latencies(shot.kinds), two=True, empty="no request was answered")
            with Horizontal(classes="bar-row"):
                yield CountBars("Who talks to whom (packets)", _talkers(shot, self.named), empty="no addresses")
                pairs = [(_pair(one, self.named), one.total) for one in shot.conversations]
                yield CountBars("Conversations between queue pairs (packets)", pairs, two=True, empty="no data packets")
            troubled = ConversationTable(sorted(filter(trouble, shot.conversations), key=trouble, reverse=True), self.named, "troubled")
            troubled.columns = [head for head in troubled.columns if head.title not in ("Packets ←", "Frame bytes", "Pair by")]
            troubled.empty = "Nothing was sent again, lost or refused." if shot.conversations else "No data packets."
            kinds = KindTable(shot.kinds, self.catalog)
            for title, table in (("Response times by class and attribute", kinds), ("Retransmissions, losses and NAKs", troubled)):
                yield Label(f"  {title}", classes="table-title")
                table.styles.height = min(max(table.count(), 1), MOST) + 1
                yield table

    async def action_table(self, action: str) -> None:
        """Search or sort in the first table with lines, as none has the focus."""
        table = next((table for table in self.query(LineList) if table.count()), None)
        if table is not None:
            table.focus()
            await table.run_action(action)


def _latencies(kinds: list[tuple[Kind, Exchange]]) -> list[tuple[str, int]]:
    """Answers by how long they took, from the first octave that has any to the last; factors of four where there are many."""
    counts = [sum(column) for column in zip(*(exchange.times.octaves() for _, exchange in kinds), strict=True)]
    used = [place for place, count in enumerate(counts) if count]
    if not used:
        return []
    step = 1 if used[-1] - used[0] < 9 else 2
    first = used[0] // step * step
    places = range(first, min(used[-1] + 1, OCTAVES), step)
    return [(f"≤ {duration(1 << (FASTEST + place + step))}", sum(counts[place : place + step])) for place in places]


def _talkers(shot: Snapshot, named: Callable[[str], str]) -> list[tuple[str, int]]:
    """Pairs of addresses, the busiest first; directed routes, which show no address, by the node that they lead to."""
    plain = [(f"{named(near)} ⇄ {named(far)}", count) for (near, far), count in shot.traffic.talkers if PERMISSIVE not in (near, far)]
    asked = [(f"SMP ⇄ {name}", count) for name, count in shot.asked]
    return sorted([*plain[:50], *asked], key=lambda entry: -entry[1])[:50]


def _pair(one: Conversation, named: Callable[[str], str] = str) -> str:
    near = f" 0x{one.near_qp:06x}" if one.near_qp >= 0 else ""
    return f"{one.service} {named(str(one.near))}{near} {'⇄' if one.packets[1] else '→'} {named(str(one.far))} 0x{one.far_qp:06x}"


def _open(app: TuiApp) -> None:
    def show(shot: Snapshot) -> None:
        app.over(StatisticsScreen(shot, app.model.findings.ranks(), app.model.catalog, app.main.packets.names.address), app.filtering.enter)

    app.with_snapshot(show)


COMMAND = Command("s", "Statistics", _open, "Look", "statistics", "statistics", 10)
