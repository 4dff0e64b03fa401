"""The main screen: which panes there are, where, and what each shows as the threads get on."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from ibdissect.dfilter.complete import complete
from ibdissect.dissect.tree import Node
from ibdissect.lint.rule import Rule

from . import themes, workers
from .bit_line import BitLine
from .bytes_pane import BytesPane
from .column_header import ColumnHeader
from .filter_bar import FilterBar
from .filters import History, checked
from .find import Query
from .findings_pane import FindingsPane
from .ink import number
from .key_bar import KeyBar
from .messages import ByteSelected, FrameSelected, NodeSelected
from .model import CaptureModel
from .packet_list import PacketList
from .pages import rules_by_code
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
        self, model: CaptureModel, rules: Sequence[type[Rule]], *, display_filter: str = "", history: History | None = None
    ) -> None:
        super().__init__()
        self.model, self.rules = model, rules_by_code(rules)
        self.study = Study(model, rules)
        self.history = history if history is not None else History()
        self.panes = Panes()
        self.first_filter = display_filter
        self.filtering, self.searching = workers.Latest(), workers.Latest()
        self.filter_text = ""
        self.search_query: Query | None = None
        self.anchor: tuple[int, int] | None = None
        """(frame, row) to stay at while a filter is still finding frames."""
        self._asked = ""
        self._tail = False

    def compose(self) -> ComposeResult:
        yield TitleBar(self.model, self.study)
        yield FilterBar(
            lambda text: checked(text, self.model.catalog, self.model.first_ns)[1],
            lambda text, cursor: complete(text, cursor, self.model.catalog),
            self.history,
        )
        yield ColumnHeader()
        yield PacketList(self.model, self.study.conversations.repeated.__contains__)
        yield Splitter("detail")
        with Horizontal(id="detail"):
            yield TreePane(self.knowledge)
            yield Splitter("byte-side", vertical=True)
            with Vertical(id="byte-side"):
                pane = BytesPane()
                yield pane
                yield BitLine(pane)
        yield Splitter("findings")
        yield FindingsPane(self.model.findings)
        yield KeyBar()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Names that the style sheet uses, for themes that lack them."""
        return themes.DEFAULTS

    def watch_theme(self, theme: str) -> None:
        self.set_class(theme == "ibdissect-contrast", "contrast")

    @property
    def main(self) -> Screen[None]:
        """The screen with the panes, whatever stands on it."""
        return self.screen_stack[0]

    @property
    def packets(self) -> PacketList:
        """The packet list."""
        return self.main.query_one(PacketList)

    @property
    def tree_pane(self) -> TreePane:
        """The decode tree."""
        return self.main.query_one(TreePane)

    @property
    def filter_bar(self) -> FilterBar:
        """The filter bar."""
        return self.main.query_one(FilterBar)

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
        if not self.screen_stack or not self.main.query(KeyBar):
            return  # the last tick of an application that is closing
        main = self.main
        packets = self.packets
        main.query_one(TitleBar).update()
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
        findings, before = main.query_one(FindingsPane), self.model.findings.generation
        if findings._seen != before:
            packets.redraw()
        done = f"No findings: {number(self.study.done)} frames checked with {len(self.rules)} rules."
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

    def knowledge(self, node: Node, frame: int) -> str:
        """What the capture taught about a field's value."""
        if node.name not in ("infiniband.lrh.slid", "infiniband.lrh.dlid") or not isinstance(node.value, int):
            return ""
        name, since = self.study.owner(node.value, frame)
        return f"{name}, learnt in frame {since}" if name else ""

    def on_packet_list_laid_out(self) -> None:
        self.main.query_one(ColumnHeader).show(self.packets.header)

    def on_frame_selected(self, message: FrameSelected) -> None:
        frame = message.frame
        tree = self.model.tree(frame)
        self.main.query_one(BytesPane).show_tree(tree)
        self.tree_pane.show_tree(tree, self.model.findings.of_frame(frame))

    def on_node_selected(self, message: NodeSelected) -> None:
        self.main.query_one(BytesPane).show_node(message.node)
        self.main.query_one(BitLine).refresh()

    def on_byte_selected(self, message: ByteSelected) -> None:
        self.tree_pane.reveal(message.byte)

    def warn(self, text: str) -> None:
        """Say what went wrong."""
        self.notify(text, severity="error", markup=False)
