"""The findings summary: one line per rule with severity, count, first frame and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from ibdissect.lint.rule import Rule
from ibdissect.screen_model.findings_store import FindingsStore, RuleGroup
from ibdissect.screen_model.number_text import number
from ibdissect.wire.text import counted

from ..keys.command import Command
from ..widgets.table import Cell, Heading, Table
from .overlay import Overlay
from .page import rule_text

if TYPE_CHECKING:
    from ..app import TuiApp


class RuleTable(Table[RuleGroup]):
    """Rules with findings, the worst first."""

    rest_title = "For example"

    def __init__(self, store: FindingsStore) -> None:
        super().__init__(store.rules(), id="rules")
        self.columns = (
            Heading("Severity", 9, lambda group: (f"{group.severity.sign} {group.severity.value}", group.severity.value), "left"),
            Heading("Code", 8, lambda group: (group.code, "strong"), "left"), Heading("Name", 33, lambda group: (group.name, ""), "left"),
            Heading("Findings", 8, lambda group: (number(store.by_rule.get(group.code, 0)), "")),
            Heading("Places", 8, lambda group: (number(len(group.places)), "dim"), rank=2),
            Heading("Frames", 8, lambda group: (number(group.frames), "dim"), rank=1),
            Heading("First", 8, lambda group: (str(group.first.frame), "accent")),
        )  # fmt: skip

    def rest(self, item: RuleGroup, room: int) -> Cell:
        return item.first.message, "dim"

    def moved(self) -> None:
        if isinstance(self.screen, SummaryScreen):
            self.screen.show_rule()

    def answer(self, item: RuleGroup) -> tuple[str, str]:
        return "filter", item.code


class SummaryScreen(Overlay[tuple[str, str]]):
    """Returns ("filter", code) or ("explain", code), None when left."""

    BINDINGS = [Binding("S", "dismiss(None)", "back"), Binding("e", "leave_with('explain')", "explain")]
    keys = "Enter shows its frames · e explains · o O sort · / search"

    def __init__(self, store: FindingsStore, frames: int, rules: Mapping[str, type[Rule]], finished: bool) -> None:
        state, total = "checked" if finished else "so far", sum(store.by_rule.values())
        limits = f" ({store.limits})" if store.limits else ""
        silent = f", silent: {', '.join(sorted(store.silenced))}" if store.silenced else ""
        super().__init__(
            f"Findings   {number(total)} in {counted(frames, 'frame', ',')} {state}, {counted(len(rules), 'rule')}, "
            f"{counted(len(store), 'occurrence', ',')}{limits}{silent}"
        )
        self.rules, self.table = rules, RuleTable(store)
        self.table.empty = f"No findings: {counted(frames, 'frame', ',')} checked with {counted(len(rules), 'rule')}."

    def content(self) -> ComposeResult:
        yield self.table
        with VerticalScroll(id="rule-page"):
            yield Static(id="rule-text")

    def on_mount(self) -> None:
        self.table.styles.height = min(self.table.count() + 2, max(self.size.height // 2, 4) + 1)
        self.show_rule()

    def show_rule(self) -> None:
        """The page of the rule at the cursor, below the table."""
        group = self.table.chosen
        rule = self.rules.get(group.code) if group is not None else None
        self.query_one("#rule-text", Static).update(rule_text(rule) if rule is not None else Text())

    def action_leave_with(self, what: str) -> None:
        """Leave, to show the frames of the rule at the cursor (`filter`), or to `explain` it."""
        if self.table.chosen is not None:
            self.dismiss((what, self.table.chosen.code))


def _open(app: TuiApp) -> None:
    findings, study = app.model.findings, app.study

    def done(answer: tuple[str, str]) -> None:
        what, code = answer
        if what == "filter":
            app.filtering.enter(f'ibdissect.code == "{code}"')
        else:
            app.explain(next(group.first for group in findings.rules() if group.code == code))

    app.over(SummaryScreen(findings, study.done, study.rules, study.finished), done)


COMMAND = Command("S", "Findings summary", _open, "Findings", "findings summary by rule")
