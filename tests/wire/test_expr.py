"""Conditions say what their operators say, and nothing that Python would misread."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.errors import SpecError
from ibdissect.wire.headers import BTH, LRH
from ibdissect.words import column, present
from tests.cases import every
from tests.craft import build


def test_a_comparison_is_no_truth_value() -> None:
    assert bool(BTH.psn == BTH.psn) and not bool(BTH.psn == BTH.destqp)
    assert bool(BTH.psn != BTH.destqp) and not bool(BTH.psn != BTH.psn)
    for made in (BTH.psn < 1, BTH.psn >= 1):
        with pytest.raises(TypeError, match="has no truth value"):
            bool(made)
    with pytest.raises(TypeError, match="a field and a condition"):
        BTH.psn & (BTH.psn == 1)
    for wrong in (lambda: BTH.psn < 1.5, lambda: BTH.psn + 1.5, lambda: BTH.psn - None, lambda: BTH.psn >= [1], lambda: BTH.psn & 1.5):  # type: ignore[operator]
        with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
            wrong()
    assert (BTH.psn == 1.5) is False and (BTH.psn != None) is True  # type: ignore[comparison-overlap]  # noqa: E711


VIEW = BTH(build(BTH, psn=5, destqp=0x12, opcode=4, a=1))


@every(
    ("condition", "holds"),
    [
        (BTH.psn == 5, True), (BTH.psn != 5, False), (BTH.psn < 5, False), (BTH.psn <= 5, True), (BTH.psn > 4, True), (BTH.psn > 5, False),
        (BTH.psn >= 5, True), (BTH.psn >= 6, False), (BTH.psn.isin([4, 5]), True), (BTH.psn.isin([4]), False), (~(BTH.psn == 5), False),
        ((BTH.psn == 5) & (BTH.opcode == 3), False), ((BTH.psn == 5) & (BTH.opcode == 4), True), ((BTH.psn == 4) | (BTH.opcode == 4), True),
        ((BTH.psn == 4) | (BTH.opcode == 3), False), (BTH.destqp - BTH.psn == 13, True), (BTH.destqp & 3 == 2, True),
        (BTH.psn.between(5, 5), True), (BTH.psn.between(6, 7), False), (BTH.psn.between(3, 4), False),
        ((BTH.psn == 5) & (BTH.opcode == 4) & (BTH.destqp == 3), False), ((BTH.psn == 4) | (BTH.opcode == 3) | (BTH.destqp == 0x12), True),
        ((BTH.psn == 5) & (BTH.opcode == 3) & (BTH.destqp == 0x12), False), ((BTH.psn == 4) | (BTH.opcode == 4) | (BTH.destqp == 3), True),
        ((BTH.psn == 4) & ((BTH.opcode == 3) | (BTH.destqp == 0x12)), False),
    ],
)  # fmt: skip
def test_what_holds_in_a_view(condition: Any, holds: bool) -> None:
    made = column(BTH, "made", condition, "Made")
    assert made.read(VIEW, 0) == int(holds) and made.values == {0: "no", 1: "yes"} and made.filter_name == "infiniband.bth.made"


def test_computed_columns() -> None:
    formulas = (BTH.psn & 6, BTH.psn >> 1, BTH.psn << 1, BTH.psn + 1, BTH.psn - 6, BTH.psn * 5)
    assert [column(BTH, "a.b", formula, "B").read(VIEW, 0) for formula in formulas] == [4, 2, 10, 6, -1, 25]
    assert column(BTH, "a.b", BTH.destqp & 0xF, "B").filter_name == "a.b" and column(BTH, "a.b", BTH.destqp & 0xF, "B").read(VIEW, 0) == 2
    assert column(BTH, "same", BTH.psn, "Same").read(VIEW, 0) == 5 and column(BTH, "f", lambda view: view.psn * 2, "F").read(VIEW, 0) == 10
    assert (column(BTH, "a.b", BTH.psn, "B").bits, column(BTH, "t", lambda view: "x", "T", kind="text").bits) == (64, 0)


@every(
    ("formula", "kind", "said"),
    [
        (BTH.psn, "raw", "is uint or text, not raw"), (BTH.psn == 1, "text", "a condition is a number"),
        (LRH.slid + 1, "uint", "arithmetic needs single numbers"),
        (BTH.psn + 1, "text", "arithmetic needs single numbers"), (7, "uint", "neither arithmetic on fields nor a function"),
        (LRH.slid == 1, "uint", "is no field of this"),
        (present(BTH), "uint", "is no condition on fields"),
    ],
)  # fmt: skip
def test_what_is_no_column(formula: Any, kind: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        column(BTH, "made", formula, "Made", kind=kind)


def test_a_division_says_what_is_allowed() -> None:
    for divide in (lambda: BTH.psn / 2, lambda: BTH.psn // 2, lambda: BTH.psn % 2):
        with pytest.raises(TypeError, match=r"a field cannot be divided.*\+ - \* & >> <<"):
            divide()
