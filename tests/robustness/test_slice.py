"""The linter accuses nobody because a capture lost, cut, swapped or doubled packets, or because the fabric changed meanwhile.

A slice of benchmarks/robustness.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.craft import rc

from .compare import MEANT, Orderly, findings_of, new_findings
from .manipulations import MANIPULATIONS, Pcap, Record, read
from .scenarios import DOWN, SCENARIOS, Fabric, made

CAPTURES = Path(__file__).parents[2] / "captures"
SMALL = ["pkey-lab.pcap", "rxe-rping.pcap", "rxe-nak-bad-rkey.pcap", "rxe-atomic-write.pcap", "opensm-first-sweep.pcap"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_no_new_errors_or_warnings(name: str) -> None:
    orderly = read(CAPTURES / name)
    known = Orderly(orderly.packed())
    new = {
        (manipulation, found.finding.code, found.origin, found.finding.message)
        for manipulation, manipulate in MANIPULATIONS.items()
        for found in new_findings(known, manipulate(orderly))
        if found.finding.severity != "info"
    }
    assert new == set()


def test_manipulations_do_what_they_say() -> None:
    orderly = Pcap(1, tuple(Record(i + 1, 1_000_000_000 + i * 1000, bytes(range(100)), 100) for i in range(400)))
    made = {name: manipulate(orderly) for name, manipulate in MANIPULATIONS.items()}
    assert made["starts at 25 %"].origins() == list(range(101, 401))
    assert 300 < len(made["20 % lost"].records) < 345 and made["20 % lost"].origins() == sorted(made["20 % lost"].origins())
    swapped = made["neighbours swapped"]
    assert sorted(swapped.origins()) == orderly.origins() != swapped.origins()
    assert [record.time_ns for record in swapped.records] == [record.time_ns for record in orderly.records]
    assert made["doubled"].origins() == [i for i in range(1, 401) for _ in range(2)]
    assert {len(record.data) for record in made["snap 54"].records} == {54} and made["snap 54"].records[0].length == 100
    assert made["an hour idle"].records[200].time_ns - made["an hour idle"].records[199].time_ns > 3_600_000_000_000
    times = [record.time_ns for record in made["clock set"].records]
    assert times != sorted(times)
    assert len({record.time_ns for record in made["one time"].records}) == 1


def test_an_erf_record_carries_the_time_that_it_was_given() -> None:
    orderly = read(CAPTURES / "opensm-first-sweep.pcap")
    later = MANIPULATIONS["clock set"](orderly).records[len(orderly.records) // 2]
    seconds = int.from_bytes(later.data[4:8], "little")
    assert seconds == later.time_ns // 1_000_000_000


TRIES = 4
STEP = 68
"""Frames from one burst to the next; 17 with --thorough."""
BURSTS = 10, 40
"""Lengths of bursts that are cut out everywhere: they swallow whole exchanges."""


def cut(orderly: Pcap, step: int) -> Iterator[tuple[str, Pcap]]:
    """The capture with some packets missing, in many ways."""
    records = list(orderly.records)
    for name, manipulate in MANIPULATIONS.items():
        yield name, manipulate(orderly)
    for seed in range(TRIES):
        rnd = random.Random(seed)
        at, length = rnd.randrange(len(records)), rnd.randrange(5, 60)
        yield f"starts at {at}", orderly.with_records(records[at:])
        yield f"without {at} to {at + length}", orderly.with_records(records[:at] + records[at + length :])
        for percent in (5, 20):
            yield f"{percent} % lost, {seed}", orderly.with_records([one for one in records if rnd.random() * 100 >= percent])
    for length in BURSTS:
        for at in range(length, len(records) - length, step):
            yield f"without {at} to {at + length}", orderly.with_records(records[:at] + records[at + length :])


@pytest.mark.slow
@pytest.mark.parametrize("happen", SCENARIOS)
def test_nobody_is_accused(happen: Callable[[Fabric], None], pytestconfig: pytest.Config) -> None:
    orderly = made(happen)
    captures = [("whole", orderly), *cut(orderly, 17 if pytestconfig.getoption("--thorough") else STEP)]
    found = {
        (how, one.code, one.frame, one.message)
        for how, capture in captures
        for one in findings_of(capture.packed())
        if one.severity != "info" and one.code not in MEANT
    }
    assert found == set()


def strange_partition(fabric: Fabric) -> None:
    """Hosts talk in a partition that neither has, long after the manager wrote their tables, and the manager goes on."""
    fabric.sweep()
    fabric.outside(6, DOWN, path=[1])
    shout(fabric)
    fabric.sweep()


def shout(fabric: Fabric) -> None:
    """Messages that nobody acknowledges: they are dropped."""
    for psn in range(3):
        fabric.sent(rc(4, b"12345678", lrh={"slid": 1, "dlid": 3}, bth={"destqp": 0x77, "psn": psn, "p_key": 0x8999, "a": 1}))


@pytest.mark.slow
def test_only_a_hole_takes_the_certainty_away() -> None:
    orderly = made(strange_partition)
    first = min(found.frame for found in findings_of(orderly.packed()) if found.code == "PKY003")
    severities = {}
    for lost in (0, 2):
        rest = [record for record in orderly.records if not first - 2 <= record.origin < first - 2 + lost]
        found = findings_of(orderly.with_records(rest).packed())
        severities[lost] = {one.severity for one in found if one.code in ("PKY003", "PKY004")}
    assert severities == {0: {"error"}, 2: {"info"}}


def test_tables_are_another_subnets_where_connections_work_without_them() -> None:
    """What is acknowledged is not refused. A connection that works in a partition which a table lacks may be that of one wrong adapter; two
    of other pairs are not.
    """

    def happens(fabric: Fabric) -> None:
        fabric.sweep()
        shout(fabric)
        for pair in others:
            fabric.talk(*pair, 0x8999)

    severities = {}
    for others in ([], [(1, 5)], [(1, 5), (3, 5)]):
        found = [one for one in findings_of(made(happens).packed()) if one.code in ("PKY003", "PKY004")]
        mine = (one for one in found if "QP 0x77" in one.message)
        severities[str(others)] = {(one.code, str(one.severity)) for one in mine}
        assert {str(one.severity) for one in found if "QP 0x77" not in one.message} <= {"info"}
    error = {("PKY003", "error"), ("PKY004", "error")}
    assert severities == {"[]": error, "[(1, 5)]": error, "[(1, 5), (3, 5)]": {("PKY003", "info"), ("PKY004", "info")}}
