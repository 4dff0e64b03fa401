"""The walk over records finds what following their lengths one by one finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect import c_code
from tests.capture.built import Packet, Row, enhanced, erf_record, interface, pcap, pcap_rows, read, section
from tests.conftest import a_third_of, shared_captures

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["C", "Python"])


def found(capture: bytes, compiled: bool, window: int = 1 << 24) -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(c_code, "records", None)
        elif c_code.records is None:
            pytest.skip("built without a compiler")
        rows, reader = read(capture, window)
    assert not reader.damage
    return rows


@WAYS
@pytest.mark.parametrize("order", "<>")
@given(sizes=st.lists(st.sampled_from([0, 0, 0, 0, 1, 20, 40, 255]), max_size=200), window=st.sampled_from([90, 1 << 20]))
def test_any_lengths(order: str, compiled: bool, sizes: list[int], window: int) -> None:
    """Of records whose bytes could be lengths, too."""
    made = [Packet(1_600_000_000, number, b"\0\0\0\x14" * (size // 4) + bytes(size % 4)) for number, size in enumerate(sizes)]
    assert found(pcap(made, order), compiled, window) == pcap_rows(made)


def containers() -> Iterator[tuple[bytes, list[bytes]]]:
    """One with each kind of length: of pcap, ERF and pcapng, with what its records hold."""
    draw = random.Random(3)
    data = [draw.randbytes(draw.randrange(80)) for _ in range(1_200)]
    for order in "<>":
        yield pcap([Packet(1_600_000_000, number, one) for number, one in enumerate(data)], order), data
        yield section(order) + interface(order, 1) + b"".join(enhanced(order, 0, number, one) for number, one in enumerate(data)), data
    yield b"".join(erf_record(one, second=1_600_000_000) for one in data), data


@WAYS
def test_many_records_of_each_container(compiled: bool) -> None:
    for capture, data in containers():
        assert [row[3] for row in found(capture, compiled)] == data


@WAYS
@pytest.mark.parametrize("path", a_third_of(shared_captures()), ids=lambda path: path.name)
def test_real_captures(path: Path, compiled: bool) -> None:
    """Both ways find the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_code, "records", c_code.records if compiled else None)
        rows, reader = read(path, 1 << 20)
    assert (rows, reader.damage) == (read(path)[0], read(path)[1].damage) and rows


@pytest.mark.skipif(c_code.records is None, reason="built without a compiler")
@pytest.mark.parametrize(
    ("at", "limit", "dtype", "offset", "plus", "least"),
    [
        (-1, 8, "<u4", 0, 0, 8),
        (0, 14, "<u4", 0, 0, 8),
        (0, 8, "<u4", 6, 0, 8),
        (0, 8, "<u8", 0, 0, 8),
        (0, 8, "<u4", 0, 0, 0),
        (0, 8, "u4", 0, 0, 8),
    ],
)
def test_lengths_outside_the_data_are_refused(at: int, limit: int, dtype: str, offset: int, plus: int, least: int) -> None:
    assert c_code.records is not None
    with pytest.raises(ValueError, match="do not lie in the data"):
        c_code.records.walk(bytes(16), at, limit, dtype, offset, plus, least, np.empty(4, np.int64))


def test_starts_end_where_their_room_ends() -> None:
    if c_code.records is None:
        pytest.skip("built without a compiler")
    starts = np.full(3, -1, np.int64)
    assert c_code.records.walk(bytes(64), 0, 61, "<u4", 0, 0, 8, starts[:2]) == (2, 16)
    assert starts.tolist() == [0, 8, -1]


def test_a_length_of_nothing_ends_no_walk() -> None:
    """Both ways go on behind a record that says that it is shorter than its own header."""
    erf, ng = erf_record(b"abc", second=1_600_000_000), enhanced("<", 0, 5, b"abc")
    for before, one, at, size in ((b"", erf, 10, 2), (section() + interface("<", 1), ng, 4, 4)):
        wrong = one[:at] + bytes(size) + one[at + size :]
        capture = before + one * 40 + wrong + one * 40
        found = []
        for compiled in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(c_code, "records", c_code.records if compiled else None)
                rows, reader = read(capture)
            found.append((rows, reader.damage))
        assert found[0] == found[1] and len(found[0][0]) >= 80 and len(found[0][1]) == 1
