"""Computed fields are what their formulas say, at the bounds of their numbers, and never what a key would tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ibdissect.wire.column import ComputedField
from ibdissect.wire.headers import BTH, DETH, LRH, RETH
from ibdissect.words import column
from tests.cases import every
from tests.craft import rc, ud
from tests.decode.made import native_table

FRAMES = [
    rc(0x06, b"abcd", bth={"psn": 5}, ext={"RETH": {"va": 1 << 63, "r_key": 0xCAFEBABE, "dmalen": 7}}),
    ud(b"x", dest_qp=0x48, q_key=0xC0FFEE, bth={"psn": 9}),
    rc(0x06, b"abcd", bth={"psn": 7}, ext={"RETH": {"va": 3, "r_key": 0, "dmalen": 9}}),
]  # fmt: skip


@every(
    ("value", "kept"),
    [
        (0, 0), (-1, -1), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, (1 << 63) - 1), (1 << 64, (1 << 63) - 1), (-(1 << 63), -(1 << 63)),
        (-(1 << 63) - 1, -(1 << 63)), (True, 1), (2.7, 2),
    ],
)  # fmt: skip
def test_a_number_has_64_bits_with_a_sign(value: Any, kept: int) -> None:
    assert native_table(FRAMES[:1]).values(column(BTH, "made", lambda view: value, "Made")).tolist() == [kept]


def test_functions_and_formulas_give_a_value_for_each_occurrence() -> None:
    table = native_table(FRAMES)
    twice, plain, constant = (column(BTH, name, formula, "X") for name, formula in (
        ("twice", BTH.psn * 2), ("plain", lambda view: view.psn * 2), ("constant", BTH.psn * 0 + 4),
    ))  # fmt: skip
    assert table.values(twice).tolist() == table.values(plain).tolist() == [10, 18, 14] and table.values(constant).tolist() == [4, 4, 4]
    length = column(RETH, "length", RETH.dmalen - 8, "Length")
    assert table.values(length).tolist() == [-1, 1] and table.values(length).dtype == np.int64


def test_texts_are_as_wide_as_the_longest() -> None:
    table = native_table(FRAMES)
    words = {5: "five", 9: "ä", 7: ""}
    made = column(BTH, "word", lambda view: words[view.psn], "Word", kind="text")
    assert [bytes(value) for value in table.values(made)] == [b"five", "ä".encode().ljust(4, b"\0"), bytes(4)]
    assert native_table([rc(0x04)]).values(column(DETH, "none", lambda view: "x", "None", kind="text")).shape == (0, 0)


@pytest.mark.filterwarnings("ignore::ibdissect.failures.PluginWarning")
@pytest.mark.parametrize(("kind", "told"), [("uint", [-2, 0, -4]), ("text", [b"-2", b"", b"-4"])])
def test_a_function_that_fails_loses_only_its_own_value(kind: str, told: list[Any]) -> None:
    made = column(BTH, "made", lambda view: 7 // (view.psn - 9) if kind == "uint" else str(7 // (view.psn - 9)), "Made", kind=kind)
    values = native_table(FRAMES).values(made)
    assert ([bytes(value).rstrip(b"\0") for value in values] if kind == "text" else values.tolist()) == told


def test_nothing_computed_tells_a_key() -> None:
    """It reads 1 where there is one, and 0 where it is 0."""
    table = native_table(FRAMES)
    for formula in (RETH.r_key + 0, lambda view: int(view.r_key)):
        made: ComputedField = column(RETH, "key", formula, "Key")
        assert table.values(made).tolist() == [1, 0]
    assert table.values(column(DETH, "key", lambda view: int(view.q_key) * 3 + view.srcqp, "Key")).tolist() == [4]
    assert table.values(column(LRH, "ends", LRH.slid << 16, "Ends")).tolist() == [1 << 16] * 3
