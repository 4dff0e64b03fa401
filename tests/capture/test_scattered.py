"""Bytes and numbers read from many places are those that reading one by one gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.scattered import gather, looked_up, u16, u24

DATA = st.binary(min_size=4, max_size=40)


@given(DATA, st.data())
def test_reading_at_many_places(raw: bytes, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(1, len(raw) - 3), max_size=9))
    buffer, at = np.frombuffer(raw, np.uint8), np.array(places, np.int64)
    assert [bytes(row) for row in gather(buffer, at, 3)] == [raw[i : i + 3] for i in places]
    assert u16(buffer, at).tolist() == [int.from_bytes(raw[i : i + 2], "big") for i in places]
    assert u24(buffer, at).tolist() == [int.from_bytes(raw[i : i + 3], "big") for i in places]


def test_nothing_is_read_from_too_little() -> None:
    none, short = np.empty(0, np.int64), np.zeros(1, np.uint8)
    assert gather(short, none, 4).shape == (0, 4) and gather(short, np.zeros(1, np.int64), 0).shape == (1, 0)
    assert len(u16(short, none)) == len(u24(short, none)) == 0


@given(st.binary(max_size=30))
def test_looking_up_flags_and_bytes(raw: bytes) -> None:
    values = np.frombuffer(raw, np.uint8)
    for table in (np.arange(256)[::-1].astype(np.uint8), np.arange(256) % 3 == 0):
        assert (looked_up(values, table) == table[values]).all() and looked_up(values, table).dtype == table.dtype
