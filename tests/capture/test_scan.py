"""Do many walkers at once find exactly what one walker finds?"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.scan import Stride, chained, walk
from ibdissect.capture.scattered import AT_ONCE, columns, gather, looked_up, unaligned
from tests.capture.built import Packet, packets, pcap
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


def many(data: bytes, start: int, stride: Stride, key: tuple[int, int], likely: object, block: int, few: int) -> tuple[list[int], int]:
    raw = np.frombuffer(data, np.uint8)
    positions, after = walk(raw, start, len(data), stride, key, likely, block, few)  # type: ignore[arg-type]
    return positions.tolist(), after


@pytest.mark.slow
@pytest.mark.parametrize("stride", STRIDES, ids=lambda stride: f"{stride.dtype}@{stride.at}")
@given(data=st.data())
def test_any_bytes_any_guesses(stride: Stride, data: st.DataObject) -> None:
    # Small numbers, so that chains are long; guesses are right, wrong or missing.
    blob = bytes(data.draw(st.lists(st.sampled_from([0, 0, 0, 0, 1, 20, 40]), min_size=60, max_size=1500)))
    guessed = data.draw(st.sets(st.integers(0, len(blob))))
    block, few = data.draw(st.integers(24, 80)), data.draw(st.integers(2, 4))
    key = (data.draw(st.integers(0, 11)), data.draw(st.sampled_from([0, 1, 20])))
    found = many(blob, 0, stride, key, lambda at: np.isin(at, list(guessed)), block, few)
    assert found == one_by_one(blob, 0, stride)


@given(packets(), st.integers(24, 200), st.sampled_from("<>"))
def test_captures_with_fake_headers_in_payload(made: list[Packet], block: int, order: str) -> None:
    blob = pcap(made, order)
    stride = STRIDES["<>".index(order)]
    for likely in (lambda at: np.ones(len(at), bool), lambda at: gather(np.frombuffer(blob, np.uint8), at, 16)[:, 11] == 0):
        assert many(blob, 24, stride, (11, 0), likely, block, 2) == one_by_one(blob, 24, stride)


@given(packets(st.just(1_600_000_000)))
def test_a_guess_that_hits_a_fake_chain_is_not_believed(made: list[Packet]) -> None:
    # One long record that is a capture itself: a chain of perfect headers at a wrong place.
    inner = pcap(made * 20)[24:]
    blob = pcap([Packet(1_600_000_000, 0, inner[3:]), *made])
    found = many(blob, 24, STRIDES[0], (3, blob[27] if len(blob) > 27 else 0), lambda at: np.ones(len(at), bool), 48, 2)
    assert found == one_by_one(blob, 24, STRIDES[0])


@pytest.mark.parametrize("path", a_third_of(shared_captures()), ids=lambda path: path.name)
def test_real_captures(path: Path) -> None:
    blob = path.read_bytes()[: 1 << 20]
    stride = STRIDES[0]
    raw = np.frombuffer(blob, np.uint8)
    expected = one_by_one(blob, 24, stride)

    def likely(at: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        head = gather(raw, at, 16).view("<u4")
        return (head[:, 2] <= head[:, 3]) & (head[:, 3] < 70000)

    for block in (512, 4096):
        assert many(blob, 24, stride, (3, blob[27]), likely, block, 4) == expected


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


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, AT_ONCE + 7])
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
