"""What does the second pass learn while the first rows are already read: findings, key numbers, statistics, the subnet."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ibdissect.fabric import Follower
from ibdissect.fabric.model import Subnet
from ibdissect.flow.connections import Connections
from ibdissect.flow.reliable import Streams
from ibdissect.flow.transactions import Transactions, Unanswered
from ibdissect.lint.engine import Linter
from ibdissect.lint.finding import Finding, Secret, Severity
from ibdissect.lint.rule import Rule
from ibdissect.linting import Options, linter_of
from ibdissect.table.table import ChunkTable

from .conversations import Conversations
from .exchanges import Exchange, Exchanges, Kind
from .fabric_view import FabricView, view_of
from .model import CaptureModel
from .talks import Talk, talks_of
from .tally import Tally

KEPT = 1000
"""Findings kept for each rule; the counts stay exact."""
STEP = 16384
"""Rows taken at once: small enough that the screen never waits long for the interpreter."""
AHEAD = 32768
"""Frames studied while a file is still being indexed."""
PAUSE = 0.25
"""Seconds between two looks at a capture that grows, and between two reports to the screen."""

ANSWER = 0.03
"""Seconds between two looks at whether somebody asks for numbers, when all is done."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers at one moment."""

    frames: int
    tally: Tally
    talks: list[Talk]
    exchanges: list[Exchange]
    kinds: list[tuple[Kind, Exchange]]
    """Requests by management class, method and attribute."""
    fabric: FabricView


class Overheard:
    """A source of the linter that tells somebody else of its events, too."""

    def __init__(self, source: Any, hear: Callable[[object], None]) -> None:  # Any: the engine asks for nothing but `feed`
        self.source, self.hear = source, hear

    def feed(self, table: ChunkTable) -> Iterator[object]:
        """Take in a chunk; yields what happened."""
        for event in self.source.feed(table):
            self.hear(event)
            yield event


class Study:
    """Runs over the indexed frames in a thread of its own, behind the scan."""

    def __init__(self, model: CaptureModel, load: Callable[[], Options]) -> None:
        self.model, self.load = model, load
        self.options = Options(rules=[])
        """Loaded when the study runs, for that takes longer than the first rows."""
        self.rules: dict[str, type[Rule]] = {}
        """Those that judge this capture, by code."""
        self.done = 0
        """Frames studied."""
        self.finished = False
        """Everything was judged, also what only the end of the capture shows."""
        self.tally, self.conversations, self.exchanges = Tally(), Conversations(), Exchanges()
        self._linter = Linter(())
        self._follower, self._transactions = Follower(), Transactions()
        self._streams, self._connections = Streams(), Connections()
        self._wanted: Callable[[Snapshot], None] | None = None

    def run(self, progress: Callable[[], None]) -> None:
        """Study until the capture ends or is closed; `progress` is called now and then."""
        told = 0.0
        model = self.model
        self._prepare()
        while not model.stopped:
            # Two threads that compute get in each other's way: the first findings, then the index, then the rest.
            while self.done >= AHEAD and not (model.complete or model.live or model.wait(ANSWER)):
                self._answer()
            chunk = model.index.after(self.done, STEP)
            if len(chunk):
                self._feed(ChunkTable(chunk, model.catalog, model.services))
                self.done = model.studied_to = chunk.first + len(chunk) - 1
            elif model.complete and self.done >= model.index.frames:
                break
            elif model.wait(PAUSE):
                return
            self._answer()
            if time.monotonic() - told > PAUSE:
                self._count()
                progress()
                told = time.monotonic()
        if model.stopped:
            return
        self._linter.context.damage = model.damage
        self._linter.finish()
        for request in self._transactions.open_requests():
            self.exchanges.take(Unanswered(request.frame, request.time_ns, request))
        self.finished = model.studied = True
        self._count()
        progress()
        while not model.wait(ANSWER):
            self._answer()

    def _prepare(self) -> None:
        self.options = replace(self.load(), max_findings=KEPT)
        self.rules = {rule.code: rule for rule in self.options.rules_for(self.model.reader.path)}
        self._linter = linter_of(self.options, self.model.reader.path, on_finding=self._found)
        self._linter.context.damage = self.model.damage
        get = self._linter.context.get
        self._follower, self._transactions = get(Follower), get(Transactions)
        self._streams, self._connections = get(Streams), get(Connections)
        sources: list[Any] = self._linter.sources  # Any: the engine asks for nothing but `feed`
        for source in (self._follower, self._transactions, self._streams, self._connections):
            if source not in sources:
                sources.append(source)
        sources[sources.index(self._transactions)] = Overheard(self._transactions, self._heard)

    def _heard(self, event: object) -> None:
        self.model.answers.take(event)
        self.exchanges.take(event)

    def _feed(self, table: ChunkTable) -> None:
        model = self.model
        model.services.feed(table)
        model.masker.feed(table)
        model.masked_to = table.chunk.first + len(table) - 1
        self._linter.feed(table)
        self.tally.feed(table)
        self.conversations.feed(table)

    def want(self, answer: Callable[[Snapshot], None]) -> None:
        """Ask for a snapshot; `answer` is called from the study's thread, soon."""
        self._wanted = answer

    def _answer(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted(self.snapshot())

    def snapshot(self) -> Snapshot:
        """The numbers now; only from the thread that feeds, or when none does."""
        return Snapshot(
            self.done, self.tally.copy(), talks_of(self.conversations.snapshot(), self._streams, self._connections),
            self.exchanges.busiest(), self.exchanges.kinds(), view_of(self._follower.subnet),
        )  # fmt: skip

    @property
    def subnet(self) -> Subnet:
        """The subnet as learnt so far; another thread goes on teaching it."""
        return self._follower.subnet

    @property
    def connections(self) -> Connections:
        """Connections so far; another thread adds to them."""
        return self._connections

    def _found(self, finding: Finding) -> None:
        finding.severity = self.options.severity_of(self.rules[finding.code])
        self._finish(finding)
        self.model.findings.add(finding)

    def _finish(self, finding: Finding) -> None:
        finding.finish(None if self.model.show_keys else self._mask)

    def _mask(self, secret: Secret) -> str:
        return self.model.masker.name(secret.kind, secret.value)

    def _count(self) -> None:
        by_rule = {code: tally.count for code, tally in self._linter.tally.items() if tally.count}
        counts: Counter[Severity] = Counter()
        for code, count in by_rule.items():
            counts[self.options.severity_of(self.rules[code])] += count
        self.model.findings.set_counts(by_rule, {level: counts[level] for level in Severity})
