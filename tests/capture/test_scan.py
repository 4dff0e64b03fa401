"""The walk over records finds what following their lengths one by one finds."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect import c_code
from ibdissect.capture.scan import Stride, chained, walk
from ibdissect.capture.scattered import columns, gather, looked_up, unaligned
from tests.capture.built import Packet, pcap
from tests.conftest import a_third_of, shared_captures

STRIDES = [
    Stride(dtype="<u4", at=8, plus=16, least=16, header=16),
    Stride(dtype=">u4", at=8, plus=16, least=16, header=16),
    Stride(dtype=">u2", at=10, plus=0, least=16, header=16),
    Stride(dtype="<u4", at=4, plus=0, least=12, header=12),
]


def one_by_one(data: bytes, start: int, stride: Stride) -> tuple[list[int], int]:
    code = {"<u4": "<I", ">u4": ">I", ">u2": ">H"}[stride.dtype]
    found, at = [], start
    while at + stride.header <= len(data):
        found.append(at)
        at += max(stride.least, struct.unpack_from(code, data, at + stride.at)[0] + stride.plus)
    return found, at


WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["C", "Python"])


def found(data: bytes, start: int, stride: Stride, compiled: bool) -> tuple[list[int], int]:
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(c_code, "records", None)
        elif c_code.records is None:
            pytest.skip("built without a compiler")
        positions, after = walk(np.frombuffer(data, np.uint8), start, len(data), stride)
    return positions.tolist(), after


@WAYS
@pytest.mark.parametrize("stride", STRIDES, ids=lambda stride: f"{stride.dtype}@{stride.at}")
@given(values=st.lists(st.sampled_from([0, 0, 0, 0, 1, 20, 40, 255]), max_size=600), start=st.integers(0, 20))
def test_any_bytes(stride: Stride, compiled: bool, values: list[int], start: int) -> None:
    assert found(bytes(values), start, stride, compiled) == one_by_one(bytes(values), start, stride)


@WAYS
@pytest.mark.parametrize("path", a_third_of(shared_captures()), ids=lambda path: path.name)
def test_real_captures(path: Path, compiled: bool) -> None:
    blob = path.read_bytes()[: 1 << 20]
    assert found(blob, 24, STRIDES[0], compiled) == one_by_one(blob, 24, STRIDES[0])


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


def test_unaligned_and_gather_read_every_byte() -> None:
    raw = np.arange(10, dtype=np.uint8)
    assert unaligned(raw, ">u2").tolist() == [i << 8 | i + 1 for i in range(9)]
    assert gather(raw, np.array([0, 7]), 3).tolist() == [[0, 1, 2], [7, 8, 9]]
    assert len(unaligned(raw[:1], "<u4")) == 0


def test_a_chain_is_good_when_it_ends_exactly_at_the_end() -> None:
    blob = pcap([Packet(5, 0, b"x" * 30), Packet(5, 0, b"y" * 9)])
    raw = np.frombuffer(blob, np.uint8)
    at = np.array([24, 24 + 46, 25])
    stride = STRIDES[0]
    assert chained(raw, at, len(blob), stride, lambda p: np.ones(len(p), bool), end=len(blob)).tolist() == [True, True, False]
    assert not chained(raw, at, len(blob), stride, lambda p: np.ones(len(p), bool)).any()


@pytest.mark.parametrize("count", [0, 1, 4096, 4103])
def test_columns_are_the_words_of_a_gather(count: int) -> None:
    random = np.random.default_rng(5)
    raw = random.integers(0, 256, 5000, np.uint8)
    positions = np.sort(random.integers(0, len(raw) - 30, count))
    found = columns(raw, positions, (0, 2), (14, 4))
    assert found.shape == (6, count)
    rows = gather(raw, positions, 30)
    assert (found.T.copy().view(np.uint8) == np.concatenate((rows[:, :8], rows[:, 14:30]), axis=1)).all()


def test_a_table_is_looked_up_by_byte() -> None:
    table = np.arange(255, -1, -1).astype(np.uint8)
    values = np.arange(256).astype(np.uint8)
    assert (looked_up(values, table) == table[values]).all()
