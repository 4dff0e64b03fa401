"""The statistics: packets and bytes over time with the findings on the time line, who sends what, how fast, and what was lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from ibdissect.flow.exchanges import FASTEST, OCTAVES, Exchange, Kind
from ibdissect.study.background import Snapshot
from ibdissect.study.conversations import Conversation
from ibdissect.study.findings_store import Int
from ibdissect.study.node_names import PERMISSIVE
from ibdissect.study.number_text import duration, number, octets
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.mad import method_name

from ..keys.command import Command
from ..widgets.plots import Axis, Bars, PlainTable, Plot
from ..widgets.table_columns import Heading

if TYPE_CHECKING:
    from ..app import TuiApp

MOST = 30
"""Rows of a table."""


class StatisticsScreen(Screen[None]):
    """Numbers of the frames studied so far."""

    BINDINGS = [Binding("escape,q,s", "dismiss(None)", "back")]

    def __init__(
        self, snapshot: Snapshot, findings: tuple[Int, Int], catalog: Catalog, named: Callable[[str], str] = str
    ) -> None:  # fmt: skip
        super().__init__()
        self.snapshot, self.findings, self.catalog, self.named = snapshot, findings, catalog, named

    def compose(self) -> ComposeResult:
        shot = self.snapshot
        tally, line = shot.traffic, shot.traffic.line
        used = max(line.used, 1)
        marks = line.worst(*self.findings)
        span = duration(used * line.step_ns)
        yield Static(f" Statistics   {number(tally.frames)} frames, {octets(tally.octets)}, {span}", classes="screen-title", markup=False)
        with VerticalScroll(id="statistics"):
            with Vertical(id="plots"):
                yield Plot("Packets", line.packets[:used].tolist(), "packets", line.step_ns, marks=marks)
                yield Plot("Bytes", line.octets[:used].tolist(), "bytes", line.step_ns, two=True)
                yield Axis(span)
            with Horizontal(classes="bar-row"):
                yield Bars("OpCodes", tally.opcodes, empty="no InfiniBand transport")
                yield Bars("Management classes", tally.classes, two=True, empty="no management datagrams")
            with Horizontal(classes="bar-row"):
                yield Bars("Partitions", tally.p_keys, empty="no InfiniBand transport")
                yield Bars("Response time of management requests", _latencies(shot.kinds), two=True, empty="no request was answered")
            with Horizontal(classes="bar-row"):
                yield Bars("Who talks to whom (packets)", _talkers(shot, self.named), empty="no addresses")
                pairs = [(_pair(one, self.named), one.total) for one in shot.conversations]
                yield Bars("Conversations between queue pairs (packets)", pairs, two=True, empty="no data packets")
            with Horizontal(classes="bar-row"):
                yield response_times(shot.kinds, self.catalog)
            with Horizontal(classes="bar-row"):
                yield troubles(shot.conversations, self.named)
        yield Static(" ↑ ↓ scroll · Esc back", classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#statistics").focus()


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


def response_times(kinds: list[tuple[Kind, Exchange]], catalog: Catalog) -> PlainTable:
    """Percentiles by management class and attribute."""
    rows = []
    for (mgmt_class, method, attribute), exchange in kinds[:MOST]:
        name = f"{method_name(mgmt_class, method)}({catalog.attribute_name(mgmt_class, attribute, method)})"
        row = {"class": exchange.kind, "name": name, "answered": number(exchange.answered)}
        row |= {key: number(value) for key, value in (("none", exchange.unanswered), ("retries", exchange.retries)) if value}
        if exchange.times.count:
            row |= {f"p{share}": duration(exchange.times.percentile(share / 100)) for share in (50, 90, 99)}
            row["most"] = duration(exchange.times.most)
        rows.append(row)
    columns = (
        Heading("class", "Class", 15, "left", 4), Heading("name", "Request", 40, "left"),
        Heading("answered", "Answered", 9), Heading("none", "Unanswered", 10),
        Heading("retries", "Retries", 7, rank=3), Heading("p50", "p50", 8), Heading("p90", "p90", 8, rank=2),
        Heading("p99", "p99", 8), Heading("most", "most", 8, rank=1),
    )  # fmt: skip
    return PlainTable(
        "Response times by class and attribute", columns, rows, empty="no management requests", more=max(len(kinds) - MOST, 0)
    )


def troubles(conversations: list[Conversation], named: Callable[[str], str] = str) -> PlainTable:
    """What was sent again, lost or refused, by conversation."""
    found = [one for one in conversations if one.repeated or one.missing or one.naks or one.not_ready]
    found.sort(key=lambda one: -(one.repeated + one.missing + one.naks + one.not_ready))
    rows = []
    for one in found[:MOST]:
        row = {"pair": _pair(one, named), "packets": number(one.total), "share": f"{one.repeated / one.total:.2%}"}
        counts = (("repeated", one.repeated), ("missing", one.missing), ("naks", one.naks), ("not_ready", one.not_ready))
        rows.append(row | {key: number(value) for key, value in counts if value})
    columns = (
        Heading("pair", "Conversation", 64, "left"), Heading("packets", "Packets", 10),
        Heading("repeated", "Repeated", 9), Heading("share", "of all", 7, rank=2), Heading("missing", "Missing", 8),
        Heading("naks", "NAKs", 6), Heading("not_ready", "RNR NAKs", 8, rank=1),
    )  # fmt: skip
    quiet = "nothing was sent again, lost or refused" if conversations else "no data packets"
    return PlainTable("Retransmissions, losses and NAKs", columns, rows, empty=quiet, more=max(len(found) - MOST, 0))


def _open(app: TuiApp, shot: Snapshot) -> None:
    app.push_screen(StatisticsScreen(shot, app.model.findings.ranks(), app.model.catalog, app.main.packets.address))


COMMAND = Command("s", "Statistics", lambda app: app.with_snapshot(partial(_open, app)), "Look", "statistics", "statistics", 10)
