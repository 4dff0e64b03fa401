"""pcapng times are right for every resolution and offset, without overflow."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.errors import CaptureError
from tests.capture.built import block, enhanced, interface, read, section, simple

FAR = 4_600_000_000


def expected(ticks: int, resolution: int, offset: int) -> int:
    unit = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    second, rest = divmod(ticks, unit)
    second = max(-FAR, min(FAR, min(second, FAR) + max(-FAR, min(FAR, offset))))
    return second * 10**9 + rest * 10**9 // unit


RESOLUTIONS = st.one_of(st.integers(0, 28), st.integers(0x80, 0x80 + 64))


@pytest.mark.slow
@given(
    st.lists(st.tuples(RESOLUTIONS, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)), min_size=1, max_size=20),
    st.sampled_from("<>"),
)
def test_times_are_exact(made: list[tuple[int, int, int]], order: str) -> None:
    described = [interface(order, 1, (9, bytes([unit])), (14, struct.pack(f"{order}q", offset))) for unit, offset, _ in made]
    packets = [enhanced(order, number, ticks, b"data") for number, (*_, ticks) in enumerate(made)]
    rows, reader = read(section(order) + b"".join(described + packets))
    assert [row[0] for row in rows] == [expected(ticks, unit, offset) for unit, offset, ticks in made] and not reader.damage


@given(st.binary(max_size=60), st.booleans(), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_no_interface_description_raises(body: bytes, ethernet: bool, ticks: list[int]) -> None:
    head = struct.pack(">HHI", 1, 0, 0) if ethernet else b""
    packets = b"".join(enhanced(">", 0, each, b"data") for each in ticks)
    with suppress(CaptureError):  # of other link types
        rows, reader = read(section(">") + block(">", 1, head + body) + packets)
        assert len(rows) == len(ticks) or reader.damage
        assert len(rows) == len(ticks) or not ethernet


def test_microseconds_without_a_resolution() -> None:
    rows, _ = read(section() + interface("<", 247, snaplen=96) + enhanced("<", 0, 1_000_001, b"data") + simple("<", bytes(96), 200))
    assert [row[:3] for row in rows] == [(1_000_001_000, 4, 4), (0, 200, 96)] and {row[4] for row in rows} == {247}
