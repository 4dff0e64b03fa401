"""The application: binds the keys, starts the threads, opens the screens; the panes are wired in `view` and `search`."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ibdissect.lint.finding import Finding
from ibdissect.wire.text import printable

from . import columns, themes, workers
from .choice import Choice
from .column_choice import ColumnChoice
from .conversation_screen import ConversationScreen
from .fabric_screen import FabricScreen
from .filters import as_filter
from .ink import number
from .messages import ExplainFinding, FilterEntered, SnapshotReady, ThreadFailed, WriteEnded
from .page_screen import PageScreen
from .pages import finding_page, help_page
from .prompt import Prompt
from .statistics_screen import StatisticsScreen
from .summary_screen import SummaryScreen
from .together import Together
from .view import POLL


def _keys(*entries: tuple[str, str, str]) -> list[BindingType]:
    # What is typed right behind "/" must find the focus moved: keys without priority are handed to the list before that.
    return [Binding(key, action, what, show=False, priority=action == "filter") for key, action, what in entries]


class TuiApp(Together):
    """A capture on the screen. `run` it; the model is closed when it ends."""

    ENABLE_COMMAND_PALETTE = True
    BINDINGS = _keys(
        ("q,ctrl+c", "quit", "Quit"), ("slash", "filter", "Display filter"), ("g", "go_to", "Go to frame"),
        ("ctrl+f", "find", "Find text, bytes or a filter"), ("n", "again(True)", "Next match"), ("N", "again(False)", "Previous match"),
        ("f", "next_finding", "Next finding"), ("F", "findings", "Findings pane"), ("e", "explain", "Explain the finding"),
        ("S", "summary", "Findings summary"), ("m", "mark", "Mark the frame"), ("M", "mark_all", "Mark all displayed frames, or none"),
        ("a", "as_filter(True)", "Apply the selected field as filter"), ("p", "as_filter(False)", "Prepare the selected field as filter"),
        ("y", "copy", "Copy"), ("t", "time_format", "Time format"), ("s", "statistics", "Statistics"),
        ("c", "follow", "Follow the conversation of the frame, or all frames again"), ("C", "conversations", "Conversations"),
        ("r", "counterpart", "Request or answer of the frame"), ("R", "transfer", "Reassembled transfer"),
        ("b", "fabric", "Fabric"), ("x", "bytes", "Bytes pane"), ("v", "columns", "Columns"),
        ("plus", "add_column", "Add the selected field as a column"), ("w", "write", "Write frames to a file"),
        ("question_mark,f1", "help", "Help"),
    )  # fmt: skip

    def on_mount(self) -> None:
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme = "ibdissect-dark"
        self.packets.focus()
        threading.excepthook = self._thread_failed
        workers.start(lambda: self.model.scan(lambda: None), "scan")
        # The first rows come first.
        self.set_timer(0.25, lambda: workers.start(lambda: self.study.run(lambda: None), "study"))
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(name, self.exit)
        self.set_interval(POLL, self.poll)
        self.set_timer(0.02, self.poll)
        if self.first_filter:
            self.filter_bar.put(self.first_filter)
            self.on_filter_entered(FilterEntered(self.first_filter))

    def on_explain_finding(self, message: ExplainFinding) -> None:
        self.explain(message.finding)

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """A traceback must not be written over the screen."""
        if not self.model.stopped:
            name = failure.thread.name if failure.thread is not None else "a thread"
            self.post_message(ThreadFailed(f"{name} ended: {failure.exc_type.__name__}: {failure.exc_value}"))

    def on_thread_failed(self, message: ThreadFailed) -> None:
        self.model.error = printable(message.text)
        self.warn(f"{message.text}; please report this")

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
            self.push_screen(StatisticsScreen(shot, times, self.model.catalog))
        elif asked == "conversations":
            self.push_screen(ConversationScreen(shot), self._filter_chosen)
        elif asked == "follow":
            self.follow(shot.talks)
        elif asked == "counterpart":
            self.find_counterpart(shot.talks)
        elif asked == "fabric":
            self.push_screen(FabricScreen(shot.fabric), self.jump)

    def action_next_finding(self) -> None:
        frame = self.model.findings.after(self.packets.frame)
        if frame is None:
            self.notify("No findings" if self.study.finished else "No findings yet", markup=False)
            return
        self.jump(frame)

    def action_findings(self) -> None:
        shown = self.findings_pane.display
        self.panes.findings_wanted = not shown
        self.lay_out()
        if not shown:
            self.findings_pane.focus()

    def action_bytes(self) -> None:
        shown = self.main.query_one("#byte-side").display
        self.panes.bytes_wanted = not shown
        self.lay_out()
        if not shown:
            self.bytes_pane.focus()

    def explain(self, finding: Finding) -> None:
        """Why it matters, what to do, and which frames prove it."""
        self.push_screen(PageScreen(*finding_page(finding, self.study.rules.get(finding.code))), self.jump)

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
        screen = SummaryScreen(self.model.findings, self.study.done, self.study.rules, self.study.finished)

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
            self.key_bar.say(f"{number(len(self.model.marked))} marked" if self.model.marked else "")

    def action_mark_all(self) -> None:
        rows = self.packets.rows
        self.model.marked = set() if self.model.marked else set(rows.frames(0, len(rows)))
        self.packets.redraw()

    def action_time_format(self) -> None:
        self.key_bar.say(f"time: {self.packets.next_time_format().value}")

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
        extra = [column for column in packets.columns if column.field and column not in columns.ANSWERS]
        offered = [*columns.COLUMNS[:-1], *columns.ANSWERS, *extra, columns.COLUMNS[-1]]

        def done(keys: list[str] | None) -> None:
            if keys:
                self._show_columns([column for column in offered if column.key in keys])

        self.push_screen(ColumnChoice(offered, [column.key for column in packets.columns]), done)

    def action_add_column(self) -> None:
        node, packets = self.tree_pane.node, self.packets
        if node is None or node.field is None or node.field.kind in ("raw", "rest", "hole", "nested"):
            self.notify("Select a field of the tree that has a value", markup=False)
        elif all(column.key != node.name for column in packets.columns):
            self._show_columns([*packets.columns[:-1], columns.added(node.name), packets.columns[-1]])

    def _show_columns(self, chosen: list[columns.Column]) -> None:
        self.packets.set_columns(chosen)
        self.memory.keep_columns([column.key for column in chosen])

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
            self.key_bar.say("copied")

    def action_write(self) -> None:
        marked = sorted(self.model.marked)
        rows = self.packets.rows
        kinds = (f"marked ({number(len(marked))})",) if marked else ()
        kinds = (*kinds, f"displayed ({number(len(rows))})")

        def check(_: str, path: str) -> str | None:
            return workers.unwritable(path, str(self.model.source) if isinstance(self.model.source, str) else "-")

        def done(answer: tuple[str, str] | None) -> None:
            if answer is None:
                return
            path = str(Path(answer[1]).expanduser())
            if answer[0].startswith("marked"):
                take, total = (lambda low, high: marked[low:high]), len(marked)
            else:
                take, total = rows.frames, len(rows)

            def work() -> None:
                self.post_message(workers.write(self.model, take, total, path))

            workers.start(work, "write")

        self.push_screen(Prompt("Write frames to", check, kinds=kinds, placeholder="out.pcapng", ask=workers.overwrites), done)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key as a command of the palette."""
        yield from super().get_system_commands(screen)
        for binding in self.BINDINGS:
            if isinstance(binding, Binding):
                yield SystemCommand(binding.description, f"key {binding.key}", partial(self._run, binding.action))

    def _run(self, action: str) -> None:
        self.run_worker(self.run_action(action))

    async def action_quit(self) -> None:
        """Leave."""
        self.exit()

    def on_unmount(self) -> None:
        threading.excepthook = threading.__excepthook__
        self.model.close()
