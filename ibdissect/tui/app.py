"""The application: puts model, panes and screens together and answers their messages; it does nothing itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from ibdissect.dfilter.complete import complete
from ibdissect.dissect.tree import Node
from ibdissect.lint.finding import Finding
from ibdissect.lint.rule import Rule

from . import columns, themes, workers
from .bit_line import BitLine
from .bytes_pane import BytesPane
from .choice import Choice
from .column_choice import ColumnChoice
from .column_header import ColumnHeader
from .conversation_screen import ConversationScreen
from .fabric_screen import FabricScreen
from .filter_bar import FilterBar
from .filters import History, as_filter, checked
from .find import FindKind, Query
from .findings_pane import FindingsPane
from .ink import number
from .key_bar import KeyBar
from .messages import (
    ByteSelected,
    ExplainFinding,
    FilterEntered,
    FilterLeft,
    FrameSelected,
    JumpTo,
    NodeSelected,
    SearchEnded,
    SnapshotReady,
    WriteEnded,
)
from .model import CaptureModel
from .packet_list import PacketList
from .page_screen import PageScreen
from .pages import finding_page, help_page, rules_by_code
from .panes import Panes
from .prompt import Prompt
from .rows import FilteredRows
from .splitter import Splitter
from .statistics_screen import StatisticsScreen
from .study import Study
from .summary_screen import SummaryScreen
from .title_bar import TitleBar
from .tree_pane import TreePane

POLL = 0.1
"""Seconds between two looks at what the threads have done."""


def _keys(*entries: tuple[str, str, str]) -> list[BindingType]:
    return [Binding(key, action, what, show=False) for key, action, what in entries]


class TuiApp(App[None]):
    """A capture on the screen. `run` it; the model is closed when it ends."""

    CSS_PATH = "ibdissect.tcss"
    TITLE = "ibdissect"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS = _keys(
        ("q,ctrl+c", "quit", "Quit"), ("slash", "filter", "Display filter"), ("g", "go_to", "Go to frame"),
        ("ctrl+f", "find", "Find text, bytes or a filter"), ("n", "again(True)", "Next match"), ("N", "again(False)", "Previous match"),
        ("f", "next_finding", "Next finding"), ("F", "findings", "Findings pane"), ("e", "explain", "Explain the finding"),
        ("S", "summary", "Findings summary"), ("m", "mark", "Mark the frame"), ("M", "mark_all", "Mark all displayed frames, or none"),
        ("a", "as_filter(True)", "Apply the selected field as filter"), ("p", "as_filter(False)", "Prepare the selected field as filter"),
        ("y", "copy", "Copy"), ("t", "time_format", "Time format"), ("s", "statistics", "Statistics"),
        ("c", "conversations", "Conversations"), ("b", "fabric", "Fabric"), ("x", "bytes", "Bytes pane"), ("v", "columns", "Columns"),
        ("plus", "add_column", "Add the selected field as a column"), ("w", "write", "Write frames to a file"),
        ("question_mark,f1", "help", "Help"),
    )  # fmt: skip

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
        self.agreed: set[str] = set()
        """Files that may be overwritten."""
        self._asked = ""
        self._tail = False

    # -- the screen

    def compose(self) -> ComposeResult:
        yield TitleBar(self.model, self.study)
        yield FilterBar(
            lambda text: checked(text, self.model.catalog, self.model.first_ns)[1],
            lambda text, cursor: complete(text, cursor, self.model.catalog), self.history,
        )  # fmt: skip
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

    def on_mount(self) -> None:
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme = "ibdissect-dark"
        self.packets.focus()
        workers.start(lambda: self.model.scan(lambda: None), "scan")
        workers.start(lambda: self.study.run(lambda: None), "study")
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(name, self.exit)
        self.set_interval(POLL, self.poll)
        self.set_timer(0.02, self.poll)
        if self.first_filter:
            self.filter_bar.put(self.first_filter)
            self.on_filter_entered(FilterEntered(self.first_filter))

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
            ("#split-byte-side", shown["tree"] and shown["bytes"]), ("#findings", shown["findings"]), ("#split-findings", shown["findings"]),
        ):  # fmt: skip
            main.query_one(name).display = there
        side = main.query_one("#byte-side")
        side.styles.width = "1fr" if not shown["tree"] else 76 if self.size.width >= 150 else 44
        if main.focused is None or not main.focused.display:
            self.packets.focus()

    # -- what the threads have done

    def poll(self) -> None:
        """Show what is new; nothing moves under the reader's hand."""
        main, packets = self.main, self.packets
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

    # -- messages of the panes

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

    def on_jump_to(self, message: JumpTo) -> None:
        self.jump(message.frame)

    def on_explain_finding(self, message: ExplainFinding) -> None:
        self.explain(message.finding)

    def on_filter_left(self, _: FilterLeft) -> None:
        self.filter_bar.put(self.filter_text)
        self.leave_filter()

    def leave_filter(self) -> None:
        """Back to the packets."""
        self.packets.focus()
        self.filter_bar.input.can_focus = False

    def on_filter_entered(self, message: FilterEntered) -> None:
        self.leave_filter()
        self.apply_filter(message.text)

    def apply_filter(self, text: str) -> None:
        """Show the frames that a filter matches."""
        matcher, error = checked(text, self.model.catalog, self.model.first_ns)
        if error is not None:
            self.warn(str(error))
            return
        frame = self.packets.frame
        self.filter_text, self.anchor = text, None
        if matcher is None:
            self.filtering.cancel()
            self.packets.show_rows(self.model.rows, frame)
        else:
            rows = FilteredRows()
            self.filtering.run(workers.fill(self.model, rows, matcher), "filter")
            self.packets.show_rows(rows, frame)
            self.anchor = (frame, 0)
        self.set_timer(0.03, self.poll)

    def on_search_ended(self, message: SearchEnded) -> None:
        keys = self.main.query_one(KeyBar)
        if message.row is None:
            keys.say(f"{message.query.kind.value} not found: {message.query.text}")
            return
        self.packets.select(message.row, center=True)
        self.packets.tell()
        keys.say("search went round" if message.round_ else "")

    def on_write_ended(self, message: WriteEnded) -> None:
        if message.error is not None:
            self.warn(message.error)
        else:
            self.notify(f"{number(message.frames)} frames written to {message.path}; keys in them are not masked", markup=False)

    def on_snapshot_ready(self, message: SnapshotReady) -> None:
        asked, self._asked = self._asked, ""
        shot = message.snapshot
        if asked == "statistics":
            times = [finding.time_ns for finding in self.model.findings.all()]
            self.push_screen(StatisticsScreen(shot, times))
        elif asked == "conversations":
            self.push_screen(ConversationScreen(shot), self._filter_chosen)
        elif asked == "fabric":
            self.push_screen(FabricScreen(shot.fabric), self.jump)

    def _filter_chosen(self, text: str | None) -> None:
        if text:
            self.filter_bar.put(text)
            self.history.add(text)
            self.apply_filter(text)

    def warn(self, text: str) -> None:
        """Say what went wrong."""
        self.notify(text, severity="error", markup=False)

    # -- keys

    def action_filter(self) -> None:
        bar = self.filter_bar
        bar.input.can_focus = True
        bar.input.focus()

    def jump(self, frame: int | None) -> None:
        """Go to a frame; one that the filter hides is shown without it."""
        packets = self.packets
        if not frame:
            return
        row = packets.rows.nearest(frame)
        if not len(packets.rows) or packets.rows.frame(row) != frame:
            if self.filter_text:
                self.notify(f"Frame {frame} does not match the filter: showing all frames", markup=False)
                self.filter_bar.put("")
                self.apply_filter("")
            row = packets.rows.nearest(frame)
        packets.select(row, center=True)
        packets.tell()

    def action_go_to(self) -> None:
        total = self.model.index.frames

        def check(_: str, text: str) -> str | None:
            good = text.strip().replace(",", "").isascii() and text.strip().replace(",", "").isdigit()
            return None if good and 1 <= int(text.replace(",", "")) <= total else f"a number from 1 to {number(total)}"

        self.push_screen(
            Prompt("Go to frame", check, placeholder=f"1 … {number(total)}"),
            lambda answer: self.jump(int(answer[1].replace(",", "")) if answer else None),
        )

    def action_find(self) -> None:
        def check(kind: str, text: str) -> str | None:
            if not text.strip():
                return "type what to look for"
            if kind == FindKind.HEX:
                try:
                    Query.hexadecimal(text)
                except ValueError as error:
                    return str(error)
            if kind == FindKind.FILTER:
                error_ = checked(text, self.model.catalog, self.model.first_ns)[1]
                return error_.reason if error_ is not None else None
            return None

        def done(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                kind, text = FindKind(answer[0]), answer[1]
                matcher = checked(text, self.model.catalog, self.model.first_ns)[0] if kind is FindKind.FILTER else None
                self.search_query = Query(kind, text, matcher)
                self.action_again(True)

        old = self.search_query
        self.push_screen(
            Prompt("Find", check, kinds=tuple(FindKind), kind=old.kind if old else "", value=old.text if old else ""), done
        )

    def action_again(self, forward: bool) -> None:
        if self.search_query is None:
            self.action_find()
            return
        packets = self.packets
        tell = self.post_message
        self.main.query_one(KeyBar).say("searching…")
        self.searching.run(
            workers.search(self.model, packets.rows, self.search_query, packets.cursor, forward, lambda ended: tell(ended) and None), "find"
        )

    def action_next_finding(self) -> None:
        frame = self.model.findings.after(self.packets.frame)
        if frame is None:
            self.notify("No findings" if self.study.finished else "No findings yet", markup=False)
            return
        self.jump(frame)

    def action_findings(self) -> None:
        shown = self.main.query_one(FindingsPane).display
        self.panes.findings_wanted = not shown
        self.lay_out()
        if not shown:
            self.main.query_one(FindingsPane).focus()

    def action_bytes(self) -> None:
        shown = self.main.query_one("#byte-side").display
        self.panes.bytes_wanted = not shown
        self.lay_out()
        if not shown:
            self.main.query_one(BytesPane).focus()

    def explain(self, finding: Finding) -> None:
        """Why it matters, what to do, and which frames prove it."""
        self.push_screen(PageScreen(*finding_page(finding, self.rules.get(finding.code))), self.jump)

    def action_explain(self) -> None:
        found = self.model.findings.of_frame(self.packets.frame)
        if not found:
            self.notify(f"Frame {self.packets.frame} has no finding; f goes to the next one", markup=False)
        elif len(found) == 1:
            self.explain(found[0])
        else:
            entries = [(str(i), f"{one.code} {one.name}", one.message) for i, one in enumerate(found)]
            self.push_screen(Choice("Which finding?", entries), lambda key: self.explain(found[int(key)]) if key else None)

    def action_summary(self) -> None:
        screen = SummaryScreen(self.model.findings, self.study.done, len(self.rules), self.study.finished)

        def done(answer: tuple[str, str] | None) -> None:
            if answer is None:
                return
            what, code = answer
            if what == "filter":
                self._filter_chosen(f'ibdissect.code == "{code}"')
            else:
                self.explain(next(one for one in self.model.findings.all() if one.code == code))

        self.push_screen(screen, done)

    def action_mark(self) -> None:
        frame = self.packets.frame
        if frame:
            self.model.marked ^= {frame}
            self.packets.redraw()
            self.main.query_one(KeyBar).say(f"{number(len(self.model.marked))} marked" if self.model.marked else "")

    def action_mark_all(self) -> None:
        rows = self.packets.rows
        self.model.marked = set() if self.model.marked else set(rows.frames(0, len(rows)))
        self.packets.redraw()

    def action_as_filter(self, apply: bool) -> None:
        text = as_filter(self.tree_pane.node)
        if text is None:
            self.notify("Select a field of the tree that has a value; masked keys need --show-keys", markup=False)
            return
        self.filter_bar.put(text)
        if apply:
            self.history.add(text)
            self.apply_filter(text)
        else:
            self.action_filter()

    def action_time_format(self) -> None:
        self.main.query_one(KeyBar).say(f"time: {self.packets.next_time_format().value}")

    def _ask(self, what: str) -> None:
        self._asked = what
        self.study.want(lambda shot: self.post_message(SnapshotReady(shot)) and None)

    def action_statistics(self) -> None:
        self._ask("statistics")

    def action_conversations(self) -> None:
        self._ask("conversations")

    def action_fabric(self) -> None:
        self._ask("fabric")

    def action_help(self) -> None:
        self.push_screen(PageScreen(*help_page()))

    def action_columns(self) -> None:
        packets = self.packets
        extra = [column for column in packets.columns if column.field]
        offered = [*columns.COLUMNS[:-1], *extra, columns.COLUMNS[-1]]

        def done(keys: list[str] | None) -> None:
            if keys:
                packets.set_columns([column for column in offered if column.key in keys])

        self.push_screen(ColumnChoice(offered, [column.key for column in packets.columns]), done)

    def action_add_column(self) -> None:
        node, packets = self.tree_pane.node, self.packets
        if node is None or node.field is None or node.field.kind in ("raw", "rest", "hole", "nested"):
            self.notify("Select a field of the tree that has a value", markup=False)
        elif all(column.key != node.name for column in packets.columns):
            packets.set_columns([*packets.columns[:-1], columns.added(node.name), packets.columns[-1]])

    def action_copy(self) -> None:
        node, line = self.tree_pane.node, self.packets.line(self.packets.cursor)
        entries: list[tuple[str, str, str]] = []
        if node is not None:
            value = "" if node.value is None else str(node.value)
            hidden = bool(node.masked)
            texts = [("field and value", f"{node.label}: {node.text}"), ("value", value), ("filter name", node.name),
                     ("as filter", as_filter(node) or ""), ("bytes in hex", "" if hidden else node.raw.hex(" "))]  # fmt: skip
            entries += [(text, what, text) for what, text in texts if text]
        if line is not None:
            summary = f"{line.frame}\t{line.source}\t{line.destination}\t{line.protocol}\t{line.length}\t{line.info}"
            entries.append((summary, "line of the list", line.info))
        if entries:
            self.push_screen(Choice("Copy", entries), self._copied)

    def _copied(self, text: str | None) -> None:
        if text:
            self.copy_to_clipboard(text)
            self.main.query_one(KeyBar).say("copied")

    def action_write(self) -> None:
        marked = sorted(self.model.marked)
        rows = self.packets.rows
        kinds = (f"marked ({number(len(marked))})",) if marked else ()
        kinds = (*kinds, f"displayed ({number(len(rows))})")

        def check(_: str, path: str) -> str | None:
            return workers.unwritable(path, str(self.model.source) if isinstance(self.model.source, str) else "-", self.agreed)

        def done(answer: tuple[str, str] | None) -> None:
            if answer is None:
                return
            path = str(Path(answer[1]).expanduser())
            if answer[0].startswith("marked"):
                take, total = (lambda low, high: marked[low:high]), len(marked)
            else:
                take, total = rows.frames, len(rows)
            workers.start(lambda: self.post_message(workers.write(self.model, take, total, path)) and None, "write")

        self.push_screen(Prompt("Write frames to", check, kinds=kinds, placeholder="out.pcapng"), done)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key as a command of the palette."""
        yield from super().get_system_commands(screen)
        for binding in self.BINDINGS:
            if isinstance(binding, Binding):
                yield SystemCommand(binding.description, f"key {binding.key}", lambda action=binding.action: self.run_worker(self.run_action(action)))

    async def action_quit(self) -> None:
        """Leave."""
        self.exit()

    def on_unmount(self) -> None:
        self.model.close()


__all__ = ["Text", "TuiApp"]
