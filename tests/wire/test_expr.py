"""Conditions say what their operators say, and nothing that Python would misread."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.wire.column import evaluate, holds_in
from ibdissect.wire.expr import And, Arith, Compare, In, Not, Or, Present, Value, first_field
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.spec import SpecError
from ibdissect.words import column, present
from tests.cases import every
from tests.craft import build


@every(
    ("made", "op"),
    [(BTH.psn == 1, "=="), (BTH.psn != 1, "!="), (BTH.psn < 1, "<"), (BTH.psn <= 1, "<="), (BTH.psn > 1, ">"), (BTH.psn >= 1, ">=")],
)
def test_comparisons(made: Any, op: str) -> None:
    assert isinstance(made, Compare) and (made.op, made.left, made.right, made.every) == (op, BTH.psn, 1, None)


@every(
    ("made", "op", "value"),
    [
        (BTH.psn & 6, "&", 2),
        (BTH.psn >> 1, ">>", 1),
        (BTH.psn << 1, "<<", 6),
        (BTH.psn + 1, "+", 4),
        (BTH.psn - 1, "-", 2),
        (BTH.psn * 5, "*", 15),
    ],
)
def test_arithmetic(made: Any, op: str, value: int) -> None:
    assert isinstance(made, Arith) and (made.op, made.left) == (op, BTH.psn) and [*made.fields()] == [BTH.psn]
    assert evaluate(made, lambda field: 3) == value


def test_parts_are_joined_flat() -> None:
    one, two, three = BTH.psn == 1, BTH.psn == 2, BTH.psn == 3
    both, either = one & two & three, one | two | three
    assert isinstance(both, And) and both.parts == (one, two, three) and isinstance(either, Or) and either.parts == (one, two, three)
    mixed = one & (two | three)
    assert isinstance(mixed, And) and mixed.parts[0] is one and isinstance(mixed.parts[1], Or)
    assert isinstance(~one, Not) and (~one).part is one and isinstance(present(BTH), Present) and present(BTH).what is BTH
    inside = BTH.psn.isin([1, 2, 2])
    assert isinstance(inside, In) and inside.choices == {1, 2} and inside.value is BTH.psn
    span = BTH.psn.between(3, 5)
    assert isinstance(span, And) and [(one.op, one.right) for one in span.parts] == [(">=", 3), ("<=", 5)]  # type: ignore[attr-defined]


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


def test_the_first_field_of_a_condition() -> None:
    assert first_field((1 == BTH.psn) & (LRH.slid == 2)) is BTH.psn and first_field(~(BTH.psn & 1 == LRH.slid)) is BTH.psn  # noqa: SIM300
    assert first_field(present(BTH)) is None and first_field(Compare("==", 3, LRH.slid)) is LRH.slid and first_field(7) is None
    assert [*Value().fields()] == []


VIEW = BTH(build(BTH, psn=5, destqp=0x12, opcode=4, a=1))


@every(
    ("condition", "holds"),
    [
        (BTH.psn == 5, True), (BTH.psn != 5, False), (BTH.psn < 5, False), (BTH.psn <= 5, True), (BTH.psn > 4, True), (BTH.psn > 5, False),
        (BTH.psn >= 5, True), (BTH.psn >= 6, False), (BTH.psn.isin([4, 5]), True), (BTH.psn.isin([4]), False), (~(BTH.psn == 5), False),
        ((BTH.psn == 5) & (BTH.opcode == 3), False), ((BTH.psn == 5) & (BTH.opcode == 4), True), ((BTH.psn == 4) | (BTH.opcode == 4), True),
        ((BTH.psn == 4) | (BTH.opcode == 3), False), (BTH.destqp - BTH.psn == 13, True), (BTH.destqp & 3 == 2, True),
        (BTH.psn.between(5, 5), True),
    ],
)  # fmt: skip
def test_what_holds_in_a_view(condition: Any, holds: bool) -> None:
    assert bool(holds_in(BTH, "x", condition)(VIEW)) is holds
    made = column(BTH, "made", condition, "Made")
    assert made.read(VIEW, 0) == int(holds) and made.values == {0: "no", 1: "yes"} and made.filter_name == "infiniband.bth.made"


def test_computed_columns() -> None:
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
