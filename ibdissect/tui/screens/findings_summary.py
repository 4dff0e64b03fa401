"""The findings summary: one line a rule - how bad, how often, where first, who is involved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from ibdissect.lint.rule import Rule
from ibdissect.study.findings_store import FindingsStore, RuleGroup
from ibdissect.study.number_text import number

from ..keys.command import Command
from ..widgets.cells import SHAPES, cut, fit
from ..widgets.line_list import LineList
from .page import rule_text

if TYPE_CHECKING:
    from ..app import TuiApp


class RuleTable(LineList):
    """Rules with findings, the worst first."""

    empty = "No findings."

    def __init__(self, store: FindingsStore) -> None:
        super().__init__(id="rules")
        self.store = store
        self.groups = store.rules()

    def count(self) -> int:
        return len(self.groups)

    @property
    def group(self) -> RuleGroup | None:
        """The rule at the cursor with its occurrences."""
        return self.groups[self.cursor] if self.cursor < len(self.groups) else None

    def parts(self, index: int, width: int) -> list[Segment]:
        group = self.groups[index]
        ink = self.ink(group.severity.value)
        head = 3 + 9 + 9 + 34 + 9 + 9 + 9 + 13
        return [
            Segment(f" {SHAPES[group.severity]} ", ink), Segment(fit(group.severity.value, 9), ink),
            Segment(fit(group.code, 9), self.ink("strong")), Segment(fit(group.name, 33) + " "),
            Segment(fit(number(self.store.by_rule.get(group.code, 0)), 9, "right")),
            Segment(fit(number(len(group.places)), 9, "right"), self.ink("dim")),
            Segment(fit(number(group.frames), 9, "right"), self.ink("dim")),
            Segment(fit(str(group.first.frame), 10, "right") + "   ", self.ink("accent")),
            Segment(cut(group.first.message, max(width - head - 1, 0)), self.ink("dim")),
        ]  # fmt: skip

    def moved(self) -> None:
        if isinstance(self.screen, SummaryScreen):
            self.screen.show_rule()

    def choose(self) -> None:
        if self.group is not None:
            self.screen.dismiss(("filter", self.group.code))


class SummaryScreen(Screen[tuple[str, str] | None]):
    """Returns ("filter", code) or ("explain", code), None when left."""

    BINDINGS = [Binding("escape,q,S", "dismiss(None)", "back"), Binding("e", "explain", "explain")]

    def __init__(self, store: FindingsStore, frames: int, rules: Mapping[str, type[Rule]], finished: bool) -> None:
        super().__init__()
        self.store, self.frames, self.rules, self.finished = store, frames, rules, finished

    def compose(self) -> ComposeResult:
        state = "checked" if self.finished else "so far"
        total = sum(self.store.by_rule.values())
        title = f" Findings   {number(total)} in {number(self.frames)} frames {state}, {len(self.rules)} rules"
        title += f", {number(len(self.store))} occurrences" + (f" ({self.store.limits})" if self.store.limits else "")
        yield Static(title, classes="screen-title", markup=False)
        head = f"   {'Severity':<9}{'Code':<9}{'Name':<34}{'Findings':>9}{'Places':>9}{'Frames':>9}{'First':>10}   For example"
        yield Static(head, classes="table-head", markup=False)
        yield RuleTable(self.store)
        with VerticalScroll(id="rule-page"):
            yield Static(id="rule-text")
        yield Static(" Enter shows the frames of the rule · e explains · Esc back", classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        table = self.query_one(RuleTable)
        table.empty = f"No findings: {number(self.frames)} frames checked with {len(self.rules)} rules."
        table.renew()
        table.styles.height = min(len(table.groups) + 1, max(self.size.height // 2, 4))
        table.focus()
        self.show_rule()

    def show_rule(self) -> None:
        """The page of the rule at the cursor, below the table."""
        group = self.query_one(RuleTable).group
        rule = self.rules.get(group.code) if group is not None else None
        self.query_one("#rule-text", Static).update(rule_text(rule) if rule is not None else Text())

    def action_explain(self) -> None:
        group = self.query_one(RuleTable).group
        if group is not None:
            self.dismiss(("explain", group.code))


def _open(app: TuiApp) -> None:
    findings, study = app.model.findings, app.study

    def done(answer: tuple[str, str] | None) -> None:
        if answer is None:
            return
        what, code = answer
        if what == "filter":
            app.filtering.enter(f'ibdissect.code == "{code}"')
        else:
            app.explain(next(group.first for group in findings.rules() if group.code == code))

    app.push_screen(SummaryScreen(findings, study.done, study.rules, study.finished), done)


COMMAND = Command("S", "Findings summary", _open, "Findings", "findings summary by rule")
