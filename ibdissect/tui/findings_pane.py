"""The findings: in frame order or grouped by rule; a jump to the frame, and to what explains it."""

from __future__ import annotations

from operator import attrgetter

from rich.segment import Segment
from rich.style import Style
from textual import events

from ibdissect.lint.finding import Finding, Severity

from .findings_store import FindingsStore
from .ink import NAMES, SHAPES, line_of, number
from .line_list import LineList
from .messages import ExplainFinding, JumpTo

Entry = Finding | str
"""A line: a finding, or the code of a rule that stands above its findings."""


class FindingsPane(LineList):
    """Follows the store; new findings never move the line under the cursor."""

    BINDINGS = [
        ("o", "regroup", "by rule / by frame"), ("e", "explain", "explain"), ("right", "open(True)", "open"),
        ("left", "open(False)", "close"),
    ]  # fmt: skip

    def __init__(self, store: FindingsStore, *, id: str = "findings", grouped: bool = False) -> None:
        super().__init__(id=id)
        self.store, self.grouped = store, grouped
        self.opened: set[str] = set()
        self.entries: list[Entry] = []
        self._seen = -1
        self.empty = "Looking for findings…"

    def count(self) -> int:
        return len(self.entries)

    def update(self, empty: str) -> None:
        """Look at the store again; `empty` says what it means that there is nothing."""
        if self.store.generation == self._seen and empty == self.empty:
            return
        self._seen, self.empty = self.store.generation, empty
        self._rebuild()

    def _rebuild(self) -> None:
        at = self.entries[self.cursor] if self.cursor < len(self.entries) else None
        above = self.cursor - int(self.scroll_offset.y)
        if self.grouped:
            self.entries = []
            for code, findings in self.store.rules():
                self.entries.append(code)
                if code in self.opened:
                    self.entries += sorted(findings, key=attrgetter("frame"))
        else:
            self.entries = list(self.store.all())
        place = next((i for i, entry in enumerate(self.entries) if entry is at or entry == at), 0) if at is not None else 0
        self.renew()
        if at is not None and place != self.cursor:
            self.cursor = place
            self.scroll_to(y=max(place - above, 0), animate=False, immediate=True, force=True)

    @property
    def finding(self) -> Finding | None:
        """The finding at the cursor; of a group, its first."""
        entry = self.entries[self.cursor] if self.cursor < len(self.entries) else None
        if isinstance(entry, str):
            return min(dict(self.store.rules())[entry], key=attrgetter("frame"))
        return entry

    def parts(self, index: int, width: int) -> list[Segment]:
        entry = self.entries[index]
        dim = self.ink("dim")
        if isinstance(entry, str):
            findings = dict(self.store.rules())[entry]
            first = min(findings, key=lambda finding: finding.frame)
            arrow = "▾" if entry in self.opened else "▸"
            count = max(self.store.by_rule.get(entry, 0), len(findings))
            return line_of(
                (
                    (f" {arrow} ", dim), (f"{SHAPES[first.severity]} {entry:<7}", self.ink(first.severity.value)),
                    (f" {first.name:<32}", self.ink("strong")), (f"{number(count):>7}  ", None),
                    (f"{NAMES[first.severity]:<8}  first in frame {first.frame}", dim),
                ),
                width,
            )  # fmt: skip
        finding = entry
        times = f"  ×{number(finding.count)}" if finding.count > 1 else ""
        head: list[tuple[str, Style | None]] = [(f" {SHAPES[finding.severity]} {finding.code:<7}", self.ink(finding.severity.value))]
        head.append((f" {finding.name:<30}" if not self.grouped else "", self.ink("strong")))
        if self.grouped:
            head = [("    ", None)]
        related = ", ".join(f"{one.frame}" for one in finding.related[:4])
        parts = [
            *head, (f" frame {finding.frame:>7}", self.ink("accent")), (f"  {finding.message}", None),
            (f"  (see {related})" if related else "", dim),
        ]  # fmt: skip
        return [*line_of(parts, width - len(times) - 1), Segment(times, self.ink("strong"))]

    def choose(self) -> None:
        entry = self.entries[self.cursor]
        if isinstance(entry, str):
            self._set_open(entry, entry not in self.opened)
        else:
            self.post_message(JumpTo(entry.frame))

    def _set_open(self, code: str, wanted: bool) -> None:
        (self.opened.add if wanted else self.opened.discard)(code)
        self._rebuild()

    def action_open(self, wanted: bool) -> None:
        entry = self.entries[self.cursor] if self.entries else None
        if isinstance(entry, str):
            self._set_open(entry, wanted)

    def action_regroup(self) -> None:
        self.grouped = not self.grouped
        self._rebuild()

    def action_explain(self) -> None:
        finding = self.finding
        if finding is not None:
            self.post_message(ExplainFinding(finding))

    def clicked(self, index: int, event: events.Click) -> None:
        self.select(index)
        entry = self.entries[index]
        if event.chain == 1 and isinstance(entry, str):
            self.choose()
        elif event.chain == 1 and not isinstance(entry, str):
            self.post_message(JumpTo(entry.frame))


def totals(store: FindingsStore) -> list[tuple[str, Severity]]:
    """`12 errors`, `3 warnings`: what there is, the worst first."""
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}
    found = []
    for severity in sorted(Severity, key=lambda level: -level.rank):
        count = store.counts.get(severity, 0)
        if count:
            plural = "s" if count != 1 and severity is not Severity.INFO else ""
            found.append((f"{number(count)} {names[severity]}{plural}", severity))
    return found
