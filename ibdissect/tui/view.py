"""The main screen: which panes there are, where, and what each shows as the threads get on."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.notifications import SeverityLevel
from textual.screen import Screen

from ibdissect.dissect.named import ANSWER_NAMES
from ibdissect.linting import Options
from ibdissect.wire.text import printable

from . import columns, themes, workers
from .bit_line import BitLine
from .bytes_pane import BytesPane
from .column_header import ColumnHeader
from .filter_bar import FilterBar
from .filters import checked, completions
from .find import Query
from .findings_pane import FindingsPane
from .ink import cut, number
from .key_bar import KeyBar
from .knowledge import Knowledge
from .memory import History, Memory
from .messages import ByteSelected, FrameSelected, NodeSelected
from .model import CaptureModel
from .packet_list import PacketList
from .panes import Panes
from .rows import FilteredRows
from .splitter import Splitter
from .study import Study
from .title_bar import TitleBar
from .tree_pane import TreePane

POLL = 0.1
"""Seconds between two looks at what the threads have done."""


class View(App[None]):
    """Panes and what they show; keys and further screens come with the classes that build on it."""

    CSS_PATH = "ibdissect.tcss"
    TITLE = "ibdissect"

    def __init__(
        self, model: CaptureModel, load: Callable[[], Options], *, display_filter: str = "", history: History | None = None,
        memory: Memory | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model, self.study = model, Study(model, load)
        self.history = history if history is not None else History()
        self.memory = memory if memory is not None else Memory()
        self.known = Knowledge(lambda: self.study.subnet, lambda: self.study.connections)
        self.panes = Panes()
        self.first_filter = display_filter
        # Kept here, so that the last messages of a closing application still find them.
        catalog = model.catalog
        self.title_bar = TitleBar(model, self.study)
        self.filter_bar = FilterBar(
            lambda text: checked(text, catalog, model.first_ns)[1], lambda text, cursor: completions(text, cursor, catalog), self.history
        )
        self.column_header = ColumnHeader()
        self.packets = PacketList(model, self.study.conversations.repeated.__contains__)
        self.tree_pane, self.bytes_pane = TreePane(self.known.of), BytesPane()
        self.bit_line = BitLine(self.bytes_pane)
        self.findings_pane, self.key_bar = FindingsPane(model.findings), KeyBar()
        self._recall_columns()
        self.filtering, self.searching = workers.Latest(), workers.Latest()
        self.filter_text = ""
        self.search_query: Query | None = None
        self.anchor: tuple[int, int] | None = None
        """(frame, row) to stay at while a filter is still finding frames."""
        self._asked = ""
        self._tail = False
        self._studied = 0

    def _recall_columns(self) -> None:
        """The columns of the last run; those that nobody knows any more are left out, with a note."""
        memory = self.memory
        found, unknown = columns.recalled(memory.columns, self.model.catalog)
        if found:
            self.packets.columns = found
        if unknown:
            memory.note = f"columns of the last run that are unknown now: {', '.join(map(printable, unknown[:3]))}"
        self.key_bar.note = cut(memory.note or self.history.note, 90)

    def compose(self) -> ComposeResult:
        yield self.title_bar
        yield self.filter_bar
        yield self.column_header
        yield self.packets
        yield Splitter("detail")
        with Horizontal(id="detail"):
            yield self.tree_pane
            yield Splitter("byte-side", vertical=True)
            with Vertical(id="byte-side"):
                yield self.bytes_pane
                yield self.bit_line
        yield Splitter("findings")
        yield self.findings_pane
        yield self.key_bar

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Names that the style sheet uses, for themes that lack them."""
        return themes.DEFAULTS

    def watch_theme(self, theme: str) -> None:
        self.set_class(theme == "ibdissect-contrast", "contrast")

    @property
    def main(self) -> Screen[None]:
        """The screen with the panes, whatever stands on it."""
        return self.screen_stack[0]

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Show the panes that fit or were asked for."""
        main = self.main
        shown = self.panes.shown(self.size.width, self.size.height)
        detail = shown["tree"] or shown["bytes"]
        for name, there in (
            ("#detail", detail), ("#split-detail", detail), ("#tree", shown["tree"]), ("#byte-side", shown["bytes"]),
            ("#split-byte-side", shown["tree"] and shown["bytes"]), ("#findings", shown["findings"]),
            ("#split-findings", shown["findings"]),
        ):  # fmt: skip
            main.query_one(name).display = there
        side = main.query_one("#byte-side")
        side.styles.width = "1fr" if not shown["tree"] else 76 if self.size.width >= 150 else 44
        if main.focused is None or not main.focused.display:
            self.packets.focus()

    # -- what the threads have done

    def poll(self) -> None:
        """Show what is new; nothing moves under the reader's hand."""
        packets = self.packets
        self.title_bar.update()
        rows = packets.rows
        at_end = self._tail and self.model.live and packets.cursor == packets.virtual_size.height - 1
        packets.grew()
        if self.anchor is not None:
            self._hold()
        elif at_end and len(rows) > packets.virtual_size.height - 1 > 0:
            packets.select(len(rows) - 1)
        self._tail = packets.cursor == len(rows) - 1 and len(rows) > 1
        self._say_empty(len(rows))
        self.filter_bar.say(len(rows) if self.filter_text else None, self.model.index.frames, self.filtering.busy)
        findings, before = self.findings_pane, self.model.findings.generation
        if findings._seen != before or (self.study.done != self._studied and any(c.field in ANSWER_NAMES for c in packets.columns)):
            packets.redraw()
        self._studied = self.study.done
        done = f"No findings: {number(self.study.done)} frames checked with {len(self.study.rules)} rules."
        findings.update(done if self.study.finished else "Looking for findings…")

    def _hold(self) -> None:
        """While a filter works, stay at the frame that was selected."""
        assert self.anchor is not None
        frame, row = self.anchor
        packets, rows = self.packets, self.packets.rows
        if packets.cursor != row:
            self.anchor = None
            return
        nearest = rows.nearest(frame)
        if nearest != row:
            packets.select(nearest, center=True)
            self.anchor = (frame, packets.cursor)
        if isinstance(rows, FilteredRows) and (rows.checked >= frame or not self.filtering.busy):
            self.anchor = None
            packets.tell()

    def _say_empty(self, count: int) -> None:
        if count:
            return
        if self.filter_text:
            text = "Filtering…" if self.filtering.busy else "No frame matches this filter. Press / to change it."
        elif self.model.error:
            text = self.model.error
        else:
            text = "Waiting for frames…" if not self.model.complete else "The capture holds no frames."
        if self.packets.empty != text:
            self.packets.empty = text
            self.packets.refresh()

    def on_packet_list_laid_out(self) -> None:
        self.column_header.show(self.packets.header)

    def on_frame_selected(self, message: FrameSelected) -> None:
        frame = message.frame
        tree = self.model.tree(frame)
        self.bytes_pane.show_tree(tree)
        self.tree_pane.show_tree(tree, self.model.findings.of_frame(frame))

    def on_node_selected(self, message: NodeSelected) -> None:
        self.bytes_pane.show_node(message.node)
        self.bit_line.refresh()

    def on_byte_selected(self, message: ByteSelected) -> None:
        self.tree_pane.reveal(message.byte)

    def warn(self, text: str) -> None:
        """Say what went wrong."""
        self.notify(text, severity="error", markup=False)

    def notify(
        self, message: str, *, title: str = "", severity: SeverityLevel = "information", timeout: float | None = None, markup: bool = True
    ) -> None:
        """Show a note; what a path, a filter or an error put into it cannot steer the terminal. Markup is for Textual's own notes."""
        super().notify(printable(message), title=printable(title), severity=severity, timeout=timeout, markup=markup)

    def _fatal_error(self) -> None:
        """Say where it failed and why. Textual would show the local variables, too: bytes of frames, keys among them."""
        self.panic(Text("\n".join(map(printable, traceback.format_exc().split("\n")))))

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text as it is read: pasted into a shell, a name from a capture must not press Enter."""
        super().copy_to_clipboard(printable(text))
