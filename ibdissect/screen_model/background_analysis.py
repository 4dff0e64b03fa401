"""The second pass, while the user already reads the first rows: findings, key numbers, statistics, the subnet."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from ibdissect.decode import ChunkTable
from ibdissect.decode.cm_connections import Connections
from ibdissect.dfilter.answers import PluginsFollower
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.failures import Failures, collected
from ibdissect.lint.finding import Finding, Severity
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import Rule
from ibdissect.mad.response_times import Exchange, Exchanges, Kind
from ibdissect.mad.transactions import Transactions
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.make_linter import linter_of
from ibdissect.subnet import ChunkFollowed, FabricFollower, Subnet
from ibdissect.subnet.describe import node_name
from ibdissect.subnet.nodes_of_packets import Ends
from ibdissect.transport.events import Repeated
from ibdissect.transport.message_table import MessageTable
from ibdissect.transport.plugin_requests import answering
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.text import printable

from .capture_model import CaptureModel
from .conversations import Conversation, add_messages, conversations_of
from .fabric_view import FabricView, view_of
from .findings_if_ended_now import Foreseen, foresee
from .frames_before import FramesBefore
from .node_names import state_of
from .one_way_flows import Flows
from .traffic_counts import TrafficCounts, TrafficView

if TYPE_CHECKING:
    from ibdissect.subnet.node_names import NodeNames

KEPT = 1000
"""Findings kept with their message for each rule; for all others only the place is kept (`findings_store`)."""
STEP = 16384
"""Rows processed at once: so few that the screen never waits long for the interpreter."""
AHEAD = 32768
"""Frames studied while a file is still being indexed."""
PAUSE = 0.25
"""Seconds between two polls of a growing capture, and between two reports to the screen."""

FORESEEN, PAUSES = 1.0, 9
"""Seconds of a growing capture, and parts of the time of the last such check, between two checks of what its end would show."""
MAX_REPEATED = 100_000
"""Repeated requests remembered by frame."""
ANSWER = 0.03
"""Seconds between two polls for requested snapshots, while the capture is indexed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    frames: int
    traffic: TrafficView
    conversations: list[Conversation]
    exchanges: list[Exchange]
    kinds: list[tuple[Kind, Exchange]]
    """Requests by management class, method and attribute."""
    fabric: FabricView
    asked: list[tuple[str, int]]
    """Nodes, and SMPs on directed routes to and from each."""
    senders: list[str]
    """Nodes that sent SMPs on directed routes."""


class Listener:
    """Wraps a source of the linter and passes its events to a second listener."""

    def __init__(self, source: Any, listen: Callable[[object], None]) -> None:  # Any: the engine asks for nothing but `feed`
        self.source, self.listen = source, listen

    def feed(self, table: ChunkTable) -> Iterator[object]:
        for event in self.source.feed(table):
            self.listen(event)
            yield event


class BackgroundAnalysis:
    """Runs over the indexed frames in a thread of its own, after the scan."""

    def __init__(self, model: CaptureModel, load: Callable[[], CheckOptions], kept: int | None = KEPT) -> None:
        self.model, self.load, self.kept = model, load, kept
        self.options = CheckOptions(rules=[])
        """Loaded when the study runs, because loading takes longer than showing the first rows."""
        self.rules: dict[str, type[Rule]] = {}
        """The rules that check this capture, by code."""
        self.done = self.checked = 0
        """Frames studied."""
        self.finished = False
        """The whole capture was checked, including what only its end shows."""
        self.traffic, self.flows, self.exchanges = TrafficCounts(), Flows(), Exchanges()
        self.before = FramesBefore()
        """Which frame of the same conversation was before each; filled when somebody wants to see it."""
        self.names: NodeNames | None = None
        """Names of nodes as known now; replaced as a whole when names change."""
        self._named: tuple[int, ...] = ()
        self.repeated: set[int] = set()
        """Frames of requests whose PSN was sent before."""
        self._placed = Counter[int]()
        """SMPs on directed routes by slot of their node; -1: unknown."""
        self._failures = Failures()
        self._foreseen, self._foreseen_to, self._foreseen_next = Foreseen(), 0, 0.0
        """What the end of a growing capture would show, up to which frame, and from which time on it is looked at again."""
        self._linter = Linter(())
        self._follower, self._transactions = FabricFollower(), Transactions()
        self._streams, self._connections, self.stories = Streams(), Connections(), Stories()
        self._messages = MessageTable(self._streams)
        self._questions: SimpleQueue[Callable[[Snapshot], None] | None] = SimpleQueue()
        """Callbacks that wait for a snapshot; None ends the wait."""

    def run(self, progress: Callable[[], None]) -> None:
        """Study until the capture ends or is closed; `progress` is called now and then."""
        with collected(self._failures):
            self._run(progress)

    def _run(self, progress: Callable[[], None]) -> None:
        reported = 0.0
        model = self.model
        self._prepare()
        while not model.stopped:
            # Two computing threads slow each other down: first the first findings, then the index, then the rest.
            while self.done >= AHEAD and not (model.complete or model.live or model.wait(ANSWER)):
                self._answer()
            chunk = model.index.after(self.done, STEP)
            if len(chunk):
                self._feed(model.reading.table_of(chunk))
                self.done = model.studied_to = chunk.first + len(chunk) - 1
            elif model.complete and self.done >= model.index.frames:
                break
            elif model.wait(PAUSE):
                return
            else:
                self._foresee()
            self._answer()
            if time.monotonic() - reported > PAUSE:
                self._count()
                progress()
                reported = time.monotonic()
        if model.stopped:
            return
        self._foreseen = Foreseen()
        model.findings.foresee(())
        self._linter.context.damage = model.damage
        self._linter.finish()  # rules mask R_Keys themselves, so that baselines stay valid
        if model.reading.keys_to >= self.done:
            self.stories.key_name = model.reading.key_name
        self._streams.lanes.finish()
        self._messages.finish()
        self.exchanges.finish(self._transactions, pairs=True)
        model.findings.settle()
        self._count()
        self._name_findings()
        self.finished = model.studied = True
        progress()
        while (answer := self._questions.get()) is not None:
            answer(self.snapshot())

    def _prepare(self) -> None:
        self.options = replace(self.load(), max_findings=self.kept)
        self.rules = {rule.code: rule for rule in self.options.rules_for(self.model.reader.path)}
        self._linter = linter_of(self.options, self.model.reading, self._failures, on_finding=self._found, on_occurrence=self._occurred)
        self._linter.context.damage = self.model.damage
        get = self._linter.context.get
        self._follower, self._transactions = get(FabricFollower), get(Transactions)
        self.model.ends.follower = self._follower
        self._streams, self._connections, self.stories = get(Streams), get(Connections), get(Stories)
        followers: list[Any] = self._linter.followers  # Any: the engine asks for nothing but `feed`
        for follower in (self._follower, self._transactions, self._streams, self._connections, self.stories):
            if follower not in followers:
                followers.append(follower)
        followers[followers.index(self._follower)] = Listener(self._follower, self._followed)
        followers[followers.index(self._transactions)] = Listener(self._transactions, self._exchanged)
        followers[followers.index(self._streams)] = Listener(self._streams, self._streamed)
        self.model.answers.messages = self._messages = MessageTable(self._streams)
        followers.append(self._messages)
        if answering(self.model.reading.catalog):
            followers.append(PluginsFollower(self.model.answers))

    def _followed(self, event: object) -> None:
        if isinstance(event, ChunkFollowed):
            self._placed.update(event.smps.slot[event.smps.smps.pure[event.smps.index]].tolist())

    def _asked(self) -> list[tuple[str, int]]:
        nodes = self._follower.subnet.slots
        named = {slot: printable(node_name(nodes[slot])) for slot in self._placed if slot in nodes}
        return [(named.get(slot, "unknown places"), count) for slot, count in self._placed.most_common()]

    def _senders(self) -> list[str]:
        homes = [origin.home.now for origin in self._follower.routes.origins.values()]
        return sorted({printable(node_name(home[0])) for home in homes if home is not None})

    def _exchanged(self, event: object) -> None:
        self.model.answers.take(event)
        self.exchanges.count(event, pairs=True)

    def _streamed(self, event: object) -> None:
        several = self.model.delays is not None  # every point has the packet
        if isinstance(event, Repeated) and len(self.repeated) < MAX_REPEATED and not several:
            self.repeated.update(event.frames)

    def _feed(self, table: ChunkTable) -> None:
        model = self.model
        self._linter.leave_out(table)
        model.reading.learn(table)
        selection = self.options.selection
        selected = selection.rows(table) if selection is not None else None
        self._linter.feed(table, selected)
        self.checked += len(table) if selected is None else int(np.count_nonzero(selected))
        # Frames are counted with the copies that the linter left out, as `stats` does; all else without.
        self.traffic.feed(model.reading.table_of(table.chunk) if self._linter.left_out(table) else table, selected)
        self.flows.feed(table)
        model.findings.settle()

    def _foresee(self) -> None:
        """All frames that are there were studied: find also what only the end of a growing capture shows, as if it ended now."""
        model, begun = self.model, time.monotonic()
        if model.complete or self._foreseen_to == self.done or begun < self._foreseen_next:
            return

        def wanted() -> bool:
            self._answer()
            return not (model.stopped or model.complete)

        found = foresee(model, self.options, self.done, wanted)
        self._foreseen_next = time.monotonic() + max(FORESEEN, PAUSES * (time.monotonic() - begun))
        if found is not None:
            self._foreseen, self._foreseen_to = found, self.done
            self._count()
            model.findings.foresee(found.occurrences)

    def want(self, answer: Callable[[Snapshot], None]) -> None:
        """Ask for a snapshot; `answer` is called from the study's thread, soon."""
        self._questions.put(answer)

    def close(self) -> None:
        self._questions.put(None)

    def _answer(self) -> None:
        """Answer those who asked while the study runs."""
        if self._questions.empty():
            return
        if (answer := self._questions.get()) is not None:
            answer(self.snapshot())

    def snapshot(self) -> Snapshot:
        """The numbers now. Call it only in the thread that feeds, or when none does."""
        conversations = conversations_of(self.flows.snapshot(), self._streams, self._connections)
        add_messages(conversations, self._messages)
        fabric = view_of(self._follower.subnet, self._linter.context.files, self.traffic.traffic.lids["source"].frames)
        return Snapshot(
            self.done, self.traffic.view(), conversations, self.exchanges.busiest(), self.exchanges.busiest_kinds(), fabric, self._asked(),
            self._senders(),
        )  # fmt: skip

    @property
    def subnet(self) -> Subnet:
        """The subnet as learnt so far; another thread keeps adding to it."""
        return self._follower.subnet

    @property
    def connections(self) -> Connections:
        """Connections so far; another thread adds to them."""
        return self._connections

    def _found(self, finding: Finding) -> None:
        finding.severity = self.options.severity_of(self.rules[finding.code], finding.severity)
        self.model.reading.finish(finding)
        self.model.findings.add(finding)

    def _name_findings(self) -> None:
        """Give the sentences that name nobody the ends of their frame: only now is known where all routes lead."""
        from ibdissect.pipeline.senders_and_receivers import describe, name_ends  # a clean capture needs none of it

        model = self.model
        findings = model.findings.first()
        frames = sorted({one.frame for one in findings if 0 < one.frame <= model.index.frames})
        for start in range(0, len(frames), STEP):
            some = frames[start : start + STEP]
            lines = dict(zip(some, describe(model.table(some), np.arange(len(some))).values(), strict=True))
            for finding in findings:
                if finding.frame in lines:
                    finding.who, finding.context = lines[finding.frame]
        name_ends(findings, self.rules, self._follower)

    def _occurred(self, rule: Rule, own: Severity | None, finding: Finding | None, frames: Any, offset: Any, length: int) -> None:
        self.model.findings.take(type(rule), self.options.severity_of(rule, own), finding, frames, offset, length)

    def _name(self) -> None:
        state = state_of(self._follower)
        if state != self._named:
            from ibdissect.subnet.node_names import names_in  # not needed for the first rows

            self._named, self.names = state, names_in(self._follower.subnet)
            self.model.ends.names = self.names

    @property
    def ends(self) -> Ends:
        """Which nodes are at the ends of packets, as far as is known; another thread adds to it."""
        return self.model.ends

    def _count(self) -> None:
        self._name()
        if self._failures:
            self.model.error = self._failures.text()
        by_rule = Counter({code: tally.count for code, tally in self._linter.tally.items() if tally.count}) + self._foreseen.by_rule
        counts = self.options.totals(self._linter) + self._foreseen.counts
        self.model.findings.set_counts(by_rule, {level: counts[level] for level in Severity})
