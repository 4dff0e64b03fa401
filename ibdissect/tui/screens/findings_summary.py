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
from ..widgets.cells import SHAPES, cut
from ..widgets.headed_list import HeadedList
from ..widgets.table_columns import Heading
from .page import rule_text

if TYPE_CHECKING:
    from ..app import TuiApp


class RuleTable(HeadedList):
    """Rules with findings, the worst first."""

    empty = "No findings."
    behind = "For example"
    columns = (
        Heading("severity", "Severity", 9, "left"), Heading("code", "Code", 8, "left"), Heading("name", "Name", 33, "left"),
        Heading("findings", "Findings", 8), Heading("places", "Places", 8, rank=2), Heading("frames", "Frames", 8, rank=1),
        Heading("first", "First", 8),
    )  # fmt: skip

    def __init__(self, store: FindingsStore) -> None:
        super().__init__(id="rules")
        self.store = store
        self.groups = store.rules()

    def count(self) -> int:
        return len(self.groups)

    @property
    def group(self) -> RuleGroup | None:
        """The rule at the cursor with its occurrences."""
        return self.groups[self.chosen] if self.cursor < len(self.groups) else None

    def cell(self, index: int, key: str) -> tuple[str, str]:
        group = self.groups[index]
        return {
            "severity": (f"{SHAPES[group.severity]} {group.severity.value}", group.severity.value), "code": (group.code, "strong"),
            "name": (group.name, ""), "findings": (number(self.store.by_rule.get(group.code, 0)), ""),
            "places": (number(len(group.places)), "dim"), "frames": (number(group.frames), "dim"),
            "first": (str(group.first.frame), "accent"),
        }[key]  # fmt: skip

    def rest(self, index: int, room: int) -> Segment:
        return Segment(cut(self.groups[index].first.message, room), self.ink("dim"))

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
        yield Static("", classes="table-head", id="rule-head", markup=False)
        yield RuleTable(self.store)
        with VerticalScroll(id="rule-page"):
            yield Static(id="rule-text")
        keys = " Enter shows its frames · e explains · o O sort by another column · / search"
        yield Static(keys, classes="screen-keys", markup=False)

    def on_mount(self) -> None:
        table = self.query_one(RuleTable)
        table.empty = f"No findings: {number(self.frames)} frames checked with {len(self.rules)} rules."
        table.renew()
        table.styles.height = min(len(table.groups) + 1, max(self.size.height // 2, 4))
        table.focus()
        self.show_rule()

    def on_resize(self) -> None:
        self.call_after_refresh(self.on_headed_list_sorted)

    def on_headed_list_sorted(self) -> None:
        """Write the titles above the table."""
        self.query_one("#rule-head", Static).update(self.query_one(RuleTable).title_line)
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
