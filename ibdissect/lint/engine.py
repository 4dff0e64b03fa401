"""The loop that runs the rules over a capture, chunk by chunk, and keeps what they find within bounds."""

from __future__ import annotations

import string
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import Damage
from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.table.distinct import groups
from ibdissect.table.mask import Judged, rows_where
from ibdissect.table.table import ChunkTable
from ibdissect.wire.spec import Struct

from .finding import Finding, Span, value_of
from .rule import Again, Hit, Rule, Seen, handlers

Bool = npt.NDArray[np.bool_]
MAX_FLOWS = 65536
"""Flow keys remembered per rule; beyond it the oldest is forgotten and its next hit starts a new finding."""


@record(frozen=False)
class Context:
    """What every rule may know besides the chunk at hand."""

    sources: dict[type[Any], Any] = field(default_factory=dict)
    """Shared state by its class: `context.get(Subnet)` is the subnet as learnt so far."""
    damage: Sequence[Damage] = ()
    """Broken places of the container, as the reader meets them."""
    states: Sequence[object] = ()
    """Who else may forget: the linter and its rules."""

    def get(self, kind: type[Any]) -> Any:
        """The one instance of a state class, made on first use."""
        found = self.sources.get(kind)
        if found is None:
            found = self.sources[kind] = kind()
        return found

    def dropped(self) -> Iterator[Dropped]:
        """What bounds made anybody forget."""
        for state in (*self.sources.values(), *self.states):
            said = getattr(state, "dropped", None)
            if said is not None:  # hardly any rule keeps state
                yield from (one for one in (said if isinstance(said, tuple) else (said,)) if isinstance(one, Dropped) and one.count)


@record(frozen=False)
class Tally:
    """What a rule found in a capture: the exact number, and the first findings."""

    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    flows: dict[Any, Finding] = field(default_factory=dict)
    seconds: float = 0.0


class Source:
    """State that follows the capture and tells rules about events; one class per kind of state, made by the context."""

    def feed(self, table: ChunkTable) -> Iterable[object]:
        """Take in a chunk; return what happened, in frame order."""
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
    ) -> None:
        self.rules = [rule() for rule in rules]
        self.max_findings, self.timing, self.on_finding = max_findings, timing, on_finding
        self.dropped = Dropped("flows of one rule")
        self.context = Context(damage=damage, states=(self, *self.rules))
        self.tally: dict[str, Tally] = defaultdict(Tally)
        """By code, of rules that found or, with `timing`, may find something."""
        self.shown: list[tuple[int, int, npt.NDArray[np.uint8]]] = []
        """First frame and length of each chunk that was limited, and which frames are reported, a bit each."""
        self.stateless: dict[type[Struct] | None, list[Rule]] = {}
        """Rules that are a condition, by the structure that they judge."""
        self.of_struct: list[tuple[Rule, type[Struct], Any]] = []
        self.of_event: dict[type[Any], list[tuple[Rule, Any]]] = {}
        self.of_chunk: list[tuple[Rule, Any]] = []
        self.at_end: list[tuple[Rule, Any]] = []
        for rule in self.rules:
            if timing:
                self.tally[rule.code] = Tally()
            if rule.when is not None:
                self.stateless.setdefault(rule.on, []).append(rule)
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
        self.sources: list[Source] = [self.context.get(kind) for kind in sorted(wanted, key=lambda kind: kind.__name__)]
        for source in self.sources:
            if hasattr(source, "hear"):
                source.hear(self.of_event)

    def feed(self, table: ChunkTable, shown: Bool | None = None) -> None:
        """Judge a chunk; `shown` bool[n] limits what is reported, knowledge is learnt from all rows."""
        if shown is not None:
            self.shown.append((table.chunk.first, len(shown), np.packbits(shown)))
        self._judge(table, shown)
        for source in self.sources:
            for event in source.feed(table):
                for rule, method in self.of_event.get(type(event), ()):
                    self._take(rule, method(event, self.context))
        for rule, struct, method in self.of_struct:
            self._timed(rule, self._structs, table, struct, method)
        for rule, method in self.of_chunk:
            self._take(rule, method(table, self.context))

    def finish(self) -> list[Finding]:
        """Everything found, ordered by frame and code."""
        for rule, method in self.at_end:
            self._take(rule, method(self.context))
        found = [finding for tally in self.tally.values() for finding in tally.findings]
        return sorted(found, key=lambda f: (f.frame, f.code))

    def _judge(self, table: ChunkTable, shown: Bool | None) -> None:
        """Ask the conditions: those of one structure together, none where it does not occur."""
        for struct, rules in self.stateless.items():
            if struct is None:
                for rule in rules:
                    self._timed(rule, self._frames, table, shown)
            elif len(table.occurrences(struct)):
                judged = Judged(table, struct)
                for rule in rules:
                    self._timed(rule, self._stateless, table, judged, shown)

    def _timed(self, rule: Rule, work: Any, *args: Any) -> None:
        if not self.timing:
            work(rule, *args)
            return
        start = time.perf_counter()
        work(rule, *args)
        self.tally[rule.code].seconds += time.perf_counter() - start

    def _stateless(self, rule: Rule, table: ChunkTable, judged: Judged, shown: Bool | None) -> None:
        assert rule.when is not None and rule.on is not None
        hits = judged.mask(rule.when)
        if not np.count_nonzero(hits):
            return
        found = table.occurrences(rule.on)
        if shown is not None:
            hits = hits & shown[found.rows]
        index = np.flatnonzero(hits)
        if not index.size:
            return
        if rule.flow:
            self._flows(rule, table, index)
            return
        rows, first, entries = np.unique(found.rows[index], return_index=True, return_counts=True)
        tally = self.tally[rule.code]
        tally.count += len(rows)
        room = len(rows) if self.max_findings is None else max(0, self.max_findings - len(tally.findings))
        for start, number in zip(first[:room].tolist(), entries[:room].tolist(), strict=True):
            self._keep(tally, self._finding(rule, table, index[start : start + number].tolist()))

    def _frames(self, rule: Rule, table: ChunkTable, shown: Bool | None) -> None:
        """A condition on whole frames: one finding a frame, described by the rule itself, and only those that are kept."""
        assert rule.when is not None
        hits = rows_where(rule.when, table)
        rows = np.flatnonzero(hits if shown is None else hits & shown)
        tally = self.tally[rule.code]
        tally.count += len(rows)
        room = len(rows) if self.max_findings is None else max(0, self.max_findings - len(tally.findings))
        for row in rows[:room].tolist():
            self._keep(tally, self._made(rule, rule.of_frame(Seen(table, row))))

    def _flows(self, rule: Rule, table: ChunkTable, index: npt.NDArray[np.int64]) -> None:
        """One finding a flow: hits that agree in the rule's flow fields."""
        assert rule.on is not None
        rows = table.occurrences(rule.on).rows[index]
        keys = np.column_stack([_flat(table.values_at(field, rows)) for field in rule.flow])
        first, inverse = groups(list(keys.T))
        counts = np.bincount(inverse)
        for i in np.argsort(first, kind="stable").tolist():
            key = keys[first[i]].tobytes()
            tally = self.tally[rule.code]
            known = tally.flows.get(key)
            if known is not None:
                known.count += int(counts[i])
                continue
            finding = self._finding(rule, table, [int(index[first[i]])])
            finding.count = int(counts[i])
            self._flow(tally, key, finding)

    def _flow(self, tally: Tally, key: Any, finding: Finding) -> None:
        tally.count += 1
        if len(tally.flows) >= MAX_FLOWS:
            tally.flows.pop(next(iter(tally.flows)))
            self.dropped.add(finding.frame, finding.time_ns)
        tally.flows[key] = finding
        self._keep(tally, finding)

    def _keep(self, tally: Tally, finding: Finding) -> None:
        if self.max_findings is None or len(tally.findings) < self.max_findings:
            tally.findings.append(finding)
            if self.on_finding is not None:
                self.on_finding(finding)

    def _finding(self, rule: Rule, table: ChunkTable, entries: list[int]) -> Finding:
        """The finding for occurrences of `rule.on` in one row; its message speaks of the first."""
        assert rule.on is not None
        view = table.view(rule.on, entries[0])
        row = int(table.occurrences(rule.on).rows[entries[0]])
        seen = Seen(table, row)
        at = rule.at
        spans: tuple[Span, ...] = ()
        if at is not None:
            size = rule.on.size
            assert at.owner is not None
            where = view if at.owner is rule.on else seen.first(at.owner)
            if where is not None:
                low, high = at.span
                spans = (Span(seen.frame, where.offset + low, high - low),)
                if where is view and size:
                    starts = table.occurrences(rule.on).at[entries] - table.chunk.offset[row]
                    spans = tuple(Span(seen.frame, int(start) + low, high - low) for start in starts.tolist())
        value = None if at is None or not spans else value_of(at, at.__get__(view if at.owner is rule.on else where, rule.on))
        return self._made(
            rule,
            Hit(frame=seen.frame, time_ns=seen.time_ns, arguments=arguments_of(rule, view, seen), spans=spans, field=at, value=value),
        )

    def _structs(self, rule: Rule, table: ChunkTable, struct: type[Struct], method: Any) -> None:
        found = table.occurrences(struct)
        for i, row in enumerate(found.rows.tolist()):
            self._take(rule, method(table.view(struct, i), Seen(table, row)))

    def _visible(self, frame: int) -> bool:
        """Whether a frame is to be reported, also one of an earlier chunk; what belongs to no frame is."""
        i = bisect_right(self.shown, frame, key=lambda chunk: chunk[0]) - 1
        if i < 0:
            return True
        first, count, bits = self.shown[i]
        row = frame - first
        return row >= count or bool(bits[row >> 3] >> (7 - (row & 7)) & 1)

    def _take(self, rule: Rule, hits: Iterable[Hit | Again] | None) -> None:
        for hit in hits or ():
            tally = self.tally[rule.code]
            if self.shown and not self._visible(hit.frame):
                continue
            if hit.key is not None:
                known = tally.flows.get(hit.key)
                if known is not None:
                    known.count += hit.count
                    continue
            if isinstance(hit, Again):
                hit = hit.made()
            if hit.key is not None:
                self._flow(tally, hit.key, self._made(rule, hit))
                continue
            tally.count += 1
            if self.max_findings is None or len(tally.findings) < self.max_findings:
                self._keep(tally, self._made(rule, hit))

    def _made(self, rule: Rule, hit: Hit) -> Finding:
        return Finding(
            code=rule.code,
            name=rule.name,
            severity=rule.severity,
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


def arguments_of(rule: Rule, view: Struct, seen: Seen) -> dict[str, Any]:
    """What the placeholders of a stateless rule's message stand for."""
    arguments: dict[str, Any] = {}
    for _, name, _, _ in string.Formatter().parse(rule.message):
        if not name:
            continue
        head = name.split(".")[0].split("[")[0]
        if head in arguments:
            continue
        found = getattr(type(view), head, None)
        if found is not None:
            arguments[head] = value_of(found, getattr(view, head))
            continue
        struct = next((s for s in seen.table.catalog.structs if s.__name__ == head), None)
        if struct is None:
            raise KeyError(f"rule {rule.code}: message names {head!r}, which is no field of {type(view).__name__} and no structure")
        arguments[head] = seen.first(struct)
    return arguments


def _flat(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Byte fields as two integers, so that flow keys are plain numbers."""
    if values.ndim == 1:
        return values.astype(np.uint64)
    wide = np.zeros((len(values), -(-values.shape[1] // 8) * 8), np.uint8)
    wide[:, : values.shape[1]] = values
    return wide.view(">u8").astype(np.uint64)
