"""The linter, which runs rules over a capture chunk by chunk: conditions, followers and their events, handlers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from ibdissect.capture.chunk import Damage
from ibdissect.decode import Bool, ChunkTable, Int, crcs, not_roce
from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.decode.inner_structures import in_frame_order
from ibdissect.decode.mirror_copies import Copies
from ibdissect.decode.networks import Networks
from ibdissect.decode.repeated_smps import contents
from ibdissect.failures import Failures
from ibdissect.plugin_timeout import PATIENCE_OF_RULES_S, patient
from ibdissect.subnet import ChunkFollowed
from ibdissect.subnet.earlier_answers import PortInfos
from ibdissect.subnet.file_lines import KnownFile
from ibdissect.subnet.refuted_facts import Refuted
from ibdissect.subnet.separate_subnets import SubnetMap
from ibdissect.wire.keys_read import KeysRead, watching
from ibdissect.wire.spec import Struct

from .chunk_with_pdus import ChunkWithPdus
from .finding import Finding
from .findings_from_hits import Grouping, OnOccurrence
from .handlers import Handler, handlers
from .hidden_keys import hide
from .inapplicable_components import PortFacts, applying, port_facts
from .rule import Context, DeferredHit, Hit, Rule, Seen
from .stateless_rules import Conditions, HeldInPart, judged


class Follower(Protocol):
    """State that follows the capture and emits events for rules. `Context.get` makes one instance a capture."""

    after: ClassVar[tuple[type[Any], ...]] = ()
    """Followers whose state this one reads: they are passed to its constructor and fed first."""

    unreliable: ClassVar[bool] = False
    """Whether the capture contradicts the state, so that rules that draw conclusions from it must be silent."""

    def feed(self, table: ChunkTable) -> Iterable[object]:
        """Process a chunk; return its events in frame order."""
        raise NotImplementedError


MOST_HITS = 1 << 20
"""Hits that a plugin's handler may give at once, for an event or a window."""
Held = list[tuple[Rule, ChunkTable, Bool]]


class Linter:
    """Runs rules over the chunks of one capture. `feed` every chunk in order, then `finish`."""

    def __init__(
        self,
        rules: Iterable[type[Rule]],
        *,
        max_findings: int | None = 100,
        damage: Sequence[Damage] = (),
        timing: bool = False,
        on_finding: Callable[[Finding], None] | None = None,
        on_occurrence: OnOccurrence | None = None,
        failures: Failures | None = None,
        causes: Sequence[type[Rule]] = (),
    ) -> None:
        """`failures` collects the exceptions of rules and followers; without it an exception ends the check.

        `causes`: rules that run, too, but report nothing: they explain what `rules` find.
        """
        self.failures = failures
        unreported = {rule.code for rule in causes}
        self.rules = [rule() for rule in (*rules, *causes)]
        self.timing = timing
        self.context = Context(damage=damage)
        self.findings = Grouping(self.rules, self.context, max_findings, on_finding, on_occurrence, self._note_failure, unreported)
        made = self.findings
        self.context.states = (made, made.waiting, made.consequences, made.past, made.damaged, *self.rules)
        self.tally = self.findings.tally
        self.copies = self.context.get(Copies)
        """Frames that a mirror delivered twice: no rule sees the second ones."""
        self.handlers = handlers(tuple(map(type, self.rules)))
        by_struct = {struct: [self.rules[place] for place in places] for struct, places in self.handlers.conditions.items()}
        self.conditions = Conditions(by_struct, self.handlers.about_ports, self._note_failure, self._add_time if timing else None)
        for rule in self.rules if timing else ():
            self.tally[rule.code].seconds = 0.0
        self.port_facts: PortFacts | None = None
        """What the present chunk's SMPs are about."""
        self.followers: list[Follower] = []
        for kind in self.handlers.followers:
            self.follow(kind)
        self.parts: dict[int, Linter] = {}
        """By number of the subnet: a linter for its packets alone; 0: for packets whose subnet is not certain."""

    def follow(self, kind: type[Any]) -> None:
        """Feed a follower, too, whether or not a rule needs it."""
        follower = self.context.get(kind)
        if follower in self.followers:
            return
        if hasattr(follower, "emit_only"):
            follower.emit_only({*self.handlers.of_event, *self.handlers.learning})
        self.followers.append(follower)

    def know(self, files: Sequence[KnownFile]) -> None:
        """Set the subnet files whose facts the model holds before the first frame."""
        self.context.files = files
        refuted: Any = self.context.get(Refuted)
        self.followers.append(refuted)

    def feed(self, table: ChunkTable, selected: Bool | None = None) -> None:
        """Check a chunk; `selected` bool[n] limits the rows that are reported, but state is learnt from all rows."""
        self.leave_out(table)
        self._check(table, selected)

    def _check(self, table: ChunkTable, selected: Bool | None) -> None:
        """Check the packets that count, of all or of one subnet."""
        networks: Networks = self.context.get(Networks)
        table.once(networks.tell_apart)
        self.context.catalog, self.context.table = table.catalog, table
        if selected is not None:
            self.findings.selected.choose(table, selected)
        if self.failures is not None and len(table):
            self.failures.window = table.chunk.first, table.chunk.first + len(table) - 1
        self.findings.past.feed(table)
        self._check_conditions(table, selected, 0, of_ports=False)
        self.findings.damaged.feed(table)
        for follower in tuple(self.followers):
            try:
                for event in follower.feed(table):
                    if isinstance(event, ChunkFollowed) and self.handlers.about_ports:
                        self.port_facts = port_facts(event, self.context.get(PortInfos))
                    self._learn(event)
                    for handler in self.handlers.of_event.get(type(event), ()):
                        self._take(handler, event, self.context)
            except Exception as error:  # its state is no longer reliable: drop it rather than report wrongly
                self._note_failure(type(follower).__name__, error)
                self.followers.remove(follower)
        self._check_conditions(table, selected, 0, of_ports=True)
        for handler, structs in self.handlers.of_structs:
            self._run_timed(self.rules[handler[0]], self._handle_structs, table, structs, handler)
        self._learn(table)
        for handler in self.handlers.of_chunk:
            ours = handler[1].__module__.startswith("ibdissect.")
            self._take(handler, table if ours else ChunkWithPdus(table), self.context)
        for rank in range(1, self.findings.consequences.last + 1):
            self._check_conditions(table, selected, rank)
            self.findings.take_rank(rank)
        if self.parts:
            division: SubnetMap = self.context.get(SubnetMap)
            numbers, again = division.of(table), table.remarked
            copies = division.of(again.table) if again is not None else numbers
            for number, part in self.parts.items():
                mine = table.only_rows(numbers == number)
                mine.remarked = again.only(copies == number) if again is not None else None
                part._check(mine, selected)
        self.findings.consequences.trim()
        if self.port_facts is not None:
            self.port_facts.close()
        self.context.table = self.port_facts = None  # its memory is used again

    def leave_out(self, table: ChunkTable) -> None:
        """Leave out what no rule sees: copies, and datagrams that are no RoCE. Before anybody asks what is in a chunk."""
        table.once(self.copies.leave_out)
        table.once(not_roce.leave_out)

    def left_out(self, table: ChunkTable) -> bool:
        """Whether frames of a chunk were left out, so that its columns lack their addresses."""
        return bool(len(table.once(self.copies.leave_out).rows) or len(table.once(not_roce.leave_out)))

    def prepare(self, table: ChunkTable) -> None:
        """Compute the CRCs of a chunk, if rules need them. Another thread may call it while earlier chunks are checked.

        Only long steps that let other Python code run are worth a thread. More, such as conditions, takes more CPU time and is no faster.
        """
        self.leave_out(table)
        if any(rule.needs_crc for rule in self.rules):
            table.once(crcs.icrc)
            table.once(crcs.vcrc)

    def awaited(self) -> list[int]:
        """Frames of hits that began to wait for the end of the capture since the last call."""
        return [frame for one in (self, *self.parts.values()) for frame in one.findings.waiting.newly()]

    def finish(self) -> list[Finding]:
        """All findings, ordered by frame and code."""
        if self.failures is not None:
            self.failures.window, self.failures.ended = (0, 0), True
        self.context.get(LaneFollower).finish()
        for part in self.parts.values():
            self._finish(part)
        unreliable = self._unreliable()
        settle, ranks = self.findings.settle(unreliable), self.findings.consequences.ranks
        for rank in range(self.findings.consequences.last + 1):
            settle(rank)
            for handler in self.handlers.at_end:
                code = self.rules[handler[0]].code
                if code not in unreliable and ranks.get(code, 0) == rank:
                    self._take(handler, self.context)
        if self.context.files:
            self.findings.lower(line for *_, lines in self.context.get(Refuted).lines() for line in lines)
        for code in unreliable:
            self.tally.pop(code, None)
        found = [finding for tally in self.tally.values() for finding in tally.findings]
        return sorted(found, key=lambda f: (f.frame, f.code))

    def _unreliable(self) -> set[str]:
        """Rules that draw conclusions from state that proved unreliable: they report nothing, and explain nothing."""
        kinds = self.handlers.conclusions.items()
        return {code for kind, codes in kinds if getattr(self.context.sources.get(kind), "unreliable", False) for code in codes}

    def close(self) -> None:
        """Forget everything. Its parts refer to each other, so that only the garbage collector would free their memory, and slowly."""
        for part in self.parts.values():
            part.close()
        self.context.sources.clear()
        self.context.states = ()
        vars(self).clear()

    def _finish(self, part: Linter) -> None:
        """Take over what was found in one subnet."""
        part.finish()
        self.context.states = (*self.context.states, *part.context.states, *part.context.sources.values())
        for code, found in part.tally.items():
            self.tally[code].join(found)

    def _check_conditions(self, table: ChunkTable, selected: Bool | None, rank: int, of_ports: bool | None = None) -> None:
        """Report where the conditions of stateless rules of one rank hold: rank 0 before all handlers, others after their causes.

        `of_ports`: only those that ask whether a component applies, which the followers know; False: only the others."""
        ranks, about_ports = self.findings.consequences.ranks, self.handlers.about_ports
        asked = (self._of_packets, self._of_ports) if of_ports is None else (self._of_ports if of_ports else self._of_packets,)
        joined, found = table.once(self._joined), [one for holding in asked for one in table.once(holding)]
        held = [(rule, table if rest is None else rest, hits) for rule, rest, hits in found if ranks.get(rule.code, 0) == rank]
        if table.remarked is not None:
            held += self._of_marks(table.remarked.marked_first, rank)
        for rule, where, hits in self._with_joined(joined, held, rank) if joined else held:
            if of_ports is None or of_ports == (rule.code in about_ports):
                self._run_timed(rule, self._take_rows, where, hits, selected)

    def _of_packets(self, table: ChunkTable) -> HeldInPart:
        return self.conditions.holding(table, self._content(table, of_ports=False), of_ports=False)

    def _of_ports(self, table: ChunkTable) -> HeldInPart:
        return self.conditions.holding(table, self._content(table, of_ports=True), of_ports=True)

    def _content(self, table: ChunkTable, *, of_ports: bool) -> Int | None:
        """What rules about one packet ask of each row; None if it is unknown."""
        if table.once(self._joined) or (of_ports and self.port_facts is None):
            return None
        found = table.once(contents)
        return self.port_facts.with_content(found) if of_ports and self.port_facts is not None else found

    def _take_rows(self, rule: Rule, table: ChunkTable, hits: Bool, selected: Bool | None) -> None:
        of_ports = rule.code in self.handlers.about_ports
        if of_ports:
            assert rule.when is not None
            hits = applying(table, rule.on, rule.when, rule.ports, hits, self.port_facts)
        if hits.any():
            content = self._content(table, of_ports=of_ports)
            if content is not None:
                self.conditions.blame(rule, content[hits if rule.on is None else table.occurrences(rule.on).rows[hits]])
            self.findings.take_rows(rule, table, hits, selected)

    def _joined(self, table: ChunkTable) -> dict[type[Struct] | None, tuple[ChunkTable, Bool]]:
        """Structures of rules that are in records that straddle segments: the table with these, and which occurrences in it are judged."""
        if not table.completes:
            return {}
        shown = table.shown
        return {struct: (shown, known) for struct in self.handlers.conditions if (known := judged(table, shown, struct)) is not None}

    def _of_marks(self, copies: ChunkTable, rank: int) -> Held:
        """Rules about marks in the BTH, the table of copies that are the first to show one, and where they hold in it."""
        ranks = self.findings.consequences.ranks
        rules = [rule for rule in self.rules if rule.of_marks and ranks.get(rule.code, 0) == rank]
        return [(rule, copies, hits) for one in rules for rule, hits in self.conditions.of_rules(one.on, [one], copies)]

    def _with_joined(self, joined: dict[type[Struct] | None, tuple[ChunkTable, Bool]], held: Held, rank: int) -> Held:
        """The same rules, the table that they hold in, and where; also those that hold in records that straddle segments."""
        ranks = self.findings.consequences.ranks
        held = [one for one in held if one[0].on not in joined]
        for struct, (shown, known) in joined.items():
            rules = self.conditions.by_struct[struct]
            found = self.conditions.of_rules(struct, [rule for rule in rules if ranks.get(rule.code, 0) == rank], shown)
            held += [(rule, shown, hits & known) for rule, hits in found]
        return held

    def _add_time(self, rule: Rule, seconds: float) -> None:
        self.tally[rule.code].seconds += seconds

    def _run_timed(self, rule: Rule, work: Any, *args: Any) -> None:
        start = time.perf_counter() if self.timing else 0.0
        try:
            work(rule, *args)
        except Exception as error:
            self._note_failure(f"rule {rule.code}", error)
        if self.timing:
            self._add_time(rule, time.perf_counter() - start)

    def _learn(self, event: object) -> None:
        """Let state that rules share learn from an event or a table, before any of them handles it."""
        for kind in self.handlers.learning.get(type(event), ()):
            try:
                self.context.get(kind).take(event)
            except Exception as error:
                self._note_failure(kind.__name__, error)

    def _note_failure(self, who: str, error: Exception, frame: int | None = None) -> None:
        if self.failures is None:
            raise error
        self.failures.add(who, error, frame)

    def _handle_structs(self, _rule: Rule, table: ChunkTable, structs: tuple[type[Struct], ...], handler: Handler) -> None:
        for row, struct, i, where in in_frame_order(table, structs):
            self._take(handler, where.view(struct, i), Seen(where, row))

    def _take(self, handler: Handler, *arguments: Any) -> None:
        """Run a handler and keep its hits."""
        rule = self.rules[handler[0]]
        try:
            if not type(rule).__module__.startswith("ibdissect."):
                keys, hidden = vars(rule).setdefault("keys_read", KeysRead()), self.failures is None or not self.failures.show_keys
                with patient(handler[1], PATIENCE_OF_RULES_S), watching(keys, hidden):
                    hits = handler[1](rule, *arguments)
                    if hits is not None or not handler[1].__module__.startswith("ibdissect."):  # what it inherits may only learn
                        self._keep(rule, (hide(hit, keys) for hit in self._checked(handler[1], hits)))
            elif (hits := handler[1](rule, *arguments)) is not None:
                self._keep(rule, hits)
        except Exception as error:
            frame = next((one.frame for one in arguments if isinstance(getattr(one, "frame", None), int)), None)
            self._note_failure(f"rule {rule.code}", error, frame)

    def _keep(self, rule: Rule, hits: Any) -> None:
        self.findings.take(rule, map(self._with_mads, hits) if rule.explains else hits)

    def _checked(self, method: Callable[..., Any], hits: Any) -> Iterator[Hit | DeferredHit]:
        """What a plugin's handler gives; raises TypeError or ValueError if that is no hit, or at a frame that the capture does not have."""
        if hits is None:
            raise TypeError(f"{method.__name__} returned nothing; write `yield`, or return a list")
        table = self.context.table
        for number, hit in enumerate(hits):
            if number == MOST_HITS:
                raise ValueError(f"{method.__name__} gave more than a million hits at once; the others were left out")
            if not isinstance(hit, (Hit, DeferredHit)):
                raise TypeError(f"{method.__name__} gave {type(hit).__name__}, which is no hit; yield fault(...)")
            if hit.frame < 0 or (table is not None and hit.frame >= table.chunk.first + len(table)):
                raise ValueError(f"{method.__name__} reports frame {hit.frame}, which was not read")
            yield hit

    def _with_mads(self, hit: Hit | DeferredHit) -> Hit | DeferredHit:
        table = self.context.table
        if table is not None and isinstance(hit, Hit) and len(hit.frames) > 1 and not len(hit.mads):
            rows = np.asarray(hit.frames) - table.chunk.first
            rows = rows[(rows >= 0) & (rows < len(table))]
            hit.mads = [hit.frame, *(rows[table.located.at("mad")[rows] >= 0] + table.chunk.first).tolist()]
        return hit
