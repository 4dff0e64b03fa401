"""How do rules run over a capture? Chunk by chunk, with a bound on the findings that are kept."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import KeptList
from ibdissect.capture.chunk import Damage
from ibdissect.dropped import Dropped
from ibdissect.fabric.division import Division
from ibdissect.fabric.file_lines import KnownFile
from ibdissect.fabric.refuted import Refuted
from ibdissect.failures import Failures
from ibdissect.table.copies import Copies
from ibdissect.table.locate import Bool
from ibdissect.table.rows import groups, held
from ibdissect.table.table import ChunkTable
from ibdissect.wire.spec import Struct

from .conditions import Conditions, flow_keys, hit_at
from .consequences import Consequences
from .file_evidence import doubt, outdated, with_lines
from .finding import Finding, Severity
from .rule import Again, Context, Hit, Rule, Seen, handlers
from .shown_frames import ShownFrames
from .tally import Tally

MAX_HELD = 65536
"""Hits that wait for the end of the capture."""
Occurred = Callable[[Rule, Severity | None, "Finding | None", Any, Any, int], object]
"""Called for every occurrence: rule, its severity if lower than the rule's, finding (None: beyond `max_findings`), frames int[n],
offset of the faulty bytes in each (int or int[n]) and their length, 0 if only the finding's field tells them."""


class Source:
    """State that follows the capture and emits events for rules; one class per kind of state, made by the context."""

    after: ClassVar[tuple[type[Any], ...]] = ()
    """Followers whose state this one reads: they are passed to its constructor and fed first."""

    unreliable: ClassVar[bool] = False
    """Whether the capture contradicts the state, so that rules that draw conclusions from it must be silent."""

    columns: ClassVar[tuple[Callable[[ChunkTable], Any], ...]] = ()
    """Functions it calls on every chunk through `table.once`; each depends on that chunk alone."""

    def feed(self, table: ChunkTable) -> Iterable[object]:
        """Process a chunk; return its events in frame order."""
        raise NotImplementedError


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
        on_occurrence: Occurred | None = None,
        failures: Failures | None = None,
    ) -> None:
        """`failures` collects what rules and followers raise, and the others go on; without it an exception ends the check."""
        self.failures = failures
        self.rules = [rule() for rule in rules]
        self.timing, self.on_occurrence = timing, on_occurrence
        self.dropped = Dropped("flows of one rule")
        self.consequences = Consequences(self.rules)
        self.context = Context(damage=damage, states=(self, self.consequences, *self.rules))
        self.copies = self.context.get(Copies)
        """Frames that a mirror delivered twice: no rule sees the second ones."""
        self.held: KeptList[tuple[Rule, Hit]] | None = KeptList(MAX_HELD, self.dropped)
        """Hits of rules that wait for the end, in order of discovery; None at the end."""
        self.tally: dict[str, Tally] = defaultdict(lambda: Tally(max_findings, on_finding, self.dropped))
        """By code, for rules with findings; with `timing` for all rules."""
        self.shown = ShownFrames()
        self.conditions = Conditions(self.rules, self._spent if timing else None)
        self.of_struct: list[tuple[Rule, type[Struct], Any]] = []
        self.of_event: dict[type[Any], list[tuple[Rule, Any]]] = {}
        self.of_chunk: list[tuple[Rule, Any]] = []
        self.at_end: list[tuple[Rule, Any]] = []
        for rule in self.rules if timing else ():
            self.tally[rule.code].seconds = 0.0
        for place, mark, listens, name in handlers(tuple(map(type, self.rules))):
            rule = self.rules[place]
            method = getattr(rule, name)
            if mark == "listens_to":
                self.of_struct += [(rule, struct, method) for struct in listens]
            elif mark == "listens_to_events":
                for event in listens:
                    self.of_event.setdefault(event, []).append((rule, method))
            else:
                (self.of_chunk if mark == "listens_to_chunks" else self.at_end).append((rule, method))
        wanted = {event.source for event in self.of_event if hasattr(event, "source")}
        wanted |= {kind for rule in self.rules for kind in rule.needs}
        self.sources: list[Source] = [self.context.get(kind) for kind in in_order(wanted)]
        self.parts: dict[int, Linter] = {}
        """Linters that check only the packets of one subnet each, by its number; 0: those of no certain one."""
        for source in self.sources:
            if hasattr(source, "hear"):
                source.hear(self.of_event)

    def know(self, files: Sequence[KnownFile]) -> None:
        """Set the subnet files whose facts the model holds before the first frame."""
        self.context.files = files
        refuted: Any = self.context.get(Refuted)
        self.sources.append(refuted)

    def feed(self, table: ChunkTable, shown: Bool | None = None) -> None:
        """Check a chunk; `shown` bool[n] limits the rows that are reported, but state is learnt from all rows."""
        table.once(self.copies.leave_out)
        self.mads = table.chunk.first, table.located.at("mad")
        if shown is not None:
            self.shown.choose(table, shown)
        if self.failures is not None and len(table):
            self.failures.window = table.chunk.first, table.chunk.first + len(table) - 1
        self._judge(table, shown)
        for source in tuple(self.sources):
            try:
                for event in source.feed(table):
                    for rule, method in self.of_event.get(type(event), ()):
                        self._take(rule, method, event, self.context)
            except Exception as error:  # its state is no longer reliable: drop it rather than report wrongly
                self._failed(type(source).__name__, error)
                self.sources.remove(source)
        for rule, struct, method in self.of_struct:
            self._timed(rule, self._structs, table, struct, method)
        for rule, method in self.of_chunk:
            self._take(rule, method, table, self.context)
        if self.parts:
            numbers = self.context.get(Division).of(table)
            for number, part in self.parts.items():
                part.feed(table.limited(numbers == number), shown)

    def prepare(self, table: ChunkTable) -> None:
        """Compute what needs no state ahead of `feed`; another thread may call it while earlier chunks are checked."""
        table.once(self.copies.leave_out)
        table.once(self.conditions.holding)
        for source in self.sources:
            for derive in getattr(source, "columns", ()):
                table.once(derive)

    def finish(self) -> list[Finding]:
        """All findings, ordered by frame and code."""
        if self.failures is not None:
            self.failures.window = 0, 0
        for part in self.parts.values():
            self._finish(part)
        self._settle()
        self._doubt()
        for rule, method in sorted(self.at_end, key=lambda entry: entry[0].code in self.consequences.causes):
            self._take(rule, method, self.context)
        for code in self._baseless():
            self.tally.pop(code, None)
        found = [finding for tally in self.tally.values() for finding in tally.findings]
        return sorted(found, key=lambda f: (f.frame, f.code))

    def _finish(self, part: Linter) -> None:
        """Take over what was found in one subnet."""
        part.finish()
        self.context.states = (*self.context.states, *part.context.states, *part.context.sources.values())
        for code, found in part.tally.items():
            self.tally[code].join(found)

    def _doubt(self) -> None:
        """Lower findings that rely on files which the traffic refutes to infos."""
        lines = [line for *_, lines in self.context.get(Refuted).lines() for line in lines] if self.context.files else []
        paths = outdated(self.context.files, lines)
        for tally in self.tally.values() if paths else ():
            for finding in {id(one): one for one in (*tally.findings, *tally.flows.values())}.values():
                before = finding.severity
                if doubt(finding, paths) and before is not Severity.INFO:
                    tally.lowered[Severity.INFO] += 1
                    tally.lowered[before] -= before in tally.lowered

    def _settle(self) -> None:
        """Report the hits that waited for the end."""
        held, self.held = self.held, None
        for rule, hit in held or ():
            self._hits(rule, [hit])

    def _baseless(self) -> set[str]:
        """Rules that draw conclusions from state that proved unreliable."""
        return {
            rule.code
            for event, takers in self.of_event.items()
            if getattr(event, "concludes", False) and getattr(self.context.sources.get(event.source), "unreliable", False)
            for rule, _ in takers
        }

    def _judge(self, table: ChunkTable, shown: Bool | None) -> None:
        """Report where the conditions of stateless rules hold."""
        found, left = table.once(self.conditions.holding)
        for rule in left:
            try:
                found += self.conditions.of_rules(rule.on, [rule], table)
            except Exception as error:
                self._failed(f"rule {rule.code}", error)
        for rule, hits in sorted(found, key=lambda one: one[0].code in self.consequences.causes):
            self._timed(rule, self._report, table, hits, shown)

    def _report(self, rule: Rule, table: ChunkTable, hits: Bool, shown: Bool | None) -> None:
        rows = np.arange(len(hits)) if rule.on is None else table.occurrences(rule.on).rows
        hits = hits if shown is None else hits & shown[rows]
        if self.consequences.causes.get(rule.code):
            explained = [row for row in rows[hits].tolist() if self.consequences.explained(rule, table.chunk.first + row)]
            hits = hits & ~held(rows, np.array(explained, np.int64))
        (self._frames if rule.on is None else self._stateless)(rule, table, hits)
        for row in rows[hits].tolist() if rule.explains else ():
            self.consequences.note(rule, table.chunk.first + row)

    def _spent(self, rule: Rule, seconds: float) -> None:
        self.tally[rule.code].seconds += seconds

    def _timed(self, rule: Rule, work: Any, *args: Any) -> None:
        start = time.perf_counter() if self.timing else 0.0
        try:
            work(rule, *args)
        except Exception as error:
            self._failed(f"rule {rule.code}", error)
        if self.timing:
            self._spent(rule, time.perf_counter() - start)

    def _failed(self, who: str, error: Exception, frame: int | None = None) -> None:
        if self.failures is None:
            raise error
        self.failures.add(who, error, frame)

    def _stateless(self, rule: Rule, table: ChunkTable, hits: Bool) -> None:
        """Findings of a condition on a structure: one per frame, or one per flow."""
        assert rule.on is not None
        index = np.flatnonzero(hits)
        if not index.size:
            return
        if rule.flow:
            self._flows(rule, table, index)
            return
        rows, first, entries = np.unique(table.occurrences(rule.on).rows[index], return_index=True, return_counts=True)
        tally = self.tally[rule.code]
        room = tally.room(len(rows))
        for start, number in zip(first[:room].tolist(), entries[:room].tolist(), strict=True):
            finding = self._made(rule, hit_at(rule, table, index[start : start + number]))
            tally.keep(finding)
            self._occurred(rule, table, finding, index[start : start + 1])
        self._occurred(rule, table, None, index[first[room:]])

    def _frames(self, rule: Rule, table: ChunkTable, hits: Bool) -> None:
        """Findings of a condition on whole frames: one per frame; the rule describes only those that are kept."""
        rows = np.flatnonzero(hits)
        tally = self.tally[rule.code]
        room = tally.room(len(rows))
        for row in rows[:room].tolist():
            seen = Seen(table, row)
            try:
                hit = rule.of_frame(seen)
                finding = self._made(rule, hit)
                tally.keep(finding)
                self._occurred_in(rule, hit, finding)
            except Exception as error:
                self._failed(f"rule {rule.code}", error, seen.frame)
        if self.on_occurrence is not None and room < len(rows):
            self.on_occurrence(rule, None, None, rows[room:] + table.chunk.first, 0, 0)

    def _flows(self, rule: Rule, table: ChunkTable, index: npt.NDArray[np.int64]) -> None:
        """One finding per flow: hits with the same values in the rule's flow fields."""
        assert rule.on is not None
        keys = flow_keys(rule, table, table.occurrences(rule.on).rows[index])
        first, inverse = groups(list(keys.T))
        tally = self.tally[rule.code]
        counts = np.bincount(inverse)
        for i in np.argsort(first, kind="stable").tolist():
            key = keys[first[i]].tobytes()
            known = tally.flows.get(key)
            if known is not None:
                known.count += int(counts[i])
            else:
                known = self._made(rule, hit_at(rule, table, index[first[i : i + 1]]))
                known.count = int(counts[i])
                tally.keep_flow(key, known)
            if self.on_occurrence is not None:
                self._occurred(rule, table, known, index[inverse == i])

    def _occurred(self, rule: Rule, table: ChunkTable, finding: Finding | None, entries: npt.NDArray[np.int64]) -> None:
        """Tell of occurrences of `rule.on`."""
        if self.on_occurrence is None or not len(entries):
            return
        assert rule.on is not None
        found, at = table.occurrences(rule.on), rule.at
        rows = found.rows[entries]
        own = at is not None and at.owner is rule.on
        low, high = at.span if at is not None and own else (0, 0)
        offsets = found.at[entries] - table.chunk.offset[rows] + low if own else 0
        self.on_occurrence(rule, None, finding, rows + table.chunk.first, offsets, high - low)

    def _occurred_in(self, rule: Rule, hit: Hit | Again, finding: Finding | None) -> None:
        """Tell of the frames of a hit."""
        if self.on_occurrence is None:
            return
        frames = hit.frames if isinstance(hit, Hit) and len(hit.frames) else (hit.frame,)
        span = next((one for one in hit.spans if one.frame == hit.frame), None) if isinstance(hit, Hit) and len(frames) == 1 else None
        lowered = hit.severity if isinstance(hit, Hit) else None
        self.on_occurrence(rule, lowered, finding, frames, span.offset if span else 0, span.length if span else 0)

    def _structs(self, rule: Rule, table: ChunkTable, struct: type[Struct], method: Any) -> None:
        found = table.occurrences(struct)
        for i, row in enumerate(found.rows.tolist()):
            self._take(rule, method, table.view(struct, i), Seen(table, row))

    def _take(self, rule: Rule, method: Callable[..., Iterable[Hit | Again] | None], *arguments: Any) -> None:
        """Run a handler and keep its hits."""
        try:
            self._hits(rule, method(*arguments) or ())
        except Exception as error:
            frame = next((one.frame for one in arguments if isinstance(getattr(one, "frame", None), int)), None)
            self._failed(f"rule {rule.code}", error, frame)

    def _hits(self, rule: Rule, hits: Iterable[Hit | Again]) -> None:
        if rule.explains:
            hits = map(self._with_mads, hits)
        if rule.waits:
            waiting = [hit.made() if isinstance(hit, Again) else hit for hit in hits]
            if self.held is not None:
                for one in waiting:
                    if self.on_occurrence is None:
                        one.frames = ()
                    self.held.keep((rule, one), one.frame, one.time_ns)
                return
            for one in waiting:
                one.severity = one.severity or rule.severity_at_end(one, self.context)
            hits = [one for one in waiting if rule.stands(one, self.context)]
        for hit in hits:
            tally = self.tally[rule.code]
            if hit.frame not in self.shown or self.consequences.explained(rule, hit.frame):
                continue
            for frame in (hit.frame, *(hit.mads if isinstance(hit, Hit) else ())):
                self.consequences.note(rule, frame)
            hit = hit if isinstance(hit, Again) else with_lines(hit, self.context.files)
            lowered = None if isinstance(hit, Again) else hit.severity
            key = hit.key
            if lowered is not None and key is not None and not (rule.waits and key in tally.flows):
                key = key, lowered  # one finding for certain hits; rules that wait also count the others in it
            if key is not None:
                known = tally.flows.get(key)
                if known is not None:
                    known.count += hit.count
                    self._occurred_in(rule, hit, known)
                    continue
            if isinstance(hit, Again):
                hit = with_lines(hit.made(), self.context.files)
                lowered = hit.severity
            if lowered is not None:
                tally.lowered[lowered] += 1
            finding = None
            if key is not None:
                finding = self._made(rule, hit)
                tally.keep_flow(key, finding)
            else:
                if tally.room(1):
                    finding = self._made(rule, hit)
                    tally.keep(finding)
            self._occurred_in(rule, hit, finding)

    def _with_mads(self, hit: Hit | Again) -> Hit | Again:
        if isinstance(hit, Hit) and len(hit.frames) > 1 and not len(hit.mads):
            first, mad = self.mads
            rows = np.asarray(hit.frames) - first
            rows = rows[(rows >= 0) & (rows < len(mad))]
            hit.mads = (rows[mad[rows] >= 0] + first).tolist()
        return hit

    def _made(self, rule: Rule, hit: Hit) -> Finding:
        finding = Finding(
            code=rule.code,
            name=rule.name,
            severity=hit.severity or rule.severity,
            frame=hit.frame,
            time_ns=hit.time_ns,
            template=hit.message or rule.message,
            arguments=hit.arguments,
            field=hit.field.filter_name if hit.field is not None else None,
            value=hit.value,
            spans=hit.spans,
            related=hit.related,
            evidence=hit.evidence,
            count=hit.count,
            reference=rule.reference,
        )
        self.consequences.note(rule, hit.frame, finding)
        return finding


def in_order(kinds: Iterable[type[Any]]) -> list[type[Any]]:
    """Follower classes with their `after` dependencies, dependencies first, otherwise by name."""
    ordered: dict[type[Any], None] = {}

    def add(kind: type[Any]) -> None:
        for earlier in getattr(kind, "after", ()):
            add(earlier)
        ordered.setdefault(kind)

    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        add(kind)
    return list(ordered)
