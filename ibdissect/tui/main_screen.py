"""The main screen: its panes, their layout, and their updates while the capture is read and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from ibdissect.dissect.named_values import ANSWER_NAMES
from ibdissect.dissect.tree import Tree
from ibdissect.screen_model import packet_columns
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.field_notes import FieldNotes
from ibdissect.screen_model.search import FoundPlace
from ibdissect.wire.text import counted, printable

from .keys import coloring, columns
from .messages import ByteSelected, ExplainFinding, FilterEntered, FilterLeft, FrameSelected, JumpTo, KeysWanted, NodeSelected, SortWanted
from .panes.bars import KeyBar, TitleBar
from .panes.bytes_pane import BytesPane
from .panes.filter_bar import FilterBar
from .panes.findings_pane import FindingsPane
from .panes.packet_list import PacketList
from .panes.tree_pane import TreePane
from .widgets.cells import cut
from .widgets.line import DrawnLine
from .widgets.splitter import Splitter

if TYPE_CHECKING:
    from .app import TuiApp
    from .keys.command import Command

WIDE, TALL = 100, 30
"""Least columns for the bytes beside the tree; least lines for the findings pane."""


@dataclass(slots=True)
class PaneLayout:
    """Panes that the user showed or hid; the others are shown if there is room."""

    wanted: dict[str, bool] = field(default_factory=dict)
    """Whether `bytes` and `findings` are to be there."""

    def shown(self, width: int, height: int) -> dict[str, bool]:
        """Whether tree, bytes and findings are there."""
        wide, tall = width >= WIDE, height >= TALL
        with_bytes = self.wanted.get("bytes", wide)
        with_findings = self.wanted.get("findings", tall)
        # A small screen has room for one of them beside the list.
        tree = (wide or not with_bytes) and (tall or not with_findings)
        return {"tree": tree, "bytes": with_bytes and (tall or not with_findings), "findings": with_findings}


class MainScreen(Screen[None]):
    """Packets, tree, bytes and findings; passes to the panes what is selected in another one."""

    def __init__(self, app: TuiApp, model: CaptureModel, study: BackgroundAnalysis, commands: Sequence[Command]) -> None:
        super().__init__()
        self.owner = app
        self.model, self.study = model, study
        self.layout_ = PaneLayout()
        notes = FieldNotes(lambda: study.subnet, lambda: study.connections)
        self.title_bar = TitleBar(model, study)
        self.filter_bar = FilterBar(model, app.history)
        self.packets = PacketList(model, study)
        self.tree_pane, self.bytes_pane = TreePane(notes.of, model.reader.members), BytesPane()
        self.bit_line = DrawnLine(self.bytes_pane.bit_line, id="bits")
        self.findings_pane, self.key_bar = FindingsPane(model.findings, self.packets.names.sentence), KeyBar(commands)
        self._studied = 0
        self.finding = False
        """Whether a thread looks for the frames before in each conversation."""
        self.reveal: Callable[[Tree], FoundPlace | None] | None = None
        """What to go to in the tree of the frame that is selected next."""
        self.tabs = DrawnLine(self._tabs, id="tabs")
        """The captures that are open, when there are several."""
        self.recall()

    def recall(self) -> None:
        """Apply the profile; unknown columns are left out, with a note."""
        memory, packets = self.owner.memory, self.packets
        packets.time_format = packet_columns.TimeFormat.__members__.get(memory.look.get("time", ""), packet_columns.TimeFormat.RELATIVE)
        found, unknown = packet_columns.recalled(memory.columns, self.model.catalog)
        shown = found or [packet_columns.BY_KEY[key] for key in packet_columns.DEFAULT]
        packets.columns = packet_columns.with_fields(shown, self.owner.fields, self.model.catalog)
        if self.model.delays is not None and packet_columns.POINT not in shown:
            packets.columns.insert(1, packet_columns.POINT)
        packets.chosen = {key: int(cells) for key, cells in memory.by_kind("width").items() if cells.isdecimal()}
        packets.inks.rules = None  # compiled after the first rows
        self.tree_pane.chosen_layers = {name: how == "open" for name, how in memory.by_kind("layer").items()}
        self.tree_pane.keep_layer = lambda name, wanted: self.owner.memory.keep(f"layer {name}", "open" if wanted else "closed")
        self.layout_.wanted = {pane: there == "shown" for pane, there in memory.by_kind("pane").items()}
        if unknown:
            memory.note = f"columns of the last run that are unknown now: {', '.join(map(printable, unknown[:3]))}"
        self.key_bar.note = cut(memory.note or self.owner.history.note, 90)

    def _tabs(self, _: int) -> Text:
        """A click shows the capture."""
        return Text("│").join(
            Text(f" {one.name} ", Style(reverse=one.main is self, meta={"@click": f"app.capture({i})"}))
            for i, one in enumerate(self.owner.captures)
        )  # fmt: skip

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.title_bar
        yield self.filter_bar
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

    def on_mount(self) -> None:
        self.packets.focus()

    # -- which panes are there

    def on_resize(self) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Show the panes that fit or were asked for."""
        self.tabs.display = len(self.owner.captures) > 1
        self.tabs.refresh()
        width, height = self.size
        shown = self.layout_.shown(width, height)
        for name, there in (
            ("#detail", shown["tree"] or shown["bytes"]), ("#split-detail", shown["tree"] or shown["bytes"]), ("#tree", shown["tree"]),
            ("#byte-side", shown["bytes"]), ("#split-byte-side", shown["tree"] and shown["bytes"]), ("#findings", shown["findings"]),
            ("#split-findings", shown["findings"]),
        ):  # fmt: skip
            self.query_one(name).display = there
        sizes = {pane: f"{size}%" for pane, size in self.owner.memory.by_kind("size").items() if size.isdecimal()}
        self.query_one("#byte-side").styles.width = (
            "1fr" if not shown["tree"] else sizes.get("byte-side", 76 if width >= 150 else 44)
        )  # fmt: skip
        for pane in ("detail", "findings"):
            self.query_one(f"#{pane}").styles.height = sizes.get(pane)
        if self.focused is None or not self.focused.display:
            self.packets.focus()

    def toggle(self, pane: str) -> None:
        """Show or hide `bytes` or `findings`; one that comes gets the focus."""
        wanted = not self.layout_.shown(*self.size)[pane]
        self.layout_.wanted.pop(pane, None)
        if wanted != self.layout_.shown(*self.size)[pane]:
            self.layout_.wanted[pane] = wanted
        there = self.layout_.wanted.get(pane)
        self.owner.memory.keep(f"pane {pane}", "" if there is None else "shown" if there else "hidden")
        self.lay_out()
        if wanted:
            (self.bytes_pane if pane == "bytes" else self.findings_pane).focus()

    # -- what is new

    def look(self) -> None:
        """Show what the threads have found; the selected line stays where it is."""
        packets, filtering = self.packets, self.owner.filtering
        rows, height = packets.rows, packets.total
        at_end = self.model.live and not packets.held and packets.cursor == height - 1 > 0
        packets.grew()
        packets.learn_names()
        if packets.inks.rules is None and rows:
            coloring.apply(self.owner)
        columns.find_before(self.owner)
        if not filtering.hold() and at_end and len(rows) > height:
            packets.select(len(rows) - 1)
        filtering.in_order()
        self.title_bar.update()
        total, busy = packets.held or self.model.index.frames, filtering.busy and not packets.held
        self.filter_bar.say(packets.count() if filtering.text else None, total, busy, packets.sorted_by)
        self.say_empty(packets.count(), filtering.text, busy)
        judged = self.study.done != self._studied and any(column.field in ANSWER_NAMES for column in packets.columns)
        if self.findings_pane.outdated or judged:
            packets.redraw()
            if self.tree_pane.frame_tree is not None:
                self.tree_pane.show_findings(self.model.findings.of_frame(self.tree_pane.frame_tree.frame))
        self._studied = self.study.done
        done = f"No findings: {counted(self.study.done, 'frame', ',')} checked with {counted(len(self.study.rules), 'rule')}."
        self.findings_pane.update(done if self.study.finished else "Looking for findings…")

    def say_empty(self, count: int, filter_text: str, busy: bool) -> None:
        """Say in the list why it is empty."""
        if count:
            return
        if filter_text:
            text = "Filtering…" if busy else "No frame matches this filter. Press / to change it."
        else:
            text = self.model.error or ("Waiting for frames…" if not self.model.complete else "The capture holds no frames.")
        if self.packets.empty != text:
            self.packets.empty = text
            self.packets.refresh()

    # -- what the panes say

    def catch_up(self) -> None:
        """Have tree and bytes of the frame at the cursor now: they follow it a moment later, and a command may be about their field."""
        tree, frame = self.tree_pane.frame_tree, self.packets.frame
        if frame and (tree is None or tree.frame != frame):
            self._show(frame)

    def on_frame_selected(self, message: FrameSelected) -> None:
        self._show(message.frame)

    def _show(self, frame: int) -> None:
        tree = self.model.tree(frame)
        self.bytes_pane.show_tree(tree)
        place = self.reveal(tree) if self.reveal is not None else None
        self.reveal = None
        self.tree_pane.show_tree(tree, self.model.findings.of_frame(frame), place.node if place is not None else None)
        self.bytes_pane.found = place.span if place is not None else None

    def on_node_selected(self, message: NodeSelected) -> None:
        self.bytes_pane.show_node(message.node)
        self.bit_line.refresh()

    def on_byte_selected(self, message: ByteSelected) -> None:
        self.tree_pane.reveal(message.byte)

    def on_filter_left(self, _: FilterLeft) -> None:
        self.filter_bar.put(self.owner.filtering.text)
        self.owner.filtering.leave()

    def on_filter_entered(self, message: FilterEntered) -> None:
        self.owner.filtering.leave()
        self.owner.filtering.apply(message.text)

    def on_sort_wanted(self, message: SortWanted) -> None:
        columns.sort_by(self.owner, message.column)

    def on_keys_wanted(self, _: KeysWanted) -> None:
        self.owner.play_held()

    def on_jump_to(self, message: JumpTo) -> None:
        self.owner.jumping.to_finding(message.frame, message.finding)

    def on_explain_finding(self, message: ExplainFinding) -> None:
        self.owner.explain(message.finding)
