"""pcapng times are right for every resolution and offset, without overflow."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.interfaces import Interfaces
from tests.capture.built import options

FAR = 4_600_000_000


def expected(ticks: int, resolution: int, offset: int) -> int:
    unit = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    second, rest = divmod(ticks, unit)
    second = max(-FAR, min(FAR, min(second, FAR) + max(-FAR, min(FAR, offset))))
    return second * 10**9 + rest * 10**9 // unit


RESOLUTIONS = st.one_of(st.integers(0, 28), st.integers(0x80, 0x80 + 64))


@given(
    st.lists(st.tuples(RESOLUTIONS, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)), min_size=1, max_size=20),
    st.sampled_from("<>"),
)
def test_times_are_exact(made: list[tuple[int, int, int]], order: str) -> None:
    known = Interfaces()
    for resolution, offset, _ in made:
        pairs = [(9, bytes([resolution])), (14, struct.pack(f"{order}q", offset))]
        known.describe(struct.pack(f"{order}HHI", 1, 0, 0) + options(order, *pairs), "little" if order == "<" else "big")
    times = known.nanoseconds(np.arange(len(made)), np.array([ticks for *_, ticks in made], np.uint64))
    assert times.tolist() == [expected(ticks, resolution, offset) for resolution, offset, ticks in made]


@given(st.binary(max_size=60), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_no_interface_description_raises(body: bytes, ticks: list[int]) -> None:
    known = Interfaces()
    known.describe(body, "big")
    times = known.nanoseconds(np.zeros(len(ticks), np.int64), np.array(ticks, np.uint64))
    assert len(known) == 1 and len(times) == len(ticks)


def test_microseconds_without_a_resolution() -> None:
    known = Interfaces()
    known.describe(struct.pack("<HHI", 247, 0, 96), "little")
    assert known.nanoseconds(np.array([0]), np.array([1_000_001], np.uint64)).tolist() == [1_000_001_000]
    assert (known.columns["link"], known.columns["snaplen"]) == ([247], [96])
