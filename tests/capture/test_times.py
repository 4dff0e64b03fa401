"""Nothing that is computed from times wraps around, whatever a capture says."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.interfaces import Interfaces
from ibdissect.capture.opening import open_capture
from ibdissect.capture.times import earlier, near
from tests.capture.built import erf_record

NEAR_NS = (1 << 61) - 1
FAR_NS = 4_600_000_000_000_000_000
FAR = 4_600_000_000
SECOND_NS = 1_000_000_000
INTS = st.integers(-(2**63), 2**63 - 1)
BOUNDS = [0, 1, -1, NEAR_NS, FAR_NS - 1, FAR_NS, -FAR_NS, 1 - FAR_NS]
TIMES = st.one_of(st.sampled_from(BOUNDS), st.integers(-FAR_NS, FAR_NS))


def test_the_difference_of_any_two_times_fits() -> None:
    assert 2 * (FAR_NS + SECOND_NS) < 2**63 and FAR_NS > 2**32 * SECOND_NS


@given(st.lists(st.tuples(st.integers(0, 255), INTS, st.integers(0, 2**64 - 1)), min_size=1, max_size=9))
def test_a_pcapng_has_no_other_times(made: list[tuple[int, int, int]]) -> None:
    known = Interfaces()
    for resolution, offset, _ in made:
        options = struct.pack("<HHB3xHHq", 9, 1, resolution, 14, 8, offset)
        known.describe(struct.pack("<HHI", 1, 0, 0) + options, "little")
    times = known.nanoseconds(np.arange(len(made)), np.array([ticks for *_, ticks in made], np.uint64))
    assert (np.abs(times) < FAR_NS + SECOND_NS).all()


@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_a_pcap_has_no_other_times(magic: int) -> None:
    head = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    body = b"".join(struct.pack("<IIII", seconds, rest, 14, 14) + bytes(14) for seconds in (0, 2**32 - 1) for rest in (0, 2**32 - 1))
    (chunk,) = open_capture(io.BytesIO(head + body)).chunks()
    unit = 1000 if magic == 0xA1B2C3D4 else 1
    last = (2**32 - 1) * SECOND_NS
    assert chunk.time_ns.tolist() == [0, (2**32 - 1) * unit, last, last + (2**32 - 1) * unit]
    assert chunk.time_ns.max() <= FAR_NS


def test_nor_has_erf() -> None:
    (chunk,) = open_capture(io.BytesIO(erf_record(bytes(40), second=2**32 - 1))).chunks()
    assert FAR_NS >= int(chunk.time_ns[0]) >= (2**32 - 1) * SECOND_NS


def clipped(value: int, low: int = -FAR_NS, high: int = FAR_NS) -> int:
    return max(low, min(high, value))


@given(st.lists(TIMES, min_size=1, max_size=5), TIMES)
def test_near(times: list[int], origin: int) -> None:
    found = near(np.array(times), origin)
    assert found.tolist() == [clipped(clipped(time, origin - NEAR_NS, origin + NEAR_NS)) for time in times]
    delays = (found[:, None] - found).reshape(-1)
    assert (np.diff(delays).astype(object) == np.diff(delays.astype(object))).all(), "differences of differences fit"


@given(st.lists(TIMES, min_size=1, max_size=5), st.one_of(TIMES, st.integers(-(2**70), 2**70)), st.integers(-(2**50), 2**50))
def test_earlier(times: list[int], by: int, more: int) -> None:
    found = earlier(np.array(times), by, np.full(len(times), float(more)))
    assert found.tolist() == [clipped(clipped(time - clipped(by)) - more) for time in times]


@pytest.mark.parametrize(("more", "is_"), [(np.inf, 5 - FAR_NS), (-np.inf, FAR_NS), (np.nan, 5), (1e300, 5 - FAR_NS), (0.4, 5), (0.6, 4)])
def test_a_drift_without_sense(more: float, is_: int) -> None:
    assert earlier(np.array([5]), 0, np.array([more])).tolist() == [is_]


def test_the_ends() -> None:
    assert FAR == FAR_NS // SECOND_NS
