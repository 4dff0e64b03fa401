"""The findings so far, by frame and by rule, with their severities. Filled by the lint thread, read by the screen.

Every occurrence of every finding is kept, 16 bytes each; messages only for the first findings of a rule (`background_analysis.KEPT`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.dfilter.frame_properties import FindingFacts
from ibdissect.lint.finding import Finding, Related, Severity, Span
from ibdissect.lint.rule import Rule
from ibdissect.wire.text import counted

MAX_OCCURRENCES = 1 << 23
"""Occurrences kept, 128 MiB; later ones are counted, and the screen says so."""
OCCURRENCE = np.dtype([("frame", "u4"), ("finding", "i4"), ("offset", "i4"), ("length", "u2"), ("kind", "u2")])
"""`finding`: index of the finding that has the sentence, -1 beyond those kept; `offset`: below 0 in the ERF header; `kind`: index of
rule and severity."""
Occurrences = npt.NDArray[np.void]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    code: str
    name: str
    severity: Severity
    """The worst of its findings."""
    places: Int
    """Its occurrences, as indices of the store."""
    frames: int
    """Distinct frames."""
    first: Finding


class FindingsStore:
    """Occurrences in frame order. One thread adds and settles; the screen's thread reads what is settled."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._index: dict[int, int] = {}
        """By `id`: findings are never freed."""
        self._kinds: list[tuple[type[Rule], Severity]] = []
        self._kind: dict[tuple[type[Rule], Severity, bool], int] = {}
        """By rule, severity and whether it is foreseen."""
        self._ahead = set[int]()
        """By `id`: findings that were foreseen."""
        self._fresh: list[Occurrences] = []
        self._singles: list[tuple[int, int, int, int, int]] = []
        self._room: Occurrences = np.empty(1024, OCCURRENCE)
        self._settled: Occurrences = self._room[:0]
        self._groups: tuple[int, list[RuleGroup]] = (-1, [])
        self.dropped = 0
        """Occurrences beyond MAX_OCCURRENCES."""
        self.late = 0
        """How often something changed in frames that were settled before."""
        self.by_rule: Mapping[str, int] = {}
        """Exact number of findings by code, including those that are not kept; replaced as a whole."""
        self.counts: Mapping[Severity, int] = dict.fromkeys(Severity, 0)
        """Exact number by severity; replaced as a whole."""
        self.generation = 0
        """Grows with every change."""
        self.silenced: frozenset[str] = frozenset()
        """Codes of rules whose findings the user does not want to see in this session."""
        self._changing = threading.Lock()

    # -- the thread that lints

    def add(self, finding: Finding) -> None:
        self._index[id(finding)] = len(self._findings)
        self._findings.append(finding)

    def take(self, rule: type[Rule], severity: Severity, finding: Finding | None, frames: Any, offset: Any, length: int) -> None:
        """Take in occurrences: frames int[n] with the offset of their bytes; `finding` has the sentence if it was added before."""
        self._take(rule, severity, finding, frames, offset, length)

    def _take(
        self, rule: type[Rule], severity: Severity, finding: Finding | None, frames: Any, offset: Any, length: int, *, ahead: bool = False
    ) -> None:  # fmt: skip
        kind = self._kind.get((rule, severity, ahead))
        if kind is None:
            kind = self._kind[rule, severity, ahead] = len(self._kinds)
            self._kinds.append((rule, severity))
        index, length = self._index.get(id(finding), -1), min(length, 0xFFFF)
        if len(frames) == 1:
            self._singles.append((int(frames[0]), index, int(np.ravel(offset)[0]), length, kind))
            return
        found = np.empty(len(frames), OCCURRENCE)
        found["frame"], found["finding"], found["offset"], found["length"], found["kind"] = frames, index, offset, length, kind
        self._fresh.append(found)

    def foresee(self, found: Sequence[tuple[type[Rule], Severity, Finding | None, Any, Any, int]]) -> None:
        """Show these occurrences, as `take` has them, instead of those that were foreseen before: a later packet may take them back."""
        with self._changing:
            self._settle()
            ahead = [kind for (*_, foreseen), kind in self._kind.items() if foreseen]
            there = np.isin(self._settled["kind"], ahead)
            if not found and not there.any():
                return
            self._room = self._settled = self._settled[~there]
            known = {(one.code, one.frame, one.message): one for one in self._findings} if found else {}
            for rule, severity, finding, *where in found:
                if finding is not None:
                    finding = known.setdefault((finding.code, finding.frame, finding.message), finding)  # most were foreseen before
                    if id(finding) not in self._index:
                        self._ahead.add(id(finding))
                        self.add(finding)
                self._take(rule, severity, finding, *where, ahead=True)
            self._settle()
            self.generation += 1

    def settle(self) -> None:
        """Make what was taken in visible to the screen."""
        with self._changing:
            self._settle()

    def _settle(self) -> None:
        if not self._fresh and not self._singles:
            return
        fresh = np.concatenate([*self._fresh, np.array(self._singles, OCCURRENCE)])
        self._fresh, self._singles = [], []
        fresh = fresh[~np.isin(fresh["kind"], self._of_rules(self.silenced))]
        settled = self._settled
        room = MAX_OCCURRENCES - len(settled)
        self.dropped += max(len(fresh) - room, 0)
        fresh = np.sort(fresh[:room], order=["frame", "kind"], kind="stable")
        count = len(settled) + len(fresh)
        if len(fresh) and len(settled) and fresh["frame"][0] < settled["frame"][-1]:
            self.late += 1
            keep = int(settled["frame"].searchsorted(fresh["frame"][0], "right"))
            tail = np.concatenate([settled[keep:], fresh])
            self._room = np.concatenate([settled[:keep], tail[np.argsort(tail["frame"], kind="stable")]])
        else:
            if count > len(self._room):
                self._room = np.empty(min(2 * count, MAX_OCCURRENCES), OCCURRENCE)
                self._room[: len(settled)] = settled
            self._room[len(settled) : count] = fresh
        self._settled = self._room[:count]
        self.generation += 1

    def set_counts(self, by_rule: Mapping[str, int], counts: Mapping[Severity, int]) -> None:
        """Set the exact numbers so far; rules that are missing here have withdrawn their findings."""
        with self._changing:
            self._set_counts(by_rule, counts)

    def silence(self, code: str) -> None:
        """Take the findings of a rule away, and do not show later ones; any thread may call it."""
        with self._changing:
            self.silenced |= {code}
            self._set_counts(self.by_rule, self.counts)

    def _of_rules(self, codes: frozenset[str]) -> list[int]:
        return [kind for kind, (rule, _) in enumerate(self._kinds) if rule.code in codes]

    def _set_counts(self, by_rule: Mapping[str, int], counts: Mapping[Severity, int]) -> None:
        for code in self.silenced & by_rule.keys():
            severity = next((one.severity for one in self._findings if one.code == code), None)
            if severity is not None:
                counts = {**counts, severity: max(counts.get(severity, 0) - by_rule[code], 0)}
        by_rule = {code: count for code, count in by_rule.items() if code not in self.silenced}
        gone = [kind for kind, (rule, _) in enumerate(self._kinds) if rule.code not in by_rule]
        if gone and (lost := np.isin(self._settled["kind"], gone)).any():
            self._room = self._settled = self._settled[~lost]
            self.late += 1
        if (by_rule, counts) != (self.by_rule, self.counts) or gone:
            self.by_rule, self.counts = by_rule, counts
            self.generation += 1

    # -- what the screen asks

    def __len__(self) -> int:
        return len(self._settled)

    def frame(self, place: int) -> int:
        return int(self._settled["frame"][place])

    def finding(self, place: int) -> Finding:
        """An occurrence as a finding. A repeated one names the first of its kind; one whose message was not kept has its rule's summary."""
        frame, index, offset, length, kind = self.key(place)
        spans = (Span(frame, offset, length),) if length else ()
        if index < 0:
            rule, severity = self._kinds[kind]
            return Finding(
                code=rule.code, name=rule.name, severity=severity, frame=frame, time_ns=0, template="", spans=spans,
                field=rule.at.filter_name if rule.at is not None else None, reference=rule.reference,
                message=f"{rule.name}; its sentences are kept for its first findings only",
            )  # fmt: skip
        finding = self._findings[index]
        if frame == finding.frame:
            return finding
        return replace(
            finding, frame=frame, spans=spans, count=1, message=f"as frame {finding.frame}: {finding.message}",
            related=(Related(finding.frame, "the first of its kind"), *finding.related),
        )  # fmt: skip

    def key(self, place: int) -> tuple[int, ...]:
        """A key by which an occurrence is found again after earlier ones were inserted; the frame first."""
        found: tuple[int, ...] = self._settled[place].item()
        return found

    def heads(self) -> Int:
        """The occurrences that stand for their finding."""
        settled = self._settled
        index = settled["finding"]
        own = np.array([finding.frame for finding in self._findings] or [0], np.uint32)
        head = (index < 0) | (settled["frame"] == own[np.maximum(index, 0)])
        head[1:] &= (index[1:] < 0) | (index[1:] != index[:-1]) | (settled["frame"][1:] != settled["frame"][:-1])
        return np.flatnonzero(head)

    def alike(self, place: int) -> Int:
        """All occurrences of the same finding."""
        index = self._settled["finding"][place]
        return np.flatnonzero(self._settled["finding"] == index) if index >= 0 else np.array([place])

    def first(self) -> list[Finding]:
        """The findings that have a message, each at its first frame, by frame and code."""
        found = (one for one in self._findings if one.code in self.by_rule and id(one) not in self._ahead)
        return sorted(found, key=lambda one: (one.frame, one.code))

    def places(self, frame: int, count: int = 1) -> range:
        """The occurrences in `count` frames from `frame`."""
        low, high = self._settled["frame"].searchsorted(np.array((frame, frame + count), np.uint32)).tolist()
        return range(low, high)

    def of_frame(self, frame: int) -> list[Finding]:
        """Findings at a frame, each of the first ones once."""
        found = {(one.code, one.message): one for one in map(self.finding, reversed(self.places(frame)))}
        return [*reversed(found.values())]

    def _severity(self, place: int) -> Severity:
        index = int(self._settled["finding"][place])
        return self._findings[index].severity if index >= 0 else self._kinds[self._settled["kind"][place]][1]

    def worst(self, frame: int) -> Severity | None:
        """The worst severity at a frame, None for a frame without findings."""
        return max(map(self._severity, self.places(frame)), key=lambda severity: severity.rank, default=None)

    def codes(self, frame: int, count: int) -> dict[int, tuple[str, ...]]:
        """Codes by frame in `count` frames from `frame`."""
        return {number: tuple(one.code for one in there) for number, there in self.told(frame, count).items()}

    def told(self, frame: int, count: int) -> dict[int, tuple[FindingFacts, ...]]:
        """By frame in `count` frames from `frame`, what filters may ask of findings."""
        found: dict[int, tuple[FindingFacts, ...]] = {}
        part = self._settled[(where := self.places(frame, count)).start : where.stop]
        for number_, kind, index in zip(*(part[name].tolist() for name in ("frame", "kind", "finding")), strict=True):
            rule, severity = self._kinds[kind]
            severity = self._findings[index].severity if index >= 0 else severity
            found[number_] = (*found.get(number_, ()), FindingFacts(rule.code, rule.name, severity.value))
        return found

    def frames(self) -> Int:
        """Every frame with a finding, ascending."""
        return np.unique(self._settled["frame"]).astype(np.int64)

    def ranks(self) -> tuple[Int, Int]:
        """Frame and rank of severity (3 for an error) of every occurrence."""
        settled = self._settled
        kinds = np.array([severity.rank for _, severity in self._kinds] or [0])
        findings = np.array([finding.severity.rank for finding in self._findings] or [0])
        ranks = np.where(settled["finding"] >= 0, findings[np.maximum(settled["finding"], 0)], kinds[settled["kind"]])
        return settled["frame"].astype(np.int64), ranks

    def rules(self) -> list[RuleGroup]:
        """Occurrences by rule: the worst rules first, then by code."""
        generation = self.generation
        if self._groups[0] == generation:
            return self._groups[1]
        settled, kinds = self._settled, list(self._kinds)
        codes: dict[str, list[int]] = {}
        for kind, (rule, _) in enumerate(kinds):
            codes.setdefault(rule.code, []).append(kind)
        groups = []
        for code, mine in codes.items():
            places = np.flatnonzero(np.isin(settled["kind"], mine))
            if not len(places):
                continue
            used = np.unique(settled["finding"][places])
            severities = [self._findings[i].severity for i in used.tolist() if i >= 0] or [kinds[i][1] for i in mine]
            worst = max(severities, key=lambda severity: severity.rank)
            distinct = np.count_nonzero(np.diff(settled["frame"][places].astype(np.int64))) + 1
            groups.append(RuleGroup(code, kinds[mine[0]][0].name, worst, places, int(distinct), self.finding(int(places[0]))))
        groups.sort(key=lambda group: (-group.severity.rank, group.code))
        self._groups = generation, groups
        return groups

    @property
    def limits(self) -> str:
        """A sentence about what is not kept; empty if everything is."""
        return f"{counted(self.dropped, 'further occurrence', ',')} counted, but not listed" if self.dropped else ""
