"""A check gives the same findings with a thread that reads ahead, and exceptions in that thread reach the caller."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.errors import CaptureError
from ibdissect.failures import Failures
from ibdissect.lint.finding import CaptureReport, Severity
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY, Context
from ibdissect.pipeline import passes, reading
from ibdissect.pipeline.check import CheckOptions, check, check_reading
from ibdissect.pipeline.reading import Reading
from ibdissect.rules import load
from ibdissect.subnet import FabricFollower
from ibdissect.words import ERROR, INFO, WARNING, Hit, Rule, on_chunk
from tests.craft import erf_pcap, native
from tests.rules.test_rules import CASES

ROOT = Path(__file__).parents[2]
CAPTURES = ["pkey-lab-full.pcap", "rxe-rping.pcap", "rxe-nak-bad-rkey.pcap", "opensm-first-sweep.pcap"]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of threads that are started, after windows of any size."""
    started: list[str] = []

    class Noted(threading.Thread):
        def start(self) -> None:
            started.append(self.name)
            super().start()

    monkeypatch.setattr(reading, "Thread", Noted)
    monkeypatch.setattr(reading, "AHEAD_FROM", 0)
    return started


def report(path: Path, threads: int, window: int) -> CaptureReport:
    with open_capture(str(path), window=window) as reader:
        return check_reading(Reading(reader), CheckOptions(rules=load(), threads=threads))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_a_thread_that_reads_ahead_changes_nothing(name: str, ahead: list[str]) -> None:
    path = ROOT / "captures" / name
    alone = report(path, 1, 3000)
    assert not ahead
    assert report(path, 2, 3000) == alone and alone.frames > 5
    assert len(ahead) > 1


@pytest.mark.slow
def test_no_thread_is_started_for_a_small_capture(ahead: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AHEAD_FROM", 1 << 20)
    assert report(ROOT / "captures" / CAPTURES[0], 2, 12 << 20).frames and not ahead


@pytest.mark.slow
def test_the_state_of_a_check_is_freed_at_its_end_without_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    state: list[weakref.ref[Any]] = []
    made = passes.linter_of

    def noted(*arguments: Any, **options: Any) -> Linter:
        linter = made(*arguments, **options)
        follower = linter.context.get(FabricFollower)
        state.extend(map(weakref.ref, (follower, follower.learner, linter.findings, linter.findings.consequences)))
        return linter

    monkeypatch.setattr(passes, "linter_of", noted)
    gc.disable()
    try:
        assert report(ROOT / "captures" / CAPTURES[0], 1, 3000).findings
        assert state and not any(one() is not None for one in state)
    finally:
        gc.enable()


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (number > 0)) for number, name in enumerate(CAPTURES)])
def test_no_window_waits_for_the_garbage_collector(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[weakref.ref[ChunkTable]] = []
    made = Reading.table_of

    def noted(self: Reading, chunk: Chunk, frames: Sequence[int] | None = None) -> ChunkTable:
        table = made(self, chunk, frames)
        windows.append(weakref.ref(table))
        return table

    monkeypatch.setattr(Reading, "table_of", noted)
    gc.disable()
    try:
        report(ROOT / "captures" / name, 1, 3000)
        assert windows and not any(one() is not None for one in windows)
    finally:
        gc.enable()


def test_what_goes_wrong_ahead_is_reported_and_the_thread_ends(ahead: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_capture(str(ROOT / "captures/rxe-rping.pcap"), window=3000) as reader:
        chunks = reader.chunks

        def breaks() -> Iterator[Chunk]:
            yield next(chunks())
            raise CaptureError(reader.path, "cannot be read: the disk is gone")

        monkeypatch.setattr(reader, "chunks", breaks)
        found = check_reading(Reading(reader), CheckOptions(rules=load(), threads=2))
    assert found.status == "unreadable" and "the disk is gone" in str(found.error) and ahead


@pytest.mark.slow
def test_a_copy_of_a_frame_is_described_as_the_frame_that_it_repeats(tmp_path: Path) -> None:
    data = (ROOT / "captures/pkey-lab.pcap").read_bytes()
    length = 16 + int.from_bytes(data[32:36], "little")
    path = tmp_path / "twice.pcap"
    path.write_bytes(data[: 24 + length] + data[24 : 24 + length] + data[24 + length :])
    with open_capture(str(path)) as reader:
        findings = check_reading(Reading(reader), CheckOptions(rules=load())).findings
    copy = next(finding for finding in findings if finding.code == "CAP012")
    assert copy.frame == 2 and copy.context is not None and "link type" not in copy.context and "SMP" in copy.context


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pkey-lab-full.pcap", "rxe-nak-bad-rkey.pcap"])
def test_what_is_found_at_the_end_is_described_wherever_a_window_ends(name: str) -> None:
    def lines(window: int) -> list[tuple[int, str | None, int | None]]:
        with open_capture(str(ROOT / "captures" / name), window=window) as reader:
            return [(one.frame, one.context, one.starts) for one in check_reading(Reading(reader), CheckOptions(rules=load())).findings]

    assert lines(64) == lines(1 << 20) and all(context and starts for _, context, starts in lines(64))


@pytest.mark.parametrize(
    ("normal", "given", "own", "told"),
    [
        (ERROR, None, None, ERROR), (ERROR, INFO, None, INFO), (ERROR, WARNING, None, WARNING), (ERROR, None, INFO, INFO),
        (ERROR, None, WARNING, WARNING), (ERROR, WARNING, INFO, INFO), (ERROR, INFO, WARNING, INFO), (ERROR, WARNING, WARNING, WARNING),
        (ERROR, INFO, ERROR, INFO), (WARNING, ERROR, None, ERROR), (WARNING, ERROR, WARNING, ERROR), (WARNING, ERROR, INFO, INFO),
    ],
)  # fmt: skip
def test_a_configured_severity_is_not_lost(
    tmp_path: Path, normal: Severity, given: Severity | None, own: Severity | None, told: Severity
) -> None:
    """Neither in the findings nor in their number. What a rule lowers by itself stays lower."""

    class Everything(Rule):
        """Each frame, with a severity of its own or without."""

        code, name, message, severity = "ZZP001", "everything", "hit", normal

        @on_chunk
        def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
            for frame in (1, 2, 3):
                yield Hit(frame=frame, time_ns=0, arguments={}, severity=own)

    REGISTRY.pop("ZZP001")
    (tmp_path / "x.pcap").write_bytes(erf_pcap([native()] * 3))
    found = check(str(tmp_path / "x.pcap"), CheckOptions(rules=[Everything], severities={"ZZP001": given} if given else {}, max_findings=2))
    assert [one.severity for one in found.findings] == [told] * 2 and +Counter(found.counts) == {told: 3}


def test_a_rule_finds_the_same_alone_as_among_all(tmp_path: Path) -> None:
    """What another rule explains is reported by neither, and what it did not explain is."""
    (tmp_path / "x.pcap").write_bytes(CASES["PM009"][1].bad)
    pm009, txn006 = (next(rule for rule in load() if rule.code == code) for code in ("PM009", "TXN006"))
    told, among = list[str](), dict[str, list[str]]()
    for name, options in {
        "alone": CheckOptions(rules=[txn006]),
        "with its cause": CheckOptions(rules=[txn006], causes=[pm009]),
        "both": CheckOptions(rules=[pm009, txn006]),
    }.items():
        with open_capture(str(tmp_path / "x.pcap")) as reader:
            found = check_reading(Reading(reader), options)
        assert found.by_rule == Counter(one.code for one in found.findings) and sum(found.counts.values()) == len(found.findings)
        among[name] = [one.code for one in found.findings]
    assert among == {"alone": ["TXN006"], "with its cause": [], "both": ["PM009"]}
    with open_capture(str(tmp_path / "x.pcap")) as reader:
        failures = Failures()
        linter = passes.linter_of(
            CheckOptions(rules=[txn006], causes=[pm009]), Reading(reader), failures, on_finding=lambda one: told.append(one.code),
            on_occurrence=lambda rule, *_: told.append(rule.code),
        )  # fmt: skip
        for table in Reading(reader).tables():
            linter.feed(table)
        linter.finish()
    assert not told and not failures
    options = pickle.loads(pickle.dumps(CheckOptions(rules=[txn006], causes=[pm009])))
    assert (options.rules, options.causes) == ([txn006], [pm009])
