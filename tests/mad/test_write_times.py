"""Times and requests of writes are remembered, however long the writing goes on."""

from __future__ import annotations

import io
import random

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.mad import write_times
from ibdissect.mad.datagrams import Datagrams
from ibdissect.mad.write_times import WriteTimes
from tests import craft
from tests.cases import every
from tests.decode.made import tables_of
from tests.robustness.manipulations import Pcap, Record

FIRST = 1_700_000_000_000_000_000
UNIT = 10_000_000


def write(number: int) -> bytes:
    return craft.smp(2, 0x15, path=[1], header={"transaction_id": number})


def written(writes: list[tuple[int, int]], window: int = 32 << 20) -> WriteTimes:
    """Of requests with these numbers at these units of 10 ms; the frames count from 1."""
    frames = {number: write(number) for number in {number for _, number in writes}}
    records = [Record(i + 1, FIRST + at * UNIT, frames[number], len(frames[number])) for i, (at, number) in enumerate(writes)]
    times = WriteTimes()
    for table in tables_of(Pcap(247, tuple(records)).packed(), window):
        times.feed(table.once(Datagrams))
    return times


@every("window", [1, 32 << 20])
@every(
    ("writes", "others"),
    [
        ([(10, 1)], False),
        ([(10, 1), (10, 1)], False),
        ([(10, 1), (11, 1)], False),
        ([(10, 1), (11, 2)], True),
        ([(10, 1), (10, 2)], True),
        ([(10, 1), (12, 2)], False),
        ([(10, 1), (9, 2), (8, 1)], True),
    ],
)
def test_tries_of_one_request_are_no_writes_of_others(writes: list[tuple[int, int]], others: bool, window: int) -> None:
    times = written(writes, window)
    assert times.others(1, FIRST + 10 * UNIT) is others
    assert times.others(99, FIRST + 10 * UNIT)
    assert not times.others(99, FIRST + 15 * UNIT)


def test_other_attributes_with_one_transaction_id_are_other_requests() -> None:
    one, other = write(1), craft.smp(2, 0x16, path=[1], header={"transaction_id": 1})
    times = WriteTimes()
    for table in tables_of(craft.erf_pcap([one, other])):
        times.feed(table.once(Datagrams))
        assert times.others(1, int(table.chunk.time_ns[0]))


def test_writes_just_before_1970_count() -> None:
    """A pcapng interface may shift its times back."""
    times = WriteTimes()
    for chunk in open_capture(io.BytesIO(craft.erf_pcap([write(1), write(2)]))).chunks():
        chunk.time_ns[:] = -1
        times.feed(ChunkTable(chunk).once(Datagrams))
    assert times.others(1, -1)


@pytest.mark.slow
def test_long_writing_is_one_stretch() -> None:
    """A write in each 10 ms for a quarter of an hour."""
    times = written([(i, i % 7) for i in range(90_000)])
    assert len(times.stretches) == 1 and times.others(1, FIRST) and times.others(1, FIRST + 89_999 * UNIT)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 4))])
def test_too_many_stretches_are_joined(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No write is forgotten, and windows do not matter."""
    rnd, now, writes = random.Random(seed), 100, []
    for number in range(300):
        now += rnd.choice([-3, 1, 2, 4, 20, 50]) if number % 100 else 1_000_000
        writes.append((now, number))
    exact = written(writes)
    monkeypatch.setattr(write_times, "MAX_STRETCHES", 10)
    times, one_by_one = written(writes), written(writes, 1)
    assert times.stretches == one_by_one.stretches
    assert 3 <= len(times.stretches) <= 10 < len(exact.stretches)
    for at, number in writes:
        assert times.others(999, FIRST + at * UNIT)
        assert times.others(number + 1, FIRST + at * UNIT) >= exact.others(number + 1, FIRST + at * UNIT)
