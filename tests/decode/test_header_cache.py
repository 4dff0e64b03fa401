"""Headers read from the gathered fronts of records are the bytes of the data, wherever they lie."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.chunk import Chunk
from ibdissect.decode.header_cache import WIDTH, FieldReader, HeaderCache, Unread
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND


def _chunk(data: bytes, offsets: list[int], link: int) -> Chunk:
    n = len(offsets)
    zero = np.zeros(n, np.int64)
    return Chunk(
        first=1, base=0, data=np.frombuffer(data, np.uint8), offset=np.array(offsets, np.int64), caplen=zero, length=zero,
        time_ns=zero, link=np.full(n, link, np.uint16), interface=zero.astype(np.uint16), pseudo=zero - 1,
    )  # fmt: skip


@given(
    st.binary(min_size=16, max_size=4 * WIDTH),
    st.lists(st.tuples(st.integers(0, 1000), st.sampled_from([0, 0, 0, 8, 48, WIDTH])), min_size=1, max_size=20),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([LINK_INFINIBAND, LINK_ETHERNET]),
)
def test_parts_are_the_bytes_of_the_data(data: bytes, places: list[tuple[int, int]], size: int, some: bool, link: int) -> None:
    starts = sorted(place % (len(data) - size + 1) for place, _ in places)
    at = np.array([min(start + delta, len(data) - size) for start, (_, delta) in zip(starts, places, strict=True)], np.int64)
    rows = np.arange(len(starts))
    if some:
        rows, at = rows[::2], at[::2]
    front = HeaderCache(_chunk(data, starts, link))
    part = front.part(rows, at, size)
    assert [bytes(row) for row in part] == [data[i : i + size] for i in at.tolist()]
    for number in range(WIDTH // 4):
        word = FieldReader(front, rows, at).word(number)
        assert word is None or [bytes(row) for row in word] == [data[i + 4 * number :][:4].ljust(4, b"\0") for i in at.tolist()]


def test_unread_bits_are_zero_in_parts_and_stay_in_the_front() -> None:
    data = bytes(i % 251 + 1 for i in range(4 * WIDTH))
    front, rows = HeaderCache(_chunk(data, [0, WIDTH, 2 * WIDTH], LINK_INFINIBAND)), np.arange(3)
    bits = np.zeros((2, 8), np.uint8)
    bits[0, 1], bits[1, 6] = 0xFF, 0x0F
    place = FieldReader(front, rows, front.base + 8, Unread(rows[::2], front.base[::2] + 8, bits))
    read = bytearray(data)
    read[9], read[2 * WIDTH + 14] = 0, read[2 * WIDTH + 14] & 0xF0
    for offset, size in ((0, 4), (4, 4), (-8, 40), (0, WIDTH)):
        at = [row * WIDTH + 8 + offset for row in range(3)]
        assert [bytes(row) for row in place.part(offset, size)] == [read[i : i + size] for i in at]
        assert [bytes(row) for row in FieldReader(front, rows, front.base + 8).part(offset, size)] == [data[i : i + size] for i in at]
