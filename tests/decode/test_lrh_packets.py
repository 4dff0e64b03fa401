"""Distinct values are found without sorting, and the columns of mixed captures are aligned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.decode.lrh_packets import BY_P_KEY_TABLE, FEW, Native, lids_of, source_qps
from ibdissect.decode.rows import SLOTS, distinct_values, slot
from tests import craft
from tests.cases import every
from tests.decode.made import native_table


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


@every(
    ("opcode", "by_table"),
    [
        (0x00, True),
        (0x1F, True),
        (0x64, True),
        (0x7F, True),
        (0x80, False),
        (0x9F, False),
        (0xA0, True),
        (0xBF, True),
        (0xC0, False),
        (0xFF, False),
        (0x81, False),
    ],
)
def test_services_whose_p_key_is_in_the_table_of_the_port(opcode: int, by_table: bool) -> None:
    assert bool(BY_P_KEY_TABLE[opcode]) is by_table


@every("size", [1, FEW - 1, FEW, FEW + 1])
def test_distinct_lids_of_few_and_of_many_packets(size: int) -> None:
    values = np.array([0xFFFF, 0, 5, 5][:size] + [7] * (size - 4), np.int64)
    assert lids_of(values).tolist() == sorted({*values.tolist()})


@pytest.mark.parametrize("kept", [0, 1, 4])
def test_the_source_qp_of_a_datagram(kept: int) -> None:
    """0 of other packets, and where the frame ends in front of it."""
    whole = craft.ud(bytes(8), src_qp=0xABCDEF, crc=False)
    end = 8 + 12 + 8  # LRH, BTH, DETH
    frames = [whole, whole[: end - kept], craft.native(0x04, bytes(8))]
    table = native_table(frames)
    rows = np.flatnonzero(table.located.at("bth") >= 0)
    found = source_qps(table, rows, table.located.opcode[rows]).tolist()
    assert found == [0xABCDEF, 0 if kept else 0xABCDEF, 0][: len(rows)]
