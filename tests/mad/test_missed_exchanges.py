"""Exchanges that a capture missed as a whole are noticed by the transaction ids; those that nobody sent are left alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.mad import missed_exchanges
from ibdissect.mad.missed_exchanges import SmpGaps
from tests import craft
from tests.cases import few
from tests.decode.made import tables_of
from tests.robustness.manipulations import Pcap, Record

MAX_PROGRAMS = 256

FIRST_NS, SECOND = 1_700_000_000_000_000_000, 1_000_000_000
NODE_INFO, GET, ANSWER = 0x11, 0x01, 0x81
AGENT = 7


def smp(method: int, number: int, *, agent: int = AGENT, path: Sequence[int] = (1,)) -> bytes:
    return craft.smp(method, NODE_INFO, path=list(path), header={"transaction_id": agent << 32 | number})


def exchanges(numbers: Sequence[int], *, itself: bool = True) -> list[bytes]:
    """Requests with these ids and their answers; the first goes to the manager's own port if `itself`."""
    frames = [smp(method, number) for number in numbers for method in (GET, ANSWER)]
    if itself:
        frames[:2] = [smp(method, numbers[0], path=()) for method in (GET, ANSWER)]
    return frames


def gaps_of(frames: Sequence[bytes], missing: Sequence[int] = (), *, window: int = 32 << 20) -> SmpGaps:
    """What is found in a capture with a packet each millisecond, of which some are missing."""
    records = (Record(i + 1, FIRST_NS + i * 1_000_000, one, len(one)) for i, one in enumerate(frames) if i not in missing)
    gaps = SmpGaps()
    for table in tables_of(Pcap(247, tuple(records)).packed(), window):
        gaps.feed(table)
    return gaps


def seconds(frames: Sequence[bytes], missing: Sequence[int] = (), *, window: int = 32 << 20) -> set[tuple[int, int]]:
    return set(gaps_of(frames, missing, window=window).seconds())


ALL = exchanges(range(100, 140))
LOST = {(FIRST_NS // SECOND, FIRST_NS // SECOND)}


@pytest.mark.parametrize("missing", [range(40, 42), range(40, 50), range(21, 51)])
def test_a_burst_that_swallows_whole_exchanges(missing: range) -> None:
    assert seconds(ALL, missing) == LOST
    assert not seconds(ALL)


def test_a_count_that_continues_without_a_pause_is_no_loss() -> None:
    """The program asked where the capture does not look."""
    assert not seconds(exchanges([*range(100, 120), *range(125, 145)]))


def test_ids_that_come_later_or_from_another_agent() -> None:
    late = [*ALL[:40], *ALL[50:], *ALL[40:50]]
    assert not seconds(late)
    paused = [*ALL[:40], *[ALL[0]] * 10, *ALL[50:]]
    assert seconds(paused, range(40, 50)) == LOST
    assert not seconds([*paused, *ALL[40:50]], range(40, 50))
    shared = [*ALL[:40], *(smp(GET, number, agent=9) for number in range(120, 125)), *ALL[50:]]
    assert not seconds([*shared[:40], *[shared[40]] * 20, *shared[40:]], range(40, 60))


@pytest.mark.parametrize(("lost", "noticed"), [(8, False), (9, True)])
def test_requests_to_a_managers_own_port_are_often_not_captured(lost: int, noticed: bool) -> None:
    assert bool(seconds(exchanges(range(100, 200), itself=False), range(40, 40 + 2 * lost))) is noticed


def test_a_program_must_be_seen_to_count() -> None:
    assert not seconds(ALL[:30], range(20, 24))  # too few
    anywhere = exchanges([100 * i for i in range(1, 41)])
    assert not seconds(anywhere, range(20, 30))


@pytest.mark.slow
def test_another_run_of_the_program_is_no_gap() -> None:
    assert seconds([*ALL, *exchanges(range(140, 180))], range(70, 80)) == LOST
    assert not seconds([*ALL[:70], *exchanges(range(9000, 9040))], range(60, 80))
    assert seconds([*ALL, *exchanges(range(9000, 9040))], range(40, 50)) == LOST


@pytest.mark.slow
def test_many_tools_do_not_push_out_a_manager() -> None:
    """Each run of a tool counts from the start, under a number of its own."""
    manager = exchanges(range(100, 140 + MAX_PROGRAMS))
    frames = [one for i, asked in enumerate(manager) for one in (asked, smp(GET, 7, agent=1000 + i)) if i >= 80]
    gaps = gaps_of([*manager[:80], *frames], range(40, 50))
    assert set(gaps.seconds()) == LOST and not gaps.dropped.count
    gaps = gaps_of([*manager[:80], *(smp(GET, 7, agent=1000 + i) for i in range(MAX_PROGRAMS))], range(40, 50))
    assert not set(gaps.seconds()) and gaps.dropped.count == 1


@few("seed", range(5), fast=(0, 1))
def test_windows_do_not_matter(seed: int) -> None:
    rnd = random.Random(seed)
    frames = [one for _, one in sorted(enumerate(ALL), key=lambda entry: entry[0] + rnd.random() * 3)]
    at = rnd.randrange(10, 60)
    missing = {*range(at, at + 12), *(i for i in range(len(frames)) if rnd.random() < 0.02)}
    assert seconds(frames, missing) == seconds(frames, missing, window=1) == LOST


@pytest.mark.slow
@pytest.mark.parametrize("limit", [3, 9])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 20))])
def test_programs_that_are_pushed_out_do_not_depend_on_windows(seed: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some begin anew, some lose their order, some send to themselves, some ids come again, some frames have no time."""
    monkeypatch.setattr(missed_exchanges, "MAX_PROGRAMS", limit)
    monkeypatch.setattr(missed_exchanges, "MAX_GAPS", limit)
    rnd, frames, counts = random.Random(seed), [], dict.fromkeys(range(1, 6), 10)
    for _ in range(200):
        agent = rnd.choice([1, 1, 1, *counts])
        counts[agent] += rnd.choice([0, 0, -1, 1, 1, 1, 1, 2, 9, 5000 if rnd.random() < 0.1 else 1])
        counts[agent] = 10 if rnd.random() < 0.02 else counts[agent]
        one = smp(rnd.choice([GET, ANSWER]), counts[agent], agent=agent, path=() if rnd.random() < 0.1 else (1,))
        frames += [one] * rnd.choice([1, 1, 1, 2])
    times = [0 if rnd.random() < 0.1 else FIRST_NS + i * 1_000_000 + rnd.choice([0, 200_000_000]) for i in range(len(frames))]
    pcap = Pcap(247, tuple(Record(i + 1, time, one, len(one)) for i, (one, time) in enumerate(zip(frames, times, strict=True))))
    states = [state_of(pcap, window) for window in (32 << 20, 1, 5000)]
    assert states[0] == states[1] == states[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 4))])
def test_a_disorderly_program_does_not_depend_on_windows(seed: int) -> None:
    rnd = random.Random(seed)
    numbers = [10 + 3 * i + rnd.randrange(9) for i in range(400)]
    frames = [smp(GET, number, path=() if rnd.random() < 0.01 else (1,)) for number in numbers]
    frames += [smp(GET, number, agent=9) for number in range(5)]
    pcap = Pcap(247, tuple(Record(i + 1, FIRST_NS + i * 1_000_000, one, len(one)) for i, one in enumerate(frames)))
    states = [state_of(pcap, window) for window in (32 << 20, 1, 5000, 70_000)]
    assert states[0] == states[1] == states[2] == states[3]
    program = dict(states[0][0])[AGENT]
    assert program.disorderly and program.highest == max(numbers)


@pytest.mark.slow
def test_a_program_without_order_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no other run, although it counts far within a window."""
    monkeypatch.setattr(missed_exchanges, "MAX_GAPS", 5)
    frames = exchanges([*range(100, 9000, 40), *range(8000, 8040)], itself=False)
    pcap = Pcap(247, tuple(Record(i + 1, FIRST_NS + i * 1_000_000, one, len(one)) for i, one in enumerate(frames)))
    assert state_of(pcap, 1) == state_of(pcap, 20_000) == state_of(pcap, 32 << 20)


def state_of(pcap: Pcap, window: int) -> tuple[Any, ...]:
    gaps = SmpGaps()
    for table in tables_of(pcap.packed(), window):
        gaps.feed(table)
    for program in gaps.programs.values():
        for step in program.steps if program.disorderly else ():  # nobody asks what they lack
            step.late = 0
    return list(gaps.programs.items()), gaps.recent.tolist(), gaps.dropped.count, gaps.dropped.frame, gaps.dropped.time_ns


def at_times(times: Sequence[int]) -> set[tuple[int, int]]:
    """What is found if the capture lacks five exchanges, and its frames have these times."""
    frames = [*ALL[:40], *ALL[50:]]
    gaps = SmpGaps()
    records = (Record(i + 1, time, one, len(one)) for i, (one, time) in enumerate(zip(frames, times, strict=True)))
    for table in tables_of(Pcap(247, tuple(records)).packed()):
        gaps.feed(table)
    return set(gaps.seconds())


def test_frames_without_time_are_no_pause() -> None:
    times = [FIRST_NS + i * 1_000_000 for i in range(len(ALL) - 10)]
    assert not at_times(times)
    assert at_times([*times[:40], *(time + 10_000_000 for time in times[40:])]) == LOST
    for without in (range(38, 39), range(40, 41), range(10), range(0, len(times), 2)):
        assert not at_times([0 if i in without else time for i, time in enumerate(times)])


def test_a_clock_that_does_not_tell_frames_apart_shows_no_pause() -> None:
    assert not at_times([FIRST_NS] * (len(ALL) - 10))
    assert not at_times([FIRST_NS + i // 20 * 20_000_000 for i in range(len(ALL) - 10)])
