"""The findings in frame order or by rule; each opens to all its occurrences. Jumps to the frame and to the explanation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events

from ibdissect.lint.finding import Finding, Severity
from ibdissect.screen_model.findings_store import FindingsStore, Int, RuleGroup
from ibdissect.screen_model.number_text import number
from ibdissect.wire.text import counted

from ..messages import ExplainFinding, JumpTo
from ..widgets.cells import fit, line_of
from ..widgets.line_list import LineList

ROOMY = 100
"""Cells of a line from which on names of rules and numbers of frames have columns that are always as wide."""


class FindingsPane(LineList):
    """Shows the store; new findings never move the line under the cursor. Only visible lines are made, so there may be any number."""

    BINDINGS = [
        ("o", "regroup", "by rule / by frame"), ("e", "explain", "explain"),
        ("right,l", "open(True)", "open"), ("left,h", "open(False)", "close"),
    ]  # fmt: skip

    def __init__(self, store: FindingsStore, sentence: Callable[[str], str] = str, *, id: str = "findings", grouped: bool = False) -> None:
        super().__init__(id=id)
        self.store, self.sentence, self.grouped = store, sentence, grouped
        self.opened: set[object] = set()
        """Codes of rules, or keys of findings, whose occurrences are shown below them."""
        self.lines: Int = np.empty(0, np.int64)
        """What each line shows: a place of the store, or -1 - the number of a group."""
        self._below = np.empty(0, np.bool_)
        """Which lines are below another."""
        self._groups: list[RuleGroup] = []
        self._at: object = None
        """Key of the selected line; None: nothing was selected yet, the cursor stays at the top."""
        self._seen = -1
        self.empty = "Looking for findings…"

    # -- lines

    def _make(self) -> None:
        store, above = self.store, self.cursor - int(self.scroll_offset.y)
        self._groups = store.rules() if self.grouped else []
        tops = -1 - np.arange(len(self._groups)) if self.grouped else store.heads()
        parts, begin = [], 0
        for at in [i for i, top in enumerate(tops.tolist()) if self._key(top) in self.opened] if self.opened else ():
            top = int(tops[at])
            below = self._groups[-1 - top].places if top < 0 else store.alike(top)
            parts += [(tops[begin : at + 1], False), (below, True)]
            begin = at + 1
        parts.append((tops[begin:], False))
        self.lines = np.concatenate([lines for lines, _ in parts])
        self._below = np.concatenate([np.full(len(lines), deep) for lines, deep in parts])
        place = self._find(self._at) if self._at is not None else 0
        self.renew_at(place, above)

    def _key(self, line: int) -> object:
        return self._groups[-1 - line].code if line < 0 else self.store.key(line)

    def _find(self, key: object) -> int:
        """The line that the cursor was on."""
        candidates = [line for line in (-1 - np.arange(len(self._groups))).tolist() if self._key(line) == key]
        if isinstance(key, tuple):
            candidates = [place for place in self.store.places(key[0]) if self.store.key(place) == key]
        found = np.flatnonzero(np.isin(self.lines, candidates))
        return int(found[0]) if len(found) else min(self.cursor, max(len(self.lines) - 1, 0))

    @property
    def outdated(self) -> bool:
        """Whether there are findings that are not shown yet."""
        return self._seen != self.store.generation

    def update(self, empty: str) -> None:
        """Read the store again; `empty` is the text to show if there are no findings."""
        if self.store.generation == self._seen and empty == self.empty:
            return
        self._seen, self.empty = self.store.generation, empty
        self._make()

    @property
    def finding(self) -> Finding | None:
        """The finding at the cursor; of a group, its first."""
        line = int(self.lines[self.cursor]) if self.cursor < len(self.lines) else len(self.store)
        if line >= len(self.store):
            return None
        return self._groups[-1 - line].first if line < 0 else self.store.finding(line)

    def parts(self, index: int, width: int) -> list[Segment]:
        line, dim = int(self.lines[index]), self.ink("dim")
        name = 30 if width >= ROOMY else 20
        if line < 0:
            group = self._groups[-1 - line]
            found = max(self.store.by_rule.get(group.code, 0), 1)
            arrow, ink = "▾" if group.code in self.opened else "▸", self.ink(group.severity.value)
            return line_of(
                (
                    (f" {arrow} ", dim), (f"{group.severity.sign} {group.code:<7}", ink),
                    (f" {fit(group.name, name)}  ", self.ink("strong")), (f"{number(found):>7}  ", None),
                    (f"{group.severity.value:<8}  in {counted(group.frames, 'frame', ',')}, first in"
                     f" {group.first.frame}", dim),
                ),
                width,
            )  # fmt: skip
        if line >= len(self.store):
            return []  # a rule took its findings back
        finding, below = self.store.finding(line), bool(self._below[index])
        times = f"  ×{number(finding.count)}" if finding.count > 1 and not below else ""
        ink = self.ink(finding.severity.value)
        if below:
            head: list[tuple[str, Style | None]] = [("     ", None), (finding.severity.sign, ink)]
        else:
            arrow = " " if not times else "▾" if self._key(line) in self.opened else "▸"
            head = [(arrow, dim), (f"{finding.severity.sign} {finding.code:<7}", ink), (f" {fit(finding.name, name)}", self.ink("strong"))]
        digits = 7 if width >= ROOMY else len(str(self.store.frame(len(self.store) - 1)))
        related = ", ".join(f"{one.frame}" if one.frame else one.place for one in finding.related[:4])
        parts = [
            *head, (f" frame {finding.frame:>{digits}}", self.ink("accent")), (f"  {self.sentence(finding.message)}", None),
            (f"  (see {related})" if related else "", dim),
        ]  # fmt: skip
        return [*line_of(parts, width - len(times) - 1), Segment(times, self.ink("strong"))]

    # -- keys

    def moved(self) -> None:
        self._at = self._key(int(self.lines[self.cursor]))

    def choose(self) -> None:
        if self.lines[self.cursor] < 0:
            self.action_open(self._key(int(self.lines[self.cursor])) not in self.opened)
        elif self.finding is not None:
            self.post_message(JumpTo(self.finding.frame, self.finding))

    def action_open(self, wanted: bool) -> None:
        """Show all occurrences of the rule or the finding at the cursor, or hide them."""
        if self.cursor >= len(self.lines):
            return
        top = self.cursor - int(np.argmin(self._below[self.cursor :: -1]))
        line = int(self.lines[top])
        if wanted and top == self.cursor and (line < 0 or self.store.finding(line).count > 1):
            self.opened.add(self._key(line))
        elif not wanted:
            self.opened.discard(self._key(line))
            self.select(top)
        self._at = self._key(int(self.lines[self.cursor]))
        self._make()

    def action_regroup(self) -> None:
        self.grouped, self._at = not self.grouped, None
        self.cursor = 0
        self._make()

    def action_explain(self) -> None:
        finding = self.finding
        if finding is not None:
            self.post_message(ExplainFinding(finding))

    def clicked(self, index: int, event: events.Click) -> None:
        self.select(index)
        line = int(self.lines[index])
        if event.chain == 1 and (line < 0 or (event.x < 1 and not self._below[index])):
            self.action_open(self._key(line) not in self.opened)
        elif event.chain == 1:
            self.choose()


def totals(store: FindingsStore) -> list[tuple[str, Severity]]:
    """`12 errors`, `3 warnings`: the totals, worst first."""
    found = []
    for severity in sorted(Severity, key=lambda level: -level.rank):
        count = store.counts.get(severity, 0)
        if count:
            found.append((counted(count, severity.value, ","), severity))
    return found
