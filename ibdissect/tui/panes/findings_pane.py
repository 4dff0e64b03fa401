"""The findings: in frame order or grouped by rule; a jump to the frame, and to what explains it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rich.segment import Segment
from rich.style import Style
from textual import events

from ibdissect.lint.finding import Finding, Severity
from ibdissect.study.findings_store import FindingsStore
from ibdissect.study.number_text import number

from ..messages import ExplainFinding, JumpTo
from ..widgets.cells import SHAPES, line_of
from ..widgets.tree_list import TreeList

Entry = Finding | str
"""A line: a finding, or the code of a rule that stands above its findings."""


class FindingsPane(TreeList[Entry]):
    """Follows the store; new findings never move the line under the cursor."""

    BINDINGS = [("o", "regroup", "by rule / by frame"), ("e", "explain", "explain")]

    def __init__(self, store: FindingsStore, *, id: str = "findings", grouped: bool = False) -> None:
        super().__init__(id=id)
        self.store, self.grouped = store, grouped
        self._groups: dict[str, list[Finding]] = {}
        self._seen = -1
        self.empty = "Looking for findings…"

    def roots(self) -> Sequence[Entry]:
        self._groups = {code: sorted(findings, key=attrgetter("frame")) for code, findings in self.store.rules()} if self.grouped else {}
        return list(self._groups) if self.grouped else self.store.all()

    def below(self, item: Entry) -> Sequence[Entry]:
        return self._groups.get(item, ()) if isinstance(item, str) else ()

    def key(self, item: Entry) -> object:
        return item if isinstance(item, str) else id(item)

    @property
    def outdated(self) -> bool:
        """Whether there are findings that are not shown yet."""
        return self._seen != self.store.generation

    def update(self, empty: str) -> None:
        """Look at the store again; `empty` says what it means that there is nothing."""
        if self.store.generation == self._seen and empty == self.empty:
            return
        self._seen, self.empty = self.store.generation, empty
        self.rebuild()

    @property
    def finding(self) -> Finding | None:
        """The finding at the cursor; of a group, its first."""
        return self._groups[self.item][0] if isinstance(self.item, str) else self.item

    def parts(self, index: int, width: int) -> list[Segment]:
        entry = self.lines[index][1]
        dim = self.ink("dim")
        if isinstance(entry, str):
            findings = self._groups[entry]
            first = findings[0]
            count = max(self.store.by_rule.get(entry, 0), len(findings))
            return line_of(
                (
                    (f" {self.arrow(entry)} ", dim), (f"{SHAPES[first.severity]} {entry:<7}", self.ink(first.severity.value)),
                    (f" {first.name:<32}", self.ink("strong")), (f"{number(count):>7}  ", None),
                    (f"{first.severity.value:<8}  first in frame {first.frame}", dim),
                ),
                width,
            )  # fmt: skip
        finding = entry
        times = f"  ×{number(finding.count)}" if finding.count > 1 else ""
        head: list[tuple[str, Style | None]] = [(f" {SHAPES[finding.severity]} {finding.code:<7}", self.ink(finding.severity.value))]
        head.append((f" {finding.name:<30}" if not self.grouped else "", self.ink("strong")))
        if self.grouped:
            head = [("    ", None)]
        related = ", ".join(f"{one.frame}" if not one.file else one.place for one in finding.related[:4])
        parts = [
            *head, (f" frame {finding.frame:>7}", self.ink("accent")), (f"  {finding.message}", None),
            (f"  (see {related})" if related else "", dim),
        ]  # fmt: skip
        return [*line_of(parts, width - len(times) - 1), Segment(times, self.ink("strong"))]

    def choose(self) -> None:
        if self.item is None or isinstance(self.item, str):
            super().choose()
        else:
            self.post_message(JumpTo(self.item.frame))

    def action_regroup(self) -> None:
        self.grouped = not self.grouped
        self.rebuild()

    def action_explain(self) -> None:
        finding = self.finding
        if finding is not None:
            self.post_message(ExplainFinding(finding))

    def clicked(self, index: int, event: events.Click) -> None:
        super().clicked(index, event)
        entry = self.lines[index][1]
        if event.chain == 1 and not isinstance(entry, str):
            self.post_message(JumpTo(entry.frame))


def totals(store: FindingsStore) -> list[tuple[str, Severity]]:
    """`12 errors`, `3 warnings`: what there is, the worst first."""
    found = []
    for severity in sorted(Severity, key=lambda level: -level.rank):
        count = store.counts.get(severity, 0)
        if count:
            plural = "s" if count != 1 and severity is not Severity.INFO else ""
            found.append((f"{number(count)} {severity.value}{plural}", severity))
    return found
