"""Findings made of hits: a hit makes a new finding, is counted in one, waits for the end of the capture, or is a consequence of another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import BoundedDict
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.equal_rows import groups, is_in, members

from .consequences import Consequences
from .doubtful_frames import CorruptFrames, LateFrames
from .file_evidence import lower_if_untrusted, untrusted, with_lines
from .finding import Finding, Severity
from .kept_findings import RuleTally, SelectedFrames, Unreported
from .rule import INFO, SEEN, Context, DeferredHit, Hit, Rule, Seen
from .stateless_rules import flow_columns, hit_at
from .waiting_hits import MAX_FLOWS, WaitingHits

OnOccurrence = Callable[[Rule, Severity | None, "Finding | None", Any, Any, int], object]
"""Called for every occurrence with:

- the rule, and a severity if it is lower than the rule's
- the finding (None: beyond `max_findings`)
- frames, int[n]
- the offset of the faulty bytes in each frame (int or int[n]), and their length; length 0: the bytes of the finding's field
"""
OnFailure = Callable[[str, Exception, int | None], None]
"""Called with who raised what, and at which frame."""


def proof_frames(hit: Hit | DeferredHit) -> list[int]:
    """The other frames that prove a hit."""
    return [frame for frame, _ in hit.proof] if isinstance(hit, DeferredHit) else [one.frame for one in hit.related]


class Grouping:
    """Makes findings of hits; one per capture. Hits with the same key, or of the same flow, become one finding with a count."""

    def __init__(
        self,
        rules: Sequence[Rule],
        context: Context,
        max_findings: int | None,
        on_finding: Callable[[Finding], None] | None,
        on_occurrence: OnOccurrence | None,
        failed: OnFailure,
        unreported: Collection[str] = (),
    ) -> None:
        """`unreported`: codes of rules whose findings nobody gets."""

        def told(rule: Rule, *what: Any) -> None:
            if on_occurrence is not None and rule.code not in unreported:
                on_occurrence(rule, *what)

        self.context, self.failed, self.on_occurrence = context, failed, told if on_occurrence is not None else None
        self.consequences = Consequences(rules)
        self.waiting = WaitingHits(every_occurrence=on_occurrence is not None)
        self.of_chunk: dict[int, list[tuple[Rule, Hit | DeferredHit]]] = {rank: [] for rank in range(1, self.consequences.last + 1)}
        """Hits of this chunk that may be only a consequence, by rank of the rule, until all causes in it are known."""
        self.tally: dict[str, RuleTally] = defaultdict(lambda: RuleTally(max_findings, on_finding))
        """By code, for rules with findings; with `timing` for all rules."""
        self.tally.update({code: Unreported(None, None) for code in unreported})
        self.flows = BoundedDict[tuple[Any, ...], Finding | None](MAX_FLOWS, "flows with findings")
        """The finding of each flow, by code and key; None if it is only counted."""
        self.selected = SelectedFrames()
        self.past, self.damaged = LateFrames(), CorruptFrames()

    def take_rows(self, rule: Rule, table: ChunkTable, hits: Bool, selected: Bool | None) -> None:
        """Make findings where a rule's condition holds: `hits`, bool, one per occurrence of `rule.on`, or per frame without it."""
        rows = np.arange(len(hits)) if rule.on is None else table.occurrences(rule.on).rows
        hits = hits if selected is None else hits & selected[rows]
        if self.consequences.any_of(rule):
            explained = [row for row in dict.fromkeys(rows[hits].tolist()) if self._is_row_explained(rule, table, row, rows, hits)]
            hits = hits & ~is_in(rows, np.array(explained, np.int64))
        index = np.flatnonzero(hits)
        if rule.waits and rule.on is not None:
            self.take(rule, self._of_flows(rule, table, index))
            return
        if index.size:
            (self._frames if rule.on is None else self._flows if rule.flow else self._occurrences)(rule, table, index)
        for row in rows[hits].tolist() if rule.explains else ():
            self.consequences.note(rule, table.chunk.first + row, None)

    def _is_row_explained(self, rule: Rule, table: ChunkTable, row: int, rows: Int, hits: Bool) -> bool:
        """Whether another finding explains a rule's hit at a row, or may do so at the end of the capture.

        `rows` ascend; `hits` says where in them the rule's condition holds.
        """
        cause = self.consequences.cause(rule, (table.chunk.first + row,))
        if cause is None:
            return False
        if cause.waits:
            first, stop = np.searchsorted(rows, (row, row + 1)).tolist()
            index = first + np.flatnonzero(hits[first:stop])
            self.waiting.keep(rule, rule.of_frame(Seen(table, row)) if rule.on is None else hit_at(rule, table, index))
        else:
            self.consequences.explain(rule, table.chunk.first + row, cause)
        return True

    def _of_flows(self, rule: Rule, table: ChunkTable, index: npt.NDArray[np.int64]) -> Iterator[Hit]:
        """A hit for each flow, or for each frame of a rule without flows, of a condition that waits for the end of the capture."""
        assert rule.on is not None
        rows = table.occurrences(rule.on).rows[index]
        columns = flow_columns(rule, table, rows) if rule.flow else [rows.astype(np.uint64)]
        first, inverse = groups(columns) if len(index) else (index, index)
        counts, flows, found = np.bincount(inverse).tolist(), None, []
        keys, width = np.stack([column[first] for column in columns], axis=1).tobytes(), 8 * len(columns)
        for i in range(len(first)):
            key = keys[i * width : (i + 1) * width] if rule.flow else None
            flow = rule.code, key
            counting = self.waiting.counting_hit(flow)
            if counting is not None:
                counting.count += counts[i]
                continue
            flows = flows if flows is not None else members(inverse, len(first))
            part = flows[i]
            if key is None:
                found.append(hit_at(rule, table, index[part]))
                continue
            for some in [part] if rule.alike else self.waiting.one_by_one(flow, part):
                hit = hit_at(rule, table, index[some[:1]])
                hit.count, hit.frames, hit.key = len(some), rows[some] + table.chunk.first, key
                found.append(hit)
        yield from sorted(found, key=lambda hit: hit.frame)

    def _occurrences(self, rule: Rule, table: ChunkTable, index: npt.NDArray[np.int64]) -> None:
        """One finding per frame."""
        assert rule.on is not None
        rows, first, entries = np.unique(table.occurrences(rule.on).rows[index], return_index=True, return_counts=True)
        tally = self.tally[rule.code]
        kept = tally.add(len(rows))
        for start, number in zip(first[:kept].tolist(), entries[:kept].tolist(), strict=True):
            finding = self._new_finding(rule, hit_at(rule, table, index[start : start + number]))
            tally.keep(finding)
            self._report_rows(rule, table, finding, index[start : start + 1])
        self._report_rows(rule, table, None, index[first[kept:]])

    def _frames(self, rule: Rule, table: ChunkTable, rows: npt.NDArray[np.int64]) -> None:
        """One finding per frame, of a rule that describes frames itself: only those that are kept."""
        tally = self.tally[rule.code]
        kept = tally.add(len(rows))
        for row in rows[:kept].tolist():
            seen = Seen(table, row)
            try:
                hit = rule.of_frame(seen)
                finding = self._new_finding(rule, hit)
                tally.keep(finding)
                self._report(rule, hit, finding)
            except Exception as error:
                self.failed(f"rule {rule.code}", error, seen.frame)
        if self.on_occurrence is not None and kept < len(rows):
            self.on_occurrence(rule, None, None, rows[kept:] + table.chunk.first, 0, 0)

    def _flows(self, rule: Rule, table: ChunkTable, index: npt.NDArray[np.int64]) -> None:
        """One finding per flow: hits with the same values in the rule's flow fields."""
        assert rule.on is not None
        columns = flow_columns(rule, table, table.occurrences(rule.on).rows[index])
        first, inverse = groups(columns)
        keys = np.stack([column[first] for column in columns], axis=1)
        tally = self.tally[rule.code]
        counts = np.bincount(inverse).tolist()
        parts = members(inverse, len(first)) if self.on_occurrence is not None else []
        for i in np.argsort(first, kind="stable").tolist():
            key, entry = (rule.code, keys[i].tobytes()), index[first[i : i + 1]]
            known = self.flows.get(key)
            if known is not None:
                known.count += counts[i]
            elif key not in self.flows:
                if self._is_wanted(tally):
                    known = self._new_finding(rule, hit_at(rule, table, entry))
                    known.count = counts[i]
                row = int(table.occurrences(rule.on).rows[entry[0]])
                self._keep_flow(tally, key, known, table.chunk.first + row, int(table.chunk.time_ns[row]))
            if self.on_occurrence is not None:
                self._report_rows(rule, table, known, index[parts[i]])

    def take(self, rule: Rule, hits: Iterable[Hit | DeferredHit]) -> None:
        """Make findings of what a handler yields, at the end if the rule waits."""
        if not rule.waits:
            rank = self.consequences.ranks.get(rule.code)
            if rank is not None and self.waiting.hits is not None:
                self.of_chunk[rank] += [(rule, hit) for hit in hits]
                return
            for hit in hits:
                self._take(rule, hit)
            return
        for hit in hits:
            one = hit.make() if isinstance(hit, DeferredHit) else hit
            if self.waiting.hits is not None:
                if hit.frame in self.selected and self.waiting.is_counted(rule, one):
                    continue
                self.consequences.await_end(rule, one)
                if not self.waiting.is_full:  # further ones are not kept, nor is what would be noted of them
                    rule.watch(one, self.context)
                self.waiting.keep(rule, one)
                continue
            one.severity = one.severity or rule.severity_at_end(one, self.context)
            if rule.stands(one, self.context):
                self._take(rule, one)

    def _take(self, rule: Rule, hit: Hit | DeferredHit) -> None:
        if hit.frame in self.past or (self.damaged.known and self.damaged.any_of(proof_frames(hit))):
            hit = hit.make() if isinstance(hit, DeferredHit) else hit
            if hit.evidence is not SEEN and (hit.severity or rule.severity) is not INFO:
                hit.severity = INFO
        if hit.frame not in self.selected or self._is_explained(rule, hit):
            return
        tally = self.tally[rule.code]
        key: tuple[Any, ...] | None = None if hit.key is None else (rule.code, hit.key)
        if isinstance(hit, Hit):
            hit = with_lines(hit, self.context.files, rule.files_hold_ns())
            if hit.severity is not None and key is not None and not (rule.waits and key in self.flows):
                key = *key, hit.severity  # one finding for certain hits; rules that wait also count the others in it
        known = self.flows.get(key) if key is not None else None
        lowered = hit.severity if isinstance(hit, Hit) else known.severity if known is not None else None
        if isinstance(hit, DeferredHit) or hit.explains:
            self.consequences.note(rule, hit.frame, lowered, hit.count)
            for frame, covered in [(frame, hit.covers) for frame in hit.mads] if isinstance(hit, Hit) else ():
                self.consequences.note(rule, frame, lowered, covered)
        if known is not None:
            known.count += hit.count
        if key is not None and key in self.flows:
            self._report(rule, hit, known)
            return
        if isinstance(hit, DeferredHit):
            hit = with_lines(hit.make(), self.context.files, rule.files_hold_ns())
        if hit.severity is not None:
            tally.lowered[hit.severity] += 1
        if key is not None:
            known = self._new_finding(rule, hit) if self._is_wanted(tally) else None
            self._keep_flow(tally, key, known, hit.frame, hit.time_ns)
        elif tally.add(1):
            known = self._new_finding(rule, hit)
            tally.keep(known)
        self._report(rule, hit, known)

    def _is_explained(self, rule: Rule, hit: Hit | DeferredHit) -> bool:
        """Whether another finding explains a hit, or may do so at the end of the capture."""
        if not self.consequences.any_of(rule):
            return False
        frames = [hit.frame, *proof_frames(hit)]
        if self.consequences.cause(rule, frames, INFO) is None:
            return False
        hit = hit.make() if isinstance(hit, DeferredHit) else hit
        cause = self.consequences.cause(rule, frames, hit.severity, hit.count)
        if cause is None:
            return False
        if cause.waits:
            self.waiting.keep(rule, hit)
        else:
            self.consequences.explain(rule, hit.frame, cause)
        return True

    def _keep_flow(self, tally: RuleTally, key: tuple[Any, ...], finding: Finding | None, frame: int, time_ns: int) -> None:
        """Count the first finding of a flow, and keep it if there is room; later hits of the flow are counted in it."""
        self.flows.put(key, finding, frame, time_ns)
        if tally.add(1) and finding is not None:
            tally.keep(finding)

    def _is_wanted(self, tally: RuleTally) -> bool:
        """Whether to make a finding for a new flow: there is room for it, or subnet files may prove outdated and lower it later."""
        return tally.most is None or len(tally.findings) < tally.most or bool(self.context.files)

    def take_rank(self, rank: int) -> None:
        """Make findings of the hits of a rank: their causes in this chunk are known now."""
        hits, self.of_chunk[rank] = self.of_chunk[rank], []
        for rule, hit in hits:
            self._take(rule, hit)

    def settle(self, unreliable: Collection[str]) -> Callable[[int], None]:
        """The capture has ended. Returns a function that makes findings of the hits that waited, for rules of one rank.

        Hits of `unreliable` rules are dropped.
        """
        waiting = self.waiting.end(unreliable)
        self.consequences.end(unreliable)

        def take(rank: int) -> None:
            for rule, hit in waiting:
                if self.consequences.ranks.get(rule.code, 0) == rank:
                    try:
                        self.take(rule, [hit])
                    except Exception as error:
                        self.failed(f"rule {rule.code}", error, hit.frame)

        return take

    def lower(self, refuted: Iterable[int]) -> None:
        """Lower findings that rely on outdated files to infos; `refuted` are lines that the traffic refutes."""
        paths = untrusted(self.context.files, [*refuted])
        kept = (one for tally in self.tally.values() for one in tally.findings)
        found = {id(one): one for one in (*kept, *self.flows.values()) if one is not None}
        for finding in found.values() if paths else ():
            before, lowered = finding.severity, self.tally[finding.code].lowered
            if lower_if_untrusted(finding, paths) and before is not Severity.INFO:
                lowered[Severity.INFO] += 1
                lowered[before] -= before in lowered

    def _new_finding(self, rule: Rule, hit: Hit) -> Finding:
        finding = Finding(
            code=rule.code, name=rule.name, severity=hit.severity or rule.severity, frame=hit.frame, time_ns=hit.time_ns,
            template=hit.message or rule.message, arguments=hit.arguments, field=hit.field.filter_name if hit.field is not None else None,
            value=hit.value, spans=hit.spans, related=hit.related, evidence=hit.evidence, count=hit.count, reference=rule.reference,
        )  # fmt: skip
        if not hit.explains:
            return finding
        self.consequences.note(rule, hit.frame, hit.severity, hit.count, finding)
        for frame in hit.mads[:1]:  # those of further frames are not listed
            self.consequences.note(rule, frame, hit.severity, hit.count if frame == hit.frame else hit.covers, finding)
        return finding

    def _report_rows(self, rule: Rule, table: ChunkTable, finding: Finding | None, entries: npt.NDArray[np.int64]) -> None:
        """Report occurrences of `rule.on`."""
        if self.on_occurrence is None or not len(entries):
            return
        assert rule.on is not None
        found, at = table.occurrences(rule.on), rule.at
        rows = found.rows[entries]
        own = at is not None and at.owner is rule.on
        low, high = at.span if at is not None and own else (0, 0)
        offsets = found.at[entries] - table.chunk.offset[rows] + low if own else 0
        self.on_occurrence(rule, None, finding, rows + table.chunk.first, offsets, high - low)

    def _report(self, rule: Rule, hit: Hit | DeferredHit, finding: Finding | None) -> None:
        """Report the frames of a hit."""
        if self.on_occurrence is None:
            return
        frames = hit.frames if isinstance(hit, Hit) and len(hit.frames) else (hit.frame,)
        span = next((one for one in hit.spans if one.frame == hit.frame), None) if isinstance(hit, Hit) and len(frames) == 1 else None
        lowered = hit.severity if isinstance(hit, Hit) else None
        self.on_occurrence(rule, lowered, finding, frames, span.offset if span else 0, span.length if span else 0)
