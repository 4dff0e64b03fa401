"""Are distinct values found without sorting, and are the columns of mixed captures aligned?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.table.native_packets import Native
from ibdissect.table.rows import SLOTS, distinct_values, slot
from tests import craft
from tests.table.made import native_table


@given(st.lists(st.integers(0, (1 << 56) - 1), max_size=50), st.integers(0, 1000))
def test_distinct(values: list[int], start: int) -> None:
    many = np.array([*values, *values, *range(start, start + 200)], np.int64)
    assert distinct_values(many) == distinct_values(many.repeat(SLOTS // 400)) == sorted(set(many.tolist()))


@pytest.mark.slow
def test_values_that_share_a_slot() -> None:
    numbers = np.arange(4 * SLOTS, dtype=np.int64)
    places = slot(numbers)
    assert places.min() >= 0 and places.max() < SLOTS and len(np.unique(places)) < len(numbers)
    assert distinct_values(numbers) == numbers.tolist()


def test_packets_without_transport() -> None:
    raw = craft.native(0x04, bytes(20), lrh={"lnh": 0})
    frames = [raw, craft.native(0x04, slid=7, dlid=8, bth={"p_key": 0x8001, "destqp": 9}), raw]
    table = native_table(frames)
    native = Native(table)
    columns = (native.rows, native.slid, native.dlid, native.p_key, native.dest_qp, native.opcode)
    assert [column.tolist() for column in columns] == [[1], [7], [8], [0x8001], [9], [4]]
