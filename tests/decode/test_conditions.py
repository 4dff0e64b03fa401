"""Conditions hold where a plain reading of the packets says so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ibdissect.decode.conditions import occurrences_where, rows_where
from ibdissect.dfilter.compile import compile_filter
from ibdissect.wire.expr import Compare, Expr, Where
from ibdissect.wire.headers import AETH, BTH, GRH, LRH, RETH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeDescription
from ibdissect.wire.sm_tables import PKeyEntry
from ibdissect.words import present
from tests.cases import every
from tests.craft import native, rc, smp
from tests.decode.made import native_table

KEYS = bytearray(64)
KEYS[0:6] = b"\xff\xff\x80\x01\x00\x02"
GID = bytes.fromhex("fe80" + 12 * "00" + "0001")
FRAMES = [
    native(bth={"psn": 7, "p_key": 0x7FFF}),
    rc(0x0A, b"1234", ext={"RETH": {"dmalen": 4, "va": 2**63 + 1}}, grh={"sgid": GID}),
    smp(0x81, 0x16, bytes(KEYS), slid=3),
    smp(0x81, 0x10, b"host 1\0garbage", slid=4),
]
TABLE = native_table(FRAMES)


@every(
    ("expr", "rows"),
    [
        (BTH.psn == 7, [0]),
        (BTH.psn != 7, [1, 2, 3]),
        (RETH.dmalen != 5, [1]),
        (~(RETH.dmalen == 4), [0, 2, 3]),
        (RETH.va > 2**63, [1]),
        (RETH.va == 2**64, []),
        ((BTH.p_key & 0x8000) == 0, [0]),
        (BTH.opcode.isin([0x0A, 999]), [1]),
        (BTH.opcode.isin(np.arange(8, 11)), [1]),
        ((LRH.slid == 3) | (LRH.slid == 4), [2, 3]),
        ((LRH.slid >= 3) & (LRH.slid < 4), [2]),
        (LRH.slid.between(2, 3), [2]),
        (LRH.slid < LRH.dlid, [0, 1]),
        ((LRH.slid + 1) == LRH.dlid, [0, 1]),
        (present(GRH), [1]),
        (GRH.sgid == GID, [1]),
        (GRH.sgid == bytes(16), []),
        (NodeDescription.node_string == "host 1", [3]),
        (NodeDescription.node_string != "host 1", []),
        (PKeyEntry.p_key_base == 1, [2]),
        (PKeyEntry.p_key_base != 1, []),  # one entry is 1: not all differ
        (MAD.attribute_id == LRH.pktlen, []),
        (PKeyEntry.p_key == LRH.slid, []),
        (PKeyEntry.p_key_base == (LRH.slid - 1), [2]),  # the third entry: any of them counts
        (LRH.slid == PKeyEntry.p_key_base + 1, [2]),
        (LRH.slid != PKeyEntry.p_key_base + 1, []),
        (PKeyEntry.p_key_base != LRH.slid, [2]),  # all entries differ from 3
        (PKeyEntry.p_key_base != (LRH.slid - 1), []),
        (PKeyEntry.p_key_base < (LRH.slid - 2), [2]),
        (PKeyEntry.p_key_base > (PKeyEntry.p_key_base + 0), [2]),  # any pair of occurrences, when frames are judged
        (BTH.se == 1, []),
        (BTH.m == 1, [0, 1]),
    ],
)
def test_rows(expr: Expr, rows: list[int]) -> None:
    assert np.flatnonzero(rows_where(expr, TABLE)).tolist() == rows


@every(
    ("expr", "entries"),
    [
        ((PKeyEntry.membership_type == 0) & (PKeyEntry.p_key_base != 0), [2]),
        (PKeyEntry.p_key_base.isin([1, 0x7FFF]), [0, 1]),
        ((PKeyEntry.p_key_base == 2) & (LRH.slid == 3), [2]),
        ((PKeyEntry.p_key_base == 2) & (LRH.slid == 4), []),
        (RETH.dmalen == 4, []),  # no RETH in that frame
        ((PKeyEntry.p_key_base > 0) & (PKeyEntry.p_key_base == (PKeyEntry.membership_type + 2)), [2]),  # of the same occurrence
        (PKeyEntry.p_key_base == (LRH.slid - 1), [2]),
    ],
)
def test_occurrences_are_judged_one_by_one(expr: Expr, entries: list[int]) -> None:
    assert np.flatnonzero(occurrences_where(expr, TABLE, PKeyEntry)).tolist() == entries


def test_structures_that_come_as_often_but_in_other_packets_do_not_belong_together() -> None:
    table = native_table([rc(0x06, b"abcd", ext={"RETH": {}}), rc(0x11, ext={"AETH": {}}), rc(0x06, b"abcd", ext={"RETH": {"dmalen": 4}})])
    for some in (table, native_table([rc(0x06, b"abcd", ext={"RETH": {}}), rc(0x11, ext={"AETH": {}})])):
        assert np.flatnonzero(occurrences_where(RETH.dmalen == 0, some, AETH)).tolist() == []
        assert np.flatnonzero(occurrences_where(AETH.msn == 0, some, RETH)).tolist() == []
    assert [np.flatnonzero(occurrences_where(RETH.dmalen == size, table, BTH)).tolist() for size in (0, 4)] == [[0], [2]]
    assert np.flatnonzero(occurrences_where(BTH.opcode == 0x06, table, RETH)).tolist() == [0, 1]


def test_structures_that_occur_several_times_beside_another() -> None:
    """Judged for each SMP, any entry of its table counts: for `==` one, for `!=` all."""
    held = [np.flatnonzero(occurrences_where(expr, TABLE, MAD)).tolist() for expr in (
        PKeyEntry.p_key_base == 2, PKeyEntry.p_key_base != 2, PKeyEntry.p_key_base != 9, ~(PKeyEntry.p_key_base == 2),
        present(PKeyEntry), Where(PKeyEntry, lambda table: table.values(PKeyEntry.p_key_base) == 2),
        (PKeyEntry.p_key_base == (LRH.slid - 1)) & (LRH.slid == 3), PKeyEntry.p_key_base.isin([2, 77]),
    )]  # fmt: skip
    assert held == [[0], [], [0], [1], [0], [0], [0], [0]]


@every(
    "text", ["p_keytable.p_key == lrh.slid", "p_keytable.p_key != lrh.slid", "p_keytable.p_key > lrh.slid", "lrh.slid >= p_keytable.p_key"]
)
def test_a_rule_and_a_filter_mean_the_same(text: str) -> None:
    """The fault of two engines: one asked all entries of a table, the other its first."""
    block = bytearray(64)
    block[0:4] = b"\xff\xff\x00\x05"
    table = native_table([smp(0x81, 0x16, bytes(block), slid=slid) for slid in (5, 0xFFFF, 7)])
    left, op, right = text.split()
    sides = {"p_keytable.p_key": PKeyEntry.p_key, "lrh.slid": LRH.slid}
    as_rule = rows_where(Compare(op, sides[left], sides[right]), table)
    assert as_rule.tolist() == compile_filter(text).rows(table).tolist()
    if op == "==":
        assert as_rule.tolist() == [True, True, False]


MANY = native_table(
    [
        native(bth={"psn": i}, slid=i % 3 + 1) if i % 5 else rc(0x0A, b"1234", ext={"RETH": {"dmalen": i}}, bth={"psn": i}, slid=i % 3 + 1)
        for i in range(60)
    ]
)
FEW = [
    ((BTH.psn > 50) & (LRH.slid == 3), lambda i: i > 50 and i % 3 == 2),
    ((BTH.psn > 50) & (RETH.dmalen >= 55), lambda i: i == 55),
    ((BTH.psn > 40) & ~present(RETH) & (LRH.slid != 1), lambda i: i > 40 and i % 5 and i % 3),
    ((BTH.psn > 50) & Where(LRH, lambda table: table.values(LRH.slid) == 2), lambda i: i > 50 and i % 3 == 1),
    ((BTH.psn > 50) & Where(RETH, lambda table: table.values(RETH.dmalen) == 55), lambda i: i == 55),
    ((BTH.psn > 20) & (BTH.psn > 55) & (((LRH.slid == 1) & (BTH.psn > 56)) | (BTH.psn == 56)), lambda i: i in (56, 57)),
]


@every(("expr", "wanted"), FEW)
def test_what_is_left_of_a_condition_is_judged_alike_for_few_and_for_all(expr: Expr, wanted: Callable[[int], object]) -> None:
    hits = np.flatnonzero(occurrences_where(expr, MANY, BTH)).tolist()
    assert hits == [i for i in range(60) if wanted(i)]
    assert np.flatnonzero(rows_where(expr, MANY)).tolist() == hits


def test_pairs_of_long_tables() -> None:
    """32 entries with 32 each in an SMP: of many SMPs these are too many to compare at once, so a block ends in some SMP."""
    block = bytearray(64)
    block[10:12] = b"\x12\x34"
    alike = [smp(0x81, 0x16, bytes(block), slid=1)] * 1030
    table, base = native_table([*FRAMES, *alike, *FRAMES[:3]]), PKeyEntry.p_key_base
    there, tables = [2, len(table) - 1], [*range(4, len(table) - 3)]
    for condition, held in (
        (base == base + 0x1234, tables), (base != base + 0x7FFD, tables), (base == (LRH.slid - 1), [*there, *tables]),
    ):  # fmt: skip
        assert np.flatnonzero(rows_where(condition, table)).tolist() == sorted(held)


@every("op", ["==", "!=", "===", "!==", "<", ">="])
def test_nothing_compares_with_what_no_frame_has(op: str) -> None:
    table = native_table(FRAMES[:1])
    for left, right in ((BTH.psn, RETH.dmalen), (RETH.dmalen, BTH.psn), (RETH.dmalen, RETH.dmalen)):
        assert not rows_where(Compare(op, left, right), table).any()
        assert not rows_where(Compare(op, left, right, every=False), table).any()


def test_a_field_is_a_dictionary_key_and_a_comparison_has_no_truth() -> None:
    assert {BTH.psn: 1, BTH.opcode: 2}[BTH.psn] == 1
    assert BTH.psn in (BTH.opcode, BTH.psn)
    with pytest.raises(TypeError, match="combine"):
        bool(BTH.psn < 3)


def test_which_bytes_are_among_choices() -> None:
    condition = GRH.sgid.isin([GID, bytes(16), GID[:15]])
    assert rows_where(condition, TABLE).tolist() == [False, True, False, False]
    assert not rows_where(GRH.sgid.isin([GID[:15], GID + b"\0", b""]), TABLE).any()
    assert rows_where(NodeDescription.node_string.isin(["host", "host 1"]), TABLE).tolist() == [False, False, False, True]


def test_what_is_no_condition_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a condition"):
        rows_where(Expr(), TABLE)
