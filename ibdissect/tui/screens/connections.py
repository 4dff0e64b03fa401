"""The connections, the worst first: which failed or were slow, why, since when, and where their time went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct as Record
from rich.segment import Segment
from textual import events
from textual.binding import Binding

from ibdissect.diagnosis.connection import Connection, ConnectionEnd, Diagnosis, SharedCause
from ibdissect.diagnosis.text import counts_text, dated, span_text, worst_first
from ibdissect.diagnosis.time_bars import cost
from ibdissect.screen_model.connections import CapturedInterface, connection_filter, diagnosed, points_of, slice_filter
from ibdissect.screen_model.number_text import duration, number, octets
from ibdissect.wire.text import counted, printable

from ..keys.command import Command
from ..widgets.cells import line_of
from ..widgets.connection_lines import LEFT, LEGEND, SHORT_LEGEND, ConnectionLine, bar, told, verdict, wrapped
from ..widgets.line_list import LineList
from ..widgets.table import ADDRESS, Cell, Heading, Table, address_heading
from .ladder import draw
from .overlay import Overlay

if TYPE_CHECKING:
    from ..app import TuiApp

BAR = 26
"""Least cells of a bar, as long as other columns can be left out."""
SHARED = 4
"""Lines of common causes that are visible at once."""


class Chosen(Record):
    """What the screen returns."""

    one: Connection
    part: str | None = None
    """Show the frames of this part of its time; None: all of it."""
    frame: int | None = None
    """Go to this frame."""
    ladder: bool = False
    """Draw its ladder."""


class SharedList(LineList):
    """What limits the answers, and causes that several connections have in common; choosing one goes to the first of these."""

    def __init__(self, notes: Sequence[str], shared: Sequence[SharedCause], members: Sequence[Connection], start_ns: int) -> None:
        """`members`: the connections that `shared` counts."""
        super().__init__(id="shared")
        self.members = members
        self.said = [*((f"note: {note}", None) for note in notes), *((_shared(one, start_ns), one) for one in shared)]
        self.lines: list[tuple[str, SharedCause | None]] = self.said

    def lay_out(self, width: int) -> None:
        """Wrap for a width."""
        self.lines = [(line, one) for text, one in self.said for line in wrapped(text, width, "  ")]
        self.renew()

    def parts(self, index: int, width: int) -> list[Segment]:
        text, one = self.lines[index]
        return line_of(((" " * LEFT, None), (text, self.ink("strong" if one is not None else "warning"))), width)

    def choose(self) -> None:
        _, one = self.lines[self.cursor]
        table = self.screen.query_one(ConnectionsView)
        wanted = {id(self.members[i]) for i in one.members} if one is not None else set()
        for line, place in enumerate(table.order):
            if id(table.items[place]) in wanted:
                table.select(line, center=True)
                table.focus()
                return


def _shared(one: SharedCause, start_ns: int) -> str:
    return dated(span_text(start_ns, one.since_ns, one.until_ns), one.why)


class ConnectionsView(Table[Connection]):
    """The connections; behind the columns the time of each by its parts."""

    empty = "No connections: no packets between queue pairs, and nobody asked for any."
    least_rest = BAR

    def __init__(
        self,
        connections: Sequence[Connection],
        start_ns: int,
        name: Callable[[str], str] = str,
        points: Mapping[int, CapturedInterface] | None = None,
    ) -> None:
        """`points`: where connections of a merged capture were captured, by their first frames."""
        super().__init__(connections, id="told")
        self.part: str | None = None
        """The part of a bar that was clicked."""
        cause = max((len(verdict(one)[1]) for one in connections), default=0)
        points = points or {}
        where = min(max(max((len(point.name) for point in points.values()), default=0), 5), ADDRESS[0])
        at: Heading[Connection] = Heading("Point", where, lambda one: (printable(_point(points, one)), ""), "left")
        asked, other = (_ends(connections, side, title, name) for side, title in enumerate(("Asked by", "Other end")))
        alike = len({(asked.cell(one)[0], other.cell(one)[0]) for one in connections}) < len(connections)
        self.rest_rank = int(alike)  # a queue pair tells rows apart; the bar is shorter then, rather than the time lost missing
        self.columns = [
            Heading("", 1, lambda one: (verdict(one)[0], verdict(one)[2]), "left"),
            Heading("Cause", max(cause, 5), lambda one: verdict(one)[1:], "left"),
            *([at] if points else []),
            asked, Heading("QP", 8, lambda one: _qp(one.ends[0]), "left", 6),
            other, Heading("QP", 8, lambda one: _qp(one.ends[1]), "left", 0 if alike else 5),
            Heading("Frame", max(len(str(len(connections))), 7), lambda one: (number(one.evidence[0] or one.first_frame), ""), rank=7),
            Heading("Since", 8, lambda one: (duration(max((one.since_ns or one.start_ns) - start_ns, 0)), ""), rank=3),
            Heading("Messages", 8, lambda one: _some(one.counts.messages, ""), rank=9),
            Heading("Payload", 8, lambda one: (octets(one.counts.payload_bytes), ""), rank=8),
            Heading("Again", 6, lambda one: _some(one.counts.packets_sent_again, "again"), rank=4),
            Heading("Lasted", 8, lambda one: (duration(one.times.span), "") if one.times is not None else NONE, rank=2),
            Heading("Lost", 8, lambda one: (duration(cost(one)), "nak") if cost(one) else NONE, rank=1),
        ]  # fmt: skip

    @property
    def rest_title(self) -> str:  # type: ignore[override]
        room = self.rest_room(self.line_width)
        return next((text for text in (LEGEND, SHORT_LEGEND) if len(text) <= room), "Time")

    def rest_parts(self, item: Connection, room: int) -> list[Segment]:
        return [Segment(text, self.ink(ink)) for _, text, ink in bar(item, room)]

    def moved(self) -> None:
        if self.chosen is not None:
            self.screen.query_one(ToldList).show(self.chosen)

    def answer(self, item: Connection) -> Chosen:
        return Chosen(item, self.part)

    def clicked(self, index: int, event: events.Click) -> None:
        """A double click on a part of a bar shows the frames of that part."""
        super().clicked(index, event)
        self.part = None
        room = self.rest_room(self.line_width)
        at = event.x - (self.line_width - 1 - room)
        for part, text, _ in bar(self.chosen, room) if self.chosen is not None else ():
            if 0 <= at < len(text):
                self.part = part
            at -= len(text)

    def action_choose(self) -> None:
        self.part = None
        super().action_choose()


def _ends(connections: Sequence[Connection], side: int, title: str, name: Callable[[str], str]) -> Heading[Connection]:
    """One end of each; the one that is to blame stands out."""
    blamed: Callable[[Connection], str] = lambda one: "nak" if one.blamed == side and not one.healthy else ""  # noqa: E731
    return address_heading(title, connections, lambda one: printable(name(one.ends[side].address)), blamed)


def _qp(end: ConnectionEnd) -> Cell:
    return (f"0x{end.qpn:06x}", "strong") if end.qpn is not None else ("?", "dim")


def _point(points: Mapping[int, CapturedInterface], one: Connection) -> str:
    point = points.get(one.first_frame)
    return point.name if point is not None else ""


NONE: Cell = "·", "dim"


def _some(count: int, ink: str) -> Cell:
    return (number(count), ink) if count else NONE


class ToldList(LineList):
    """What is said of the connection of the cursor; lines with ▸ lead to frames."""

    def __init__(self, start_ns: int, name: Callable[[str], str]) -> None:
        super().__init__(id="told-of-one")
        self.start_ns, self.name_of = start_ns, name
        self.one: Connection | None = None

    def show(self, one: Connection) -> None:
        """Tell of another connection, from its first line, with the cursor on the first one that leads to frames."""
        self.one, self.lines, self.cursor = one, [], 0
        self.lay_out()
        self.scroll_to(y=0, animate=False, immediate=True)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Wrap for the width there is. The cursor stays on its line if that leads to frames, else goes to the first that does."""
        before = sum(line.leads for line in self.lines[: self.cursor])
        self.lines = told(self.one, self.line_width, self.start_ns, self.name_of) if self.one is not None else []
        leading = [i for i, line in enumerate(self.lines) if line.leads]
        self.cursor = leading[min(before, len(leading) - 1)] if leading else 0
        self.renew()

    def parts(self, index: int, width: int) -> list[Segment]:
        line: ConnectionLine = self.lines[index]
        return line_of(((" " * LEFT, None), *((text, self.ink(ink) if ink else None) for text, ink in line.parts)), width)

    def action_move(self, step: int) -> None:
        """To the next line that leads somewhere; beyond the last of them line by line."""
        at = self.cursor + step
        further = (i for i in range(at, self.count() if step > 0 else -1, step) if self.lines[i].leads)
        self.select(next(further, at))

    def on_focus(self) -> None:
        self.call_after_refresh(self._reveal, False)

    def _reveal(self, center: bool) -> None:
        """While the table has the focus, what is said is seen from its begin."""
        if self.has_focus:
            super()._reveal(center)

    def choose(self) -> None:
        line: ConnectionLine = self.lines[self.cursor]
        if self.one is not None and line.leads:
            self.screen.dismiss(Chosen(self.one, line.part, line.frame))
        else:
            self.notify("only lines with ▸ lead to frames", markup=False)


class ConnectionScreen(Overlay[Chosen]):
    """Returns what to show of the connection that was chosen."""

    BINDINGS = [
        Binding("W", "dismiss(None)", "back"), Binding("tab", "app.focus_next", "what is said of it", priority=True),
        Binding("L", "ladder", "its ladder"),
    ]  # fmt: skip
    keys = "Enter its frames · Tab more · ▸ leads to frames · L ladder · o O sort · / search"

    def __init__(
        self, diagnosis: Diagnosis, start_ns: int, name: Callable[[str], str] = str, points: Mapping[int, CapturedInterface] | None = None,
        *, finished: bool = True,
    ) -> None:  # fmt: skip
        found = diagnosis.connections
        counts = counts_text(found)
        so_far = "" if finished else f" of the first {counted(diagnosis.frames, 'frame', ',')}"
        self.shared = SharedList(diagnosis.notes, diagnosis.shared, found, start_ns)
        self.table = ConnectionsView(worst_first(found), start_ns, name, points)
        self.of_one = ToldList(start_ns, name)
        title = f"Connections   {number(len(found))}{so_far}" + (f": {counts}" if counts else "")
        super().__init__(title, *([self.shared] if self.shared.said else []), self.table, self.of_one)

    def on_mount(self) -> None:
        self.table.focus()
        if self.table.chosen is not None:
            self.of_one.show(self.table.chosen)

    def on_resize(self, event: events.Resize) -> None:
        room = max(event.size.height - 2, 9)
        if self.shared.said:
            self.shared.lay_out(event.size.width)
        shared = min(len(self.shared.lines), SHARED, max(room // 6, 1))
        self.shared.styles.height = shared
        self.of_one.styles.height = max((room - shared) * 45 // 100, 4)

    def action_ladder(self) -> None:
        """Draw the ladder of the connection of the cursor."""
        if self.table.chosen is not None:
            self.dismiss(Chosen(self.table.chosen, ladder=True))


def _open(app: TuiApp) -> None:
    asked = app.study

    def work(wanted: Callable[[], bool]) -> None:
        finished = asked.finished
        found = diagnosed(asked, wanted)
        points = points_of(found.connections, asked.model.table)
        if wanted() and asked is app.study:
            app.call_later(show, found, points, finished)

    def show(found: Diagnosis, points: Mapping[int, CapturedInterface], finished: bool) -> None:
        screen = ConnectionScreen(found, app.model.first_ns, app.main.packets.names.address, points, finished=finished)
        app.over(screen, lambda chosen: use(app, chosen, points.get(chosen.one.first_frame)))

    app.searching.work.run(work, "connections", app.model)


def use(app: TuiApp, chosen: Chosen, point: CapturedInterface | None = None) -> None:
    """Show what was chosen; `point`: as captured there only."""
    one = chosen.one
    if chosen.frame is not None:
        app.jump(chosen.frame)
    elif chosen.ladder:
        draw(app, connection_filter(one, point), one.evidence[0] or one.first_frame, lambda: one)
    else:
        whole = connection_filter(one, point), one.evidence[0]
        text, frame = slice_filter(one, chosen.part, app.model, point) if chosen.part is not None else whole
        app.filtering.enter(text)
        app.filtering.stay_at(frame or one.first_frame)


COMMAND = Command(
    "W", "Connections: what failed, and why", _open, "Look", "connections: what failed or was slow, why, and where the time went", "why", 13
)
