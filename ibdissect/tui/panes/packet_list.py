"""The packet list: one line per frame; only visible frames are dissected, so there may be any number."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.timer import Timer

from ibdissect.dissect.named_values import ANSWER_NAMES
from ibdissect.screen_model import packet_columns
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel, PacketLine
from ibdissect.screen_model.packet_columns import BY_KEY, GUTTER, NARROWEST, ListColumn, TimeFormat
from ibdissect.screen_model.shown_frames import Rows, SortedRows
from ibdissect.screen_model.shown_names import ShownNames

from ..messages import FrameSelected, Sized, SortWanted
from ..widgets.cells import cut, cut_at, fit, width_of
from ..widgets.line_list import LineList
from .packet_inks import PacketInks

if TYPE_CHECKING:
    from ibdissect.subnet.node_names import NodeNames

OF_LIST = {*ANSWER_NAMES, packet_columns.DELTA_CAPTURED.field}
"""Fields whose values are not read from the packets."""
ENDS = ("source", "destination")
PLAIN_ADDRESS = re.compile(r"[0-9a-f.:]+")
PAGE = 64
"""Rows dissected together."""
REST = 0.03
"""Seconds the cursor must rest before tree and bytes follow, so that a held key stays smooth."""


class PacketList(LineList):
    """Lines of the displayed frames; the columns are those of `screen_model.packet_columns`."""

    empty = "No frames yet."
    headed = True

    def __init__(self, model: CaptureModel, study: BackgroundAnalysis) -> None:
        super().__init__(id="packets")
        self.model, self.repeated = model, study.repeated.__contains__
        self.rows: Rows = model.rows
        self.time_format = TimeFormat.RELATIVE
        self.columns: list[ListColumn] = [BY_KEY[key] for key in packet_columns.DEFAULT]
        self.study = study
        self.names = ShownNames(model, study)
        self._names: NodeNames | None = None
        self.highlight = ""
        """A text, case-folded, that is marked wherever it appears in the list."""
        self.reference_ns = 0
        """Time that relative times count from; 0: the first frame."""
        self.shift_ns = 0
        """What is added to times of day, and to nothing else."""
        self.chosen: dict[str, int] = {}
        """Widths of columns that the user chose."""
        self.inks = PacketInks(model, self.repeated)
        self.given: dict[str, int] = {}
        self.aside = 0
        """Characters of Info that are left of what is shown."""
        self._wanted: dict[str, int] = {}
        self._pages: LRUCache[int, list[PacketLine]] = LRUCache(64)
        self._extra: dict[int, dict[str, str]] = {}
        self._pulled = ""
        """The column that the mouse is resizing."""
        self._was_pulled = False
        """Whether the last press of the mouse was at the end of a column."""
        self.clicked_column: ListColumn | None = None
        """The column of the cell that was clicked last."""
        self.held = 0
        """Frames of a growing capture that are shown, as long as its later ones are not; 0: all are."""
        self._resting: Timer | None = None
        self._posted = 0
        self._laid_out_for = 0
        """Width that the columns were measured for; a scroll bar reduces it."""

    def count(self) -> int:
        return self.rows.up_to(self.held) if self.held else len(self.rows)

    @property
    def frame(self) -> int:
        """The frame at the cursor, 0 when nothing is shown."""
        return self.rows.frame(self.cursor) if self.cursor < len(self.rows) else 0

    # -- what is shown

    def show_rows(self, rows: Rows, frame: int) -> None:
        """Show other rows, with the cursor on `frame` or the nearest."""
        self.rows = rows
        self.forget()
        self.cursor = rows.nearest(frame)
        self.resize_lines(self.count())
        self.select(self.cursor, tell=False, center=True)
        self.tell()

    def grew(self) -> None:
        """There are more rows than before."""
        before = self.total
        self.resize_lines(self.count())
        last = before // PAGE
        if last in self._pages and len(self._pages[last]) < PAGE:
            self._pages.discard(last)
        if before < self.scroll_offset.y + self.page_size:
            self.refresh()
        if not self._posted and len(self.rows):
            self.tell()

    def forget(self) -> None:
        """Dissect again what is shown: columns, keys or rows changed."""
        self._pages.clear()
        self._extra.clear()
        self.inks.forget()
        self.renew()

    def move_aside(self, by: int) -> None:
        """Show what stands further right (or left, below 0) in Info."""
        self.aside = max(self.aside + by, 0)
        self.redraw()

    def redraw(self) -> None:
        self.inks.forget()  # what is known of a frame may be more than before
        super().redraw()

    def set_columns(self, chosen: list[ListColumn]) -> None:
        self.columns = chosen
        self._wanted.clear()
        self.forget()
        self._lay_out()

    def toggle_names(self) -> None:
        """Names of ports for their addresses, or addresses again."""
        self.names.wanted = not self.names.wanted
        self._wanted.clear()
        self.forget()
        self._lay_out()

    def learn_names(self) -> None:
        """Dissect again if the names of nodes have changed."""
        if self._names is not self.study.names:
            self._names = self.study.names
            if self.names.wanted:
                self.forget()

    def next_time_format(self) -> TimeFormat:
        """The next way to write times."""
        order = list(TimeFormat)
        self.time_format = order[(order.index(self.time_format) + 1) % len(order)]
        self.show_times()
        return self.time_format

    def show_times(self) -> None:
        """Times are written in another way."""
        self._wanted.pop("time", None)
        self.renew()
        self._lay_out()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self._measure(self._page(int(self.scroll_offset.y) // PAGE))
        self._laid_out_for = self.line_width
        self.given = packet_columns.widths(self.columns, self._wanted, self._laid_out_for, self.chosen)
        self.renew()

    def _measure(self, lines: list[PacketLine]) -> bool:
        """Remember the widest texts; True when a column needs more than it had."""
        grown = False
        digits = len(str(max(self.model.index.frames, 1)))
        for key, width in (
            ("number", digits),
            ("time", max((width_of(self._time(i, line)) for i, line in enumerate(lines[:1] + lines[-1:])), default=0)),
            ("source", max((width_of(line.source) for line in lines), default=0)),
            ("destination", max((width_of(line.destination) for line in lines), default=0)),
            ("protocol", max((len(line.protocol) for line in lines), default=0)),
            *((column.key, max((width_of(self._extra.get(line.frame, {}).get(column.field, "")) for line in lines), default=0))
              for column in self.columns if column.field),
        ):  # fmt: skip
            if width > self._wanted.get(key, 0):
                self._wanted[key], grown = width, True
        return grown

    def _page(self, number: int) -> list[PacketLine]:
        page = self._pages.get(number)
        if page is None:
            shown, frames = self.rows.frames(number * PAGE, (number + 1) * PAGE), self._frames(number)
            page = self.names.of_packets(self.model.lines(frames))
            if shown != frames:
                by_frame = {line.frame: line for line in page}
                page = [by_frame[frame] for frame in shown]
            self._pages[number] = page
            fields = [column.field for column in self.columns if column.field and column.field not in OF_LIST]
            if fields and frames:
                self._extra.update(self.model.fields(frames, fields))
            if page and self._measure(page):
                self.call_later(self._lay_out)
        return page

    def _frames(self, page: int) -> list[int]:
        return sorted(self.rows.frames(page * PAGE, (page + 1) * PAGE))

    def line(self, row: int) -> PacketLine | None:
        page = self._page(row // PAGE)
        place = row % PAGE
        return page[place] if place < len(page) else None

    def _time(self, row: int, line: PacketLine) -> str:
        if self.time_format in (TimeFormat.DELTA, TimeFormat.CAPTURED):
            return self._delta(row, line, shown=self.time_format is TimeFormat.DELTA)
        return packet_columns.time_text(line, self.time_format, self.reference_ns or self.model.first_ns, self.shift_ns)

    def _delta(self, row: int, line: PacketLine, *, shown: bool) -> str:
        """The time since the frame before: the one shown, or the one captured."""
        before = (self.rows.frame(row - 1) if row else 0) if shown else line.frame - 1
        return packet_columns.seconds_text(line.time_ns - self.model.index.time_ns(before) if before else 0)

    def parts(self, index: int, width: int) -> list[Segment]:
        line = self.line(index)
        if line is None:
            return []
        if width != self._laid_out_for:
            self._laid_out_for = width
            self.call_later(self._lay_out)
        frame = line.frame
        worst = self.model.findings.worst(frame)
        name = self.inks.of(line, index // PAGE, self._frames)
        tint = self.ink(name) if name is not None else None
        dim = self.ink("dim")
        marked = frame in self.model.marked
        segments = [
            Segment("●" if marked else " ", self.ink("marked")),
            Segment(f"{worst.sign if worst else ' '} ", self.ink(worst.value) if worst else None),
            Segment("#" if self.model.reader.comments.get(frame) and not self.model.numbers else " ", self.ink("accent")),
        ]
        for column in self.columns:
            given = self.given.get(column.key)
            if given is None:
                continue
            text = self._text(index, line, column)
            if column.key == "time" and self.time_format in packet_columns.DATED and width_of(text) > given:
                text = text.partition(" ")[2]  # no room for the date
            if column.key == "info" and self.aside:
                text = "‹" + text[self.aside + 1 :]
            quiet = column.key in ("number", "time", "length", "p_key")
            limited = column.key == "p_key" and line.p_key is not None and not line.p_key & 0x8000
            style = self.ink("strong") if limited or (marked and column.key == "number") else dim if quiet else tint
            if column.key in ENDS and PLAIN_ADDRESS.fullmatch(text):
                text = cut_at(text, given, given // 2)  # addresses of a network differ at their end
            segments += self._marked(fit(text, given, column.align), style)
            segments.append(Segment("  "))
        return segments

    def _marked(self, text: str, style: Style | None) -> list[Segment]:
        at = text.casefold().find(self.highlight) if self.highlight else -1
        if at < 0:
            return [Segment(text, style)]
        end = at + len(self.highlight)
        return [Segment(text[:at], style), Segment(text[at:end], self.ink("bits")), Segment(text[end:], style)]

    def _text(self, row: int, line: PacketLine, column: ListColumn) -> str:
        key = column.key
        if column.field in ANSWER_NAMES:  # asked anew each time: the answer may come later
            return self.model.answer_text(line.frame, column.field)
        if column in (packet_columns.DELTA_CAPTURED, packet_columns.DELTA_SHOWN):
            return self._delta(row, line, shown=column is packet_columns.DELTA_SHOWN)
        if column is packet_columns.DELTA_CONVERSATION:
            before = self.study.before.of(line.frame)
            return packet_columns.seconds_text(line.time_ns - self.model.index.time_ns(before)) if before else ""
        if column.field:
            return self._extra.get(line.frame, {}).get(column.field, "")
        if key == "number":
            return str(line.frame)
        if key == "time":
            return self._time(row, line)
        if key == "p_key":
            return "" if line.p_key is None else f"{line.p_key:04x}"
        if key == "length":
            return str(line.length)
        if key == "info" and self.repeated(line.frame):
            return f"[repeated PSN] {line.info}"
        return str(getattr(line, key))

    def cells(self, row: int) -> list[str]:
        """The texts of a row in all columns, also in those without room."""
        line = self.line(row)
        return [self._text(row, line, column) for column in self.columns] if line is not None else []

    # -- widths of columns, at their right ends in the heading

    def _end_at(self, x: int) -> str:
        """The column that ends at a cell of the heading; empty for none."""
        at = GUTTER
        for key, width in self.given.items():
            at += width + 2
            if at - 2 <= x < at and key != "info":
                return key
        return ""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pulled = self._end_at(event.x) if not event.y else ""
        self._was_pulled = bool(self._pulled)
        if self._pulled:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pulled:
            start = GUTTER + sum(self.given[key] + 2 for key in itertools.takewhile(lambda key: key != self._pulled, self.given))
            self.widen(self._pulled, event.x - start)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._pulled:
            self.release_mouse()
            if self._pulled in self.chosen:
                self.post_message(Sized(f"width {self._pulled}", self.chosen[self._pulled]))
            self._pulled = ""

    def widen(self, key: str, cells: int) -> None:
        """Set the width of a column."""
        self.chosen[key] = max(NARROWEST, min(cells, self.line_width // 2))
        self._lay_out()

    # -- the cursor

    def moved(self) -> None:
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(REST, self.tell)

    def tell(self) -> None:
        """Post the frame at the cursor."""
        if self._resting is not None:
            self._resting.stop()
        self._posted = self.frame
        if self._posted:
            self.post_message(FrameSelected(self._posted))

    def choose(self) -> None:
        self.tell()

    @property
    def head(self) -> str:
        cells = [fit(self._title(column), self.given[column.key], column.align) for column in self.columns if column.key in self.given]
        return " " * GUTTER + "  ".join(cells)

    def _title(self, column: ListColumn) -> str:
        """The title, with a sign for the column that the list is sorted by; the last one also says how many have no room."""
        rows, room = self.rows, self.given[column.key]
        title = column.title
        if isinstance(rows, SortedRows) and rows.key == column.key:
            title = cut(title, room - 1) + ("▾" if rows.down else "▴")
        if column.key == "info" and (missing := len(self.no_room)):
            title += f" +{missing} hidden".rjust(room - width_of(title))
        return title

    @property
    def no_room(self) -> list[ListColumn]:
        """The columns that are wanted, but not shown; P_Key and Len, which go without being missed, are none."""
        return [column for column in self.columns if column.key not in self.given and column.drop <= BY_KEY["time"].drop]

    @property
    def sorted_by(self) -> str:
        """The title of the column that the list is sorted by, with its sign; empty in the order of the capture."""
        rows = self.rows
        if not isinstance(rows, SortedRows):
            return ""
        title = next((column.title for column in self.columns if column.key == rows.key), rows.key)
        return f"{title} {'▾' if rows.down else '▴'}"

    def column_at(self, x: int) -> ListColumn | None:
        """The column at a cell of a line."""
        at = GUTTER
        for key, width in self.given.items():
            if at <= x < at + width:
                return next(column for column in self.columns if column.key == key)
            at += width + 2
        return None

    async def on_click(self, event: events.Click) -> None:
        """A click on a heading sorts by it: the lowest first, then the highest, then by time again."""
        if event.y:
            self.clicked_column = self.column_at(event.x)
            await super().on_click(event)
        elif not self._was_pulled and event.button == 1 and (column := self.column_at(event.x)) is not None:
            self.post_message(SortWanted(column.key))
