"""Details of further hits are computed only on demand, and hits of a flow are counted in one finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.finding import Finding, Related, Severity, Span
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY, DeferredHit
from ibdissect.subnet.file_lines import KnownFile, line_number
from ibdissect.wire.headers import BTH, LRH
from ibdissect.words import Hit, Rule, on_chunk
from tests.cases import every
from tests.craft import erf_pcap, native
from tests.decode.made import tables_of
from tests.lint.test_engine_events import lint


class Repeats(Rule):
    """Every packet is a hit of one of two flows."""

    code, name, message = "ZZC001", "repeats", "hit"

    def __init__(self) -> None:
        self.made: list[int] = []

    def _hit(self, frame: int, key: int) -> Hit:
        self.made.append(frame)
        return Hit(frame=frame, time_ns=0, arguments={}, key=key, count=2)

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[DeferredHit]:
        for frame in range(table.chunk.first, table.chunk.first + len(table)):
            yield DeferredHit(frame=frame, key=frame % 2, make=partial(self._hit, frame, frame % 2), count=2)


REGISTRY.pop(Repeats.code)  # it is this test's own


def test_further_hits_of_a_flow_are_only_counted() -> None:
    linter, found = lint([native()] * 7, Repeats)
    assert [(f.frame, f.count) for f in found] == [(1, 8), (2, 6)] and linter.tally["ZZC001"].count == 2
    (rule,) = linter.rules
    assert isinstance(rule, Repeats) and rule.made == [1, 2]
    linter, found = lint([native()] * 7, Repeats, selected=[[False] * 4 + [True, False, True]])
    assert [(f.frame, f.count) for f in found] == [(5, 4)] and linter.tally["ZZC001"].count == 1


def test_a_flow_without_room_for_its_finding_is_counted_once_and_leaves_only_its_key() -> None:
    linter, found = lint([native()] * 7, Repeats, max_findings=1)
    tally = linter.tally["ZZC001"]
    assert [(f.frame, f.count) for f in found] == [(1, 8)] and tally.count == 2
    assert list(linter.findings.flows.items()) == [(("ZZC001", 1), found[0]), (("ZZC001", 0), None)]


def test_findings_that_rely_on_outdated_files_are_counted_as_infos() -> None:
    """Once, by the severity that they had."""
    linter, _ = lint([native()], Repeats)
    line = line_number(0, 3)
    linter.context.files = [KnownFile("a", 5)]
    tally = linter.tally["ZZC001"]
    tally.findings = [
        Finding(code="ZZC001", name="x", severity=severity, frame=1, time_ns=0, template="x", related=(Related(0, "says so", file, 3),))
        for severity, file in ((Severity.ERROR, "a"), (Severity.WARNING, "a"), (Severity.WARNING, "b"), (Severity.INFO, "a"))
    ]
    tally.lowered = Counter({Severity.WARNING: 2, Severity.INFO: 1})
    linter.findings.flows.clear()
    linter.findings.lower([line])
    assert [one.severity.value for one in tally.findings] == ["info", "info", "warning", "info"]
    assert +tally.lowered == {Severity.WARNING: 1, Severity.INFO: 3}, "an error was its rule's own severity"
    linter.findings.lower([line])
    assert +tally.lowered == {Severity.WARNING: 1, Severity.INFO: 3}


class Low(Rule):
    """A PSN is below 3."""

    code, name, message = "ZZC002", "low", "low"
    on, when, at = BTH, BTH.psn < 3, BTH.psn


class LowOfFlow(Low):
    """The same, once for each destination."""

    code, name, flow = "ZZC003", "low-of-flow", (BTH.destqp,)


class LowElsewhere(Low):
    """The same, with a field of another structure as its place."""

    code, name, at = "ZZC004", "low-elsewhere", LRH.dlid


for one in (Low, LowOfFlow, LowElsewhere):
    REGISTRY.pop(one.code)


class FaultyBytes(Rule):
    """A hit whose faulty bytes lie in several frames, one that stands for several frames, one without bytes."""

    code, name, message = "ZZC009", "faulty-bytes", "hit"

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        bytes_ = (Span(1, 20, 2), Span(2, 30, 3), Span(2, 40, 4))
        yield Hit(frame=2, time_ns=0, arguments={}, spans=bytes_)
        yield Hit(frame=3, time_ns=0, arguments={}, spans=bytes_)
        yield Hit(frame=1, time_ns=0, arguments={}, spans=bytes_, frames=[1, 2], count=2)


REGISTRY.pop(FaultyBytes.code)


def test_the_bytes_of_a_hit_are_those_in_its_frame() -> None:
    told: list[tuple[Any, ...]] = []
    lint([native()] * 3, FaultyBytes, on_occurrence=lambda _rule, _low, _one, frames, at, size: told.append((list(frames), at, size)))
    assert told == [([2], 30, 3), ([3], 0, 0), ([1, 2], 0, 0)]


@every("rule", [Low, LowOfFlow, LowElsewhere])
@every("most", [None, 1, 2])
def test_every_occurrence_is_told_with_its_bytes(rule: type[Rule], most: int | None) -> None:
    """Also those whose finding is not kept."""
    told: list[tuple[str, int, int, int, bool]] = []

    def tell(rule: Rule, _lowered: object, finding: object, frames: Any, at: Any, size: int) -> None:
        for frame, start in np.broadcast(np.asarray(frames), at):
            told.append((rule.code, int(frame), int(start), size, finding is not None))

    frames = [native(bth={"psn": psn, "destqp": qp}) for psn, qp in ((0, 5), (9, 5), (1, 5), (2, 6), (3, 6))]
    linter = Linter([rule], max_findings=most, on_occurrence=tell)
    for table in tables_of(erf_pcap(frames)):
        linter.feed(table)
    found = linter.finish()
    place = (0, 0) if rule is LowElsewhere else (8 + 9, 3)
    assert sorted(one[1] for one in told) == [1, 3, 4] and {one[2:4] for one in told} == {place}
    groups = 2 if rule is LowOfFlow else 3
    assert len(found) == min(most or groups, groups) and linter.tally[rule.code].count == groups


class Waits(Rule):
    """All packets are one flow, whose hits are judged at the end."""

    code, name, message = "ZZC002", "waits", "hit"
    when = BTH.opcode == 4
    flow = (BTH.destqp,)

    def __init__(self) -> None:
        self.judged: list[int] = []

    def stands(self, hit: Hit, context: Any) -> bool:
        self.judged.append(hit.count)
        return hit.frame > 1


class WaitsAlike(Waits):
    """Either all of them are reported, or none is."""

    code, name, alike = "ZZC003", "waits-alike", True

    def stands(self, hit: Hit, context: Any) -> bool:
        return super().stands(hit, context) or True


for waiting in (Waits, WaitsAlike):
    REGISTRY.pop(waiting.code)


@every(
    ("methods", "severity", "waits"),
    [
        ((), Severity.ERROR, False), (("stands",), Severity.INFO, True), (("severity_at_end",), Severity.WARNING, True),
        (("severity_at_end",), Severity.INFO, False), (("stands", "severity_at_end"), Severity.INFO, True),
    ],
)  # fmt: skip
def test_rules_wait_that_say_what_becomes_of_their_hits(methods: tuple[str, ...], severity: Severity, waits: bool) -> None:
    """Nothing lowers an info."""
    said = {name: lambda *_: True for name in methods}
    base = type("Base", (Rule,), {})
    kind = type("Kind", (base,), {"code": "ZZC099", "name": "kind", "message": "x", "severity": severity, "__doc__": "It is one.", **said})
    REGISTRY.pop("ZZC099")
    assert kind.waits is waits and not base.waits


@pytest.mark.parametrize("severity", [None, Severity.WARNING])
def test_what_is_kept_and_what_is_only_counted(severity: Severity | None) -> None:
    """Of three hits without a flow, one finding is kept; all are counted, also by their severity."""

    class Three(Rule):
        """Three hits."""

        code, name, message = "ZZC005", "three", "hit"

        @on_chunk
        def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
            for frame in (1, 2, 3):
                yield Hit(frame=frame, time_ns=0, arguments={}, severity=severity)

    REGISTRY.pop("ZZC005")
    told: list[tuple[Any, bool, int]] = []
    linter, found = lint(
        [native()] * 3, Three, max_findings=1, on_occurrence=lambda _r, low, one, frames, *_: told.append((low, one is not None, frames[0]))
    )
    assert [(one.frame, one.severity) for one in found] == [(1, severity or Severity.ERROR)]
    tally = linter.tally["ZZC005"]
    assert (tally.count, +tally.lowered) == (3, {severity: 3} if severity else {})
    assert told == [(severity, True, 1), (severity, False, 2), (severity, False, 3)]


def test_rules_that_only_explain_report_nothing() -> None:
    told: list[str] = []
    linter = Linter([Low], causes=[LowOfFlow, Repeats], on_occurrence=lambda rule, *_: told.append(rule.code))
    for table in tables_of(erf_pcap([native(bth={"psn": 1})] * 3)):
        linter.feed(table)
    assert {one.code for one in linter.finish()} == {"ZZC002"} == {*told}
    assert [(linter.tally[code].count, linter.tally[code].findings) for code in ("ZZC003", "ZZC001")] == [(0, [])] * 2


class WaitsUnflowed(Waits):
    """The same without a flow."""

    code, name, flow = "ZZC006", "waits-unflowed", ()


class WaitsOfTwo(Waits):
    """A flow of two fields, as wide as two numbers."""

    code, name, flow, alike = "ZZC007", "waits-of-two", (BTH.destqp, BTH.psn), True


for unflowed in (WaitsUnflowed, WaitsOfTwo):
    REGISTRY.pop(unflowed.code)


@every("window", [1 << 20, 300, 90])
@every(
    ("rule", "found"),
    [
        (WaitsUnflowed, [(2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]), (WaitsOfTwo, [(2, 1), (3, 2), (5, 1)]),
        (Waits, [(2, 2), (3, 3)]), (WaitsAlike, [(1, 3), (2, 3)]),
    ],
)  # fmt: skip
def test_hits_that_wait_are_counted_by_their_flow(rule: type[Rule], found: list[tuple[int, int]], window: int) -> None:
    """The hit in the first frame does not stand, unless all of its flow do; flows differ in any of their fields."""
    ends = [(7, 1), (8, 1), (7, 2), (7, 1), (8, 2), (7, 2)]
    if rule is Waits or rule is WaitsAlike:
        ends = [(7, 1), (8, 1), (7, 1), (8, 1), (7, 1), (8, 1)] if rule is WaitsAlike else [(8, 1), (8, 1), (7, 1), (7, 1), (7, 1), (8, 1)]
    _, findings = lint([native(bth={"opcode": 4, "destqp": qp, "psn": psn}) for qp, psn in ends], rule, window=window)
    assert [(one.frame, one.count) for one in findings] == found


@pytest.mark.parametrize("window", [1 << 20, 90])
def test_the_first_hit_of_each_flow_is_its_finding(window: int) -> None:
    """In the order of frames, whatever the order of their numbers."""
    frames = [native(bth={"psn": 0, "destqp": qp}) for qp in (9, 7, 9, 8, 7, 9)]
    told: list[tuple[list[int], int]] = []
    linter, found = lint(frames, LowOfFlow, window=window, on_occurrence=lambda _r, _l, one, at, *_: told.append((list(at), one.frame)))
    assert [(one.frame, one.count) for one in found] == [(1, 3), (2, 2), (4, 1)] and linter.tally["ZZC003"].count == 3
    assert sorted((at, first) for frames_, first in told for at in frames_) == [(1, 1), (2, 2), (3, 1), (4, 4), (5, 2), (6, 1)]
    linter, found = lint(frames, LowOfFlow, window=window, max_findings=2)
    assert [(one.frame, one.count) for one in found] == [(1, 3), (2, 2)] and linter.tally["ZZC003"].count == 3


def test_choices_of_frames_limit_conditions_too() -> None:
    frames = [native(bth={"psn": psn}) for psn in (0, 9, 1, 2)]
    for rule in (Low, LowOfFlow):
        _, found = lint(frames, rule, selected=[[False, True, True, True]])
        assert [(one.frame, one.count) for one in found] == ([(3, 1), (4, 1)] if rule is Low else [(3, 2)])


@pytest.mark.parametrize("rule", [Low, LowOfFlow])
def test_a_finding_shows_the_bytes_of_its_own_frame(rule: type[Rule]) -> None:
    frames = [native(bth={"psn": psn, "destqp": 5 + psn}) for psn in (9, 0, 1, 2)]
    _, found = lint(frames, rule)
    assert [one.spans for one in found] == [(Span(frame, 8 + 9, 3),) for frame in (2, 3, 4)]


@pytest.mark.parametrize("window", [1 << 20, 90])
def test_flows_of_conditions_beyond_the_bound_are_counted_with_their_frame(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr("ibdissect.lint.findings_from_hits.MAX_FLOWS", 2)
    linter, found = lint([native(bth={"psn": psn, "destqp": psn}) for psn in (9, 9, 0, 1, 9, 2)], LowOfFlow, window=window)
    assert [one.frame for one in found] == [3, 4, 6]
    (dropped,) = linter.context.dropped()
    assert (dropped.what, dropped.count, dropped.frame) == ("flows with findings", 1, 6)


@pytest.mark.parametrize(("files", "made"), [(False, 1), (True, 3)])
def test_no_more_findings_are_kept_although_files_may_prove_outdated(files: bool, made: int) -> None:
    """They are made, so that all that rely on the file can be lowered, but only as many are listed as are asked for."""
    linter = Linter([LowOfFlow], max_findings=1)
    linter.context.files = [KnownFile("a", 5)] if files else []
    for table in tables_of(erf_pcap([native(bth={"psn": 0, "destqp": qp}) for qp in (5, 6, 7)])):
        linter.feed(table)
    assert sum(one is not None for one in linter.findings.flows.values()) == made
    assert len(linter.tally["ZZC003"].findings) == 1 and linter.tally["ZZC003"].count == 3


class Certain(Waits):
    """Hits of one flow, of which some are infos at the end, and some do not stand."""

    code, name = "ZZC008", "certain"

    def severity_at_end(self, hit: Hit, context: Any) -> Severity | None:
        return Severity.INFO if hit.frame % 2 else None

    def stands(self, hit: Hit, context: Any) -> bool:
        return hit.frame != 3


class Later(Rule):
    """The same, found in chunks."""

    code, name, message = "ZZC010", "later", "hit"

    @on_chunk
    def chunk(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        for frame in range(table.chunk.first, table.chunk.first + len(table)):
            yield Hit(frame=frame, time_ns=0, arguments={}, key="one", severity=Severity.INFO if frame % 2 else None)


for of_one in (Certain, Later):
    REGISTRY.pop(of_one.code)


@pytest.mark.parametrize("window", [1 << 20, 90])
@pytest.mark.parametrize(("first", "found"), [(0, [(1, 1, "info"), (2, 4, "error")]), (1, [(1, 5, "error")])])
def test_infos_of_a_flow_are_apart_unless_a_certain_hit_came_before(
    first: int, found: list[tuple[int, int, str]], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a rule that waits, here without frame 3. Of others they are always apart."""
    frames = [native(bth={"opcode": 4})] * 6
    if first:
        monkeypatch.setattr(Certain, "severity_at_end", lambda self, hit, context: None if hit.frame % 2 else Severity.INFO)
    _, findings = lint(frames, Certain, window=window)
    assert [(one.frame, one.count, one.severity.value) for one in findings] == found
    _, findings = lint(frames, Later, window=window)
    assert [(one.frame, one.count, one.severity.value) for one in findings] == [(1, 3, "info"), (2, 3, "error")]
