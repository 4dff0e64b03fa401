"""The statistics: packets and bytes over time with the findings on the time line, who talks of what, how fast, and what was lost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ibdissect.dissect.summary_mad import attribute_name
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.mad import method_name

from .exchanges import FASTEST, OCTAVES, Exchange, Kind, octaves
from .heads import Head
from .ink import BLOCKS, duration, fit, number, octets, squeeze
from .plain_table import PlainTable
from .study import Snapshot
from .talks import Talk

AXIS = 10
"""Cells left of a plot for its scale."""
SHOWN = 12
"""Bars of one kind."""
MOST = 30
"""Rows of a table."""


class Plot(Widget):
    """Columns over time, `height` lines high, with a scale on the left and marks below."""

    COMPONENT_CLASSES = {"plot--bar", "plot--two", "plot--dim", "plot--mark"}

    def __init__(self, title: str, values: list[int], unit: str, *, two: bool = False, marks: list[int] | None = None) -> None:
        super().__init__(classes="plot")
        self.heading, self.values, self.unit, self.two, self.marks = title, values, unit, two, marks

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"plot--{name}", partial=True)

    def render(self) -> Text:
        width, height = max(self.size.width - AXIS - 2, 1), max(self.size.height - 1 - (self.marks is not None), 1)
        ink = self._ink
        points = squeeze(self.values, width)
        top = max(points, default=0) or 1
        scale = octets if self.unit == "bytes" else lambda value: number(round(value))
        lines = [Text.assemble((f"{self.heading:>{AXIS}}", "bold"), (f"  at most {scale(top)} a column", ink("dim")))]
        bar = ink("two" if self.two else "bar")
        for row in range(height - 1, -1, -1):
            label = scale(top) if row == height - 1 else "0" if row == 0 else ""
            cells = "".join(BLOCKS[max(min(round((value / top * height - row) * 8), 8), 1 if value and not row else 0)] for value in points)
            lines.append(Text.assemble((f"{label:>{AXIS - 1}} ", ink("dim")), (cells, bar)))
        if self.marks is not None:
            found = squeeze(self.marks, width)
            cells = "".join("▲" if value else "─" for value in found)
            marks = [(cell, ink("mark" if cell == "▲" else "dim")) for cell in cells]
            lines.append(Text.assemble((f"{'findings':>{AXIS - 1}} ", ink("dim")), *marks))
        return Text("\n").join(lines)


class Axis(Widget):
    """The time line below the plots."""

    def __init__(self, span: str) -> None:
        super().__init__(classes="plot-axis")
        self.span = span

    def render(self) -> Text:
        room = max(self.size.width - AXIS - 2 - len(self.span) - 3, 1)
        return Text(f"{'time':>{AXIS - 1}} 0 {'─' * room} {self.span}", no_wrap=True, overflow="crop")


class Bars(Widget):
    """Names with their counts as bars, the biggest first."""

    COMPONENT_CLASSES = {"plot--bar", "plot--two", "plot--dim", "plot--mark"}

    def __init__(self, title: str, entries: Sequence[tuple[str, int]], *, two: bool = False, empty: str = "none") -> None:
        super().__init__(classes="bars")
        self.heading, self.entries, self.two, self.empty = title, entries, two, empty
        self.total = sum(count for _, count in entries)

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"plot--{name}", partial=True)

    def render(self) -> Text:
        width = max(self.size.width - 2, 10)
        ink = self._ink
        lines = [Text(f" {self.heading}", "bold")]
        if not self.entries:
            lines.append(Text(f" {self.empty}", ink("dim")))
        shown = list(self.entries[:SHOWN])
        if len(self.entries) > SHOWN:
            rest = self.entries[SHOWN - 1 :]
            shown = [*self.entries[: SHOWN - 1], (f"{len(rest)} more", sum(count for _, count in rest))]
        label = min(max((len(name) for name, _ in shown), default=0), max(width // 2 - 6, 8))
        top = max((count for _, count in shown), default=0) or 1
        room = max(width - label - 19, 3)
        for name, count in shown:
            eighths = round(count / top * room * 8)
            bar = "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8] or "▏"
            share = f"{count / self.total:.1%}" if self.total else ""
            numbers = (f"{number(count):>9} {share:>6} ", ink("dim"))
            lines.append(Text.assemble(f" {fit(name, label)} ", numbers, (bar, ink("two" if self.two else "bar"))))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)


class StatisticsScreen(Screen[None]):
    """Numbers of the frames studied so far."""

    BINDINGS = [Binding("escape,q,s", "dismiss(None)", "back")]

    def __init__(self, snapshot: Snapshot, findings: list[int], catalog: Catalog) -> None:
        super().__init__()
        self.snapshot, self.findings, self.catalog = snapshot, findings, catalog

    def compose(self) -> ComposeResult:
        shot = self.snapshot
        tally, line = shot.tally, shot.tally.line
        used = max(line.used, 1)
        marks = [0] * used
        for time_ns in self.findings:
            marks[min(line.bucket(time_ns), used - 1)] += 1
        span = duration(used * line.step_ns)
        yield Static(f" Statistics   {number(tally.frames)} frames, {octets(tally.octets)}, {span}", classes="screen-title", markup=False)
        with VerticalScroll(id="statistics"):
            with Vertical(id="plots"):
                yield Plot("Packets", line.packets[:used].tolist(), "packets", marks=marks)
                yield Plot("Bytes", line.octets[:used].tolist(), "bytes", two=True)
                yield Axis(span)
            with Horizontal(classes="bar-row"):
                yield Bars("OpCodes", tally.opcode_mix(), empty="no InfiniBand transport")
                yield Bars("Management classes", tally.class_mix(), two=True, empty="no management datagrams")
            with Horizontal(classes="bar-row"):
                yield Bars("Partitions", tally.p_key_mix(), empty="no InfiniBand transport")
                yield Bars("Response time of management requests", _latencies(shot.kinds), two=True, empty="no request was answered")
            with Horizontal(classes="bar-row"):
                yield Bars("Top talkers (packets sent)", tally.talkers.most_common(50), empty="no addresses")
                pairs = [(_pair(talk), talk.total) for talk in shot.talks]
                yield Bars("Conversations between queue pairs (packets)", pairs, two=True, empty="no data packets")
            with Horizontal(classes="bar-row"):
                yield response_times(shot.kinds, self.catalog)
            with Horizontal(classes="bar-row"):
                yield troubles(shot.talks)
        yield Static(" ↑ ↓ scroll · Esc back", classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#statistics").focus()


def _latencies(kinds: list[tuple[Kind, Exchange]]) -> list[tuple[str, int]]:
    """Answers by how long they took, from the first octave that has any to the last; factors of four where there are many."""
    counts = [sum(column) for column in zip(*(octaves(exchange.times) for _, exchange in kinds), strict=True)]
    used = [place for place, count in enumerate(counts) if count]
    if not used:
        return []
    step = 1 if used[-1] - used[0] < 9 else 2
    first = used[0] // step * step
    places = range(first, min(used[-1] + 1, OCTAVES), step)
    return [(f"≤ {duration(1 << (FASTEST + place + step))}", sum(counts[place : place + step])) for place in places]


def _pair(talk: Talk) -> str:
    near = f" 0x{talk.near_qp:06x}" if talk.near_qp >= 0 else ""
    return f"{talk.service} {talk.near}{near} {'⇄' if talk.packets[1] else '→'} {talk.far} 0x{talk.far_qp:06x}"


def response_times(kinds: list[tuple[Kind, Exchange]], catalog: Catalog) -> PlainTable:
    """Percentiles by management class and attribute."""
    rows = []
    for (mgmt_class, method, attribute), exchange in kinds[:MOST]:
        name = f"{method_name(mgmt_class, method)}({attribute_name(catalog, mgmt_class, attribute, method)})"
        row = {"class": exchange.kind, "name": name, "answered": number(exchange.answered)}
        row |= {key: number(value) for key, value in (("none", exchange.unanswered), ("retries", exchange.retries)) if value}
        if exchange.times.count:
            row |= {f"p{share}": duration(exchange.times.percentile(share / 100)) for share in (50, 90, 99)}
            row["most"] = duration(exchange.times.most)
        rows.append(row)
    heads = (
        Head("class", "Class", 15, "left", 4), Head("name", "Request", 40, "left"), Head("answered", "Answered", 9),
        Head("none", "Unanswered", 10), Head("retries", "Retries", 7, rank=3), Head("p50", "p50", 8), Head("p90", "p90", 8, rank=2),
        Head("p99", "p99", 8), Head("most", "most", 8, rank=1),
    )  # fmt: skip
    return PlainTable("Response times by class and attribute", heads, rows, empty="no management requests", more=max(len(kinds) - MOST, 0))


def troubles(talks: list[Talk]) -> PlainTable:
    """What was sent again, lost or refused, by conversation."""
    found = [talk for talk in talks if talk.repeated or talk.missing or talk.naks or talk.not_ready]
    found.sort(key=lambda talk: -(talk.repeated + talk.missing + talk.naks + talk.not_ready))
    rows = []
    for talk in found[:MOST]:
        row = {"pair": _pair(talk), "packets": number(talk.total), "share": f"{talk.repeated / talk.total:.2%}"}
        counts = (("repeated", talk.repeated), ("missing", talk.missing), ("naks", talk.naks), ("not_ready", talk.not_ready))
        rows.append(row | {key: number(value) for key, value in counts if value})
    heads = (
        Head("pair", "Conversation", 64, "left"), Head("packets", "Packets", 10), Head("repeated", "Repeated", 9),
        Head("share", "of all", 7, rank=2), Head("missing", "Missing", 8), Head("naks", "NAKs", 6),
        Head("not_ready", "RNR NAKs", 8, rank=1),
    )  # fmt: skip
    quiet = "nothing was sent again, lost or refused" if talks else "no data packets"
    return PlainTable("Retransmissions, losses and NAKs", heads, rows, empty=quiet, more=max(len(found) - MOST, 0))
