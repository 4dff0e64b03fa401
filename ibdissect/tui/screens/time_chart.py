"""The time chart: packets or bytes over time, several filters at once; a cursor, zoom, and a brush that makes a time filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Static

from ibdissect.screen_model.number_text import duration, number, octets
from ibdissect.screen_model.threads import Latest
from ibdissect.screen_model.time_chart import Range, Series, TimeChart, ticks, time_filter
from ibdissect.wire.text import printable

from ..keys.command import Command
from ..widgets.cells import cut
from ..widgets.plots import AXIS, PlotDrawing, stacked
from .overlay import Overlay
from .prompt import Prompt

if TYPE_CHECKING:
    from ..app import TuiApp

MOST = 4
"""Series that are drawn at once."""
ZOOM = 2


class Chart(PlotDrawing):
    """The curves, one below the other, above the axis."""

    can_focus = True

    def __init__(self, chart: TimeChart) -> None:
        super().__init__(id="time-chart")
        self.chart = chart
        self.shown: Range = (0, chart.span)
        self.whole, self.measure = True, "packets"
        """Whether all of the capture is shown, as it grows; what is drawn, one of `TimeChart.measures`."""
        self.cursor, self.brush = 0, -1
        """Columns; -1: no brush."""
        self.step, self.counts = 1, [[0]]

    @property
    def columns(self) -> int:
        """Cells of a curve."""
        return max(self.size.width - AXIS - 2, 1)

    def renew(self) -> None:
        """Count again: the range, the size or the capture changed."""
        if self.whole:
            self.shown = (0, self.chart.span)
        self.step, self.counts = self.chart.counts(self.shown, self.columns, self.measure)
        self.cursor = max(0, min(self.cursor, len(self.counts[0]) - 1 if self.counts else 0))
        self.refresh()

    def range_of(self, first: int, last: int) -> Range:
        """The time of some columns."""
        return self.shown[0] + first * self.step, min(self.shown[0] + (last + 1) * self.step, self.shown[1])

    @property
    def selected(self) -> Range:
        """The time under the brush, or under the cursor."""
        at = self.cursor if self.brush < 0 else self.brush
        return self.range_of(min(at, self.cursor), max(at, self.cursor))

    def render(self) -> Text:
        many = max(len(self.counts), 1)
        height = max((self.size.height - 2) // many - 1, 1)
        lines = []
        for place, (series, counts) in enumerate(zip(self.chart.series, self.counts, strict=False)):
            lines += self._curve(series.text or "all frames", counts, height, "plot-two" if place % 2 else "plot")
        return Text("\n", no_wrap=True, overflow="crop").join([*lines, *self._axis()])

    def _curve(self, title: str, counts: list[int], height: int, ink: str) -> list[Text]:
        scale, top = {"packets": number, "bytes": octets, "delay": duration}[self.measure], max(counts, default=0)
        here = counts[self.cursor] if self.cursor < len(counts) else 0
        whole = f", {scale(sum(counts))} in all" if self.measure != "delay" else " since the point before"
        numbers = f"  {scale(here)} at the cursor, at most {scale(top)}{whole}"
        name = cut(f"  {printable(title)}", max(self.size.width - len(numbers) - 2, 8))
        lines = [Text.assemble((name, "bold"), (numbers, self.ink("dim")))]
        other = self.brush if self.brush >= 0 else self.cursor
        for place, cells in enumerate(stacked(counts, top, height)):
            label = scale(top) if not place else "0" if place == height - 1 else ""
            line = Text.assemble((f"{label:>{AXIS - 1}} ", self.ink("dim")), (cells, self.ink(ink)))
            line.stylize(self.ink("brush"), AXIS + min(other, self.cursor), AXIS + max(other, self.cursor) + 1)
            lines.append(line)
        return lines

    def _axis(self) -> list[Text]:
        rule, names = ["─"] * self.columns, [" "] * self.columns
        for column, text in ticks(self.shown, self.columns):
            rule[column] = "┬"
            if column + len(text) <= len(names):
                names[column : column + len(text)] = text
        return [Text(" " * AXIS + "".join(line), self.ink("dim")) for line in (rule, names)]

    def on_resize(self) -> None:
        self.renew()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.cursor, self.brush = max(0, min(int(event.x) - AXIS, len(self.counts[0]) - 1)), -1
        self.capture_mouse()
        self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if event.button and self.counts:
            self.brush = self.cursor if self.brush < 0 else self.brush
            self.cursor = max(0, min(int(event.x) - AXIS, len(self.counts[0]) - 1))
            self.refresh()

    def on_mouse_up(self) -> None:
        self.release_mouse()
        self.screen.query_one("#chart-at", Static).update(self.at())

    def at(self) -> str:
        """What is under the cursor or the brush, in words."""
        low, high = self.selected
        where = f"{low / 1e9:.9f} s to {high / 1e9:.9f} s ({duration(high - low)})"
        return f" column {where}" if self.brush < 0 else f" brush {where}, a column is {duration(self.step)}"


class TimeChartScreen(Overlay[tuple[str, int | None]]):
    """Returns a display filter for the time that was brushed, or "" and the frame to go to."""

    BINDINGS = [
        Binding("T", "dismiss(None)", "back"), Binding("left,h", "move(-1)", show=False),
        Binding("right,l", "move(1)", show=False), Binding("pageup", "move(-10)", show=False), Binding("pagedown", "move(10)", show=False),
        Binding("home", "move(-100000)", show=False), Binding("end", "move(100000)", show=False),
        Binding("shift+left", "brush(-1)", show=False), Binding("shift+right", "brush(1)", show=False),
        Binding("space", "mark", show=False),
        Binding("plus,equals_sign", "zoom(1)", show=False), Binding("minus", "zoom(-1)", show=False), Binding("0", "all", show=False),
        Binding("b", "bytes", show=False), Binding("a", "add", show=False), Binding("d", "drop", show=False),
        Binding("enter", "choose", show=False), Binding("g", "go", show=False),
    ]  # fmt: skip

    keys = "Space brush · Enter filter · g go · +-0 zoom · b bytes · a d curves"

    def __init__(self, app: TuiApp) -> None:
        super().__init__("Time chart")
        self.owner, self.work, self.before = app, Latest(), app.filtering.text
        self.chart = TimeChart(app.model)
        self.keys = self.keys.replace("bytes", self.chart.measures[-1])
        self.view = Chart(self.chart)
        self.texts = ["", *([self.before] if self.before else [])]

    def content(self) -> ComposeResult:
        yield self.view
        yield Static("", id="chart-at", markup=False)

    def on_mount(self) -> None:
        self._start()

    def on_resize(self) -> None:
        """Show the time at the cursor again."""
        self.call_after_refresh(self._say)

    def on_unmount(self) -> None:
        self.work.cancel()

    def _start(self) -> None:
        """Read all frames for the series there are now."""
        model = self.owner.model
        chart = self.view.chart = self.chart = TimeChart(model)
        chart.series = [Series(text, model.filter(text)[0]) for text in self.texts]

        def grew() -> None:
            self.owner.call_later(self._grew, chart)

        self.work.run(lambda wanted: chart.follow(wanted, grew), "chart", model)

    def _grew(self, chart: TimeChart) -> None:
        if chart is self.chart and self.is_mounted:
            self.view.renew()
            self._say()

    def _say(self) -> None:
        model, chart = self.owner.model, self.chart
        yet = "" if chart.frames >= model.index.frames and model.complete else f" of {number(model.index.frames)} so far"
        self.query_one(".screen-title", Static).update(f" Time chart   {number(chart.frames)}{yet} frames, {duration(chart.span)}")
        self.query_one("#chart-at", Static).update(self.view.at())

    def action_move(self, step: int) -> None:
        view = self.view
        view.cursor = max(0, min(view.cursor + step, len(view.counts[0]) - 1))
        view.refresh()
        self._say()

    def action_brush(self, step: int) -> None:
        if self.view.brush < 0:
            self.view.brush = self.view.cursor
        self.action_move(step)

    def action_mark(self) -> None:
        self.view.brush = -1 if self.view.brush >= 0 else self.view.cursor
        self.action_move(0)

    def action_zoom(self, way: int) -> None:
        view = self.view
        low, high = view.selected
        if way > 0 and view.brush >= 0:
            shown = low, high
        else:
            middle, width = (low + high) // 2, view.shown[1] - view.shown[0]
            width = min(max(width // ZOOM if way > 0 else width * ZOOM, 1), self.chart.span)
            start = max(0, min(middle - width // 2, self.chart.span - width))
            shown = start, start + width
        view.whole, view.shown, view.brush = shown == (0, self.chart.span), shown, -1
        view.renew()
        view.cursor = max(0, min(((low + high) // 2 - shown[0]) // view.step, len(view.counts[0]) - 1))
        self.action_move(0)

    def action_all(self) -> None:
        self.view.whole, self.view.brush = True, -1
        self.view.renew()
        self._say()

    def action_bytes(self) -> None:
        measures = self.chart.measures
        self.view.measure = measures[(measures.index(self.view.measure) + 1) % len(measures)]
        self.view.renew()

    def action_add(self) -> None:
        model = self.owner.model

        def check(_: str, text: str) -> str | None:
            error = model.filter(text)[1]
            return str(error) if error is not None else None

        def done(answer: tuple[str, str]) -> None:
            if answer[1] not in self.texts:
                self.texts = [*self.texts[: MOST - 1], answer[1]]
                self._start()

        self.owner.over(Prompt("A curve of the frames that a filter selects", check, placeholder="infiniband.aeth.syndrome"), done)

    def action_drop(self) -> None:
        if len(self.texts) > 1:
            self.texts.pop()
            self._start()

    def action_choose(self) -> None:
        self.dismiss((time_filter(self.view.selected, self.before), None))

    def action_go(self) -> None:
        frame = self.chart.first_frame(self.view.selected)
        if frame is None:
            self.owner.note("No frame in this time")
        else:
            self.dismiss(("", frame))


def _open(app: TuiApp) -> None:
    app.over(TimeChartScreen(app), lambda answer: app.filtering.enter(answer[0]) if answer[0] else app.jump(answer[1]))


COMMAND = Command("T", "Time chart", _open, "Look", "packets and bytes over time, by filter; a brush filters by time", "chart", 15)
