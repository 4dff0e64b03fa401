"""A hit says which bytes of which frame are at fault, since when it is known, and for how many frames it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ibdissect.errors import PluginError
from ibdissect.lint.finding import Evidence, Related, Span
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.words import INFO, Moment, Rule, Seen, fault
from tests.cases import every
from tests.craft import native, rc, ud
from tests.decode.made import native_table

FRAMES = [native(bth={"psn": 5}), ud(bytes(8), src_qp=9, bth={"psn": 6}), native(bth={"psn": 7})]


def seen(row: int) -> Seen:
    return Seen(native_table(FRAMES), row)


@pytest.mark.parametrize(("row", "psn", "qp"), [(0, 5, 0), (1, 6, 9), (2, 7, 0)])
def test_what_a_frame_shows(row: int, psn: int, qp: int) -> None:
    here = seen(row)
    assert (here.frame, here.time_ns, here.start(BTH), here.value(BTH.psn), here.value(DETH.srcqp)) == (
        row + 1, int(here.table.chunk.time_ns[row]), 8, psn, qp,
    )  # fmt: skip
    view = here.first(BTH)
    assert view is not None and view.psn == psn and (here.first(DETH) is not None) is (qp > 0)


@every(
    ("where", "options", "spans"),
    [
        (seen(1), {}, (Span(2, 17, 3),)), (seen(1), {"start": 100}, (Span(2, 109, 3),)), (seen(1),
        {"spans": (Span(7, 1, 2),)}, (Span(7, 1, 2),)),
        (Moment(4, 40), {}, ()), (Moment(4, 40), {"start": 0}, (Span(4, 9, 3),)), (Moment(4, 40),
        {"spans": (Span(7, 1, 2),)}, (Span(7, 1, 2),)),
    ],
)  # fmt: skip
def test_the_bytes_of_a_faulty_field(where: Any, options: dict[str, Any], spans: tuple[Span, ...]) -> None:
    """By default in the first occurrence of its structure in the frame, if that is at hand."""
    hit = fault(where, {"a": 1}, BTH.psn, 7, **options)
    assert (hit.frame, hit.time_ns, hit.spans, hit.field, hit.value, hit.arguments) == (
        where.frame,
        where.time_ns,
        spans,
        BTH.psn,
        7,
        {"a": 1},
    )


def test_a_view_gives_place_and_value() -> None:
    view = seen(1).first(DETH)
    assert view is not None
    hit = fault(Moment(2, 20), {}, DETH.srcqp, of=view)
    assert hit.spans == (Span(2, 8 + BTH.size + 5, 3),) and hit.value == 9
    assert fault(Moment(2, 20), {}, of=view).spans == () == fault(seen(1), {}).spans
    made = Rule().hit(seen(1), view, DETH.srcqp, which=3)
    assert (made.spans, made.value, made.arguments) == (hit.spans, 9, {"which": 3})
    assert Rule().hit(seen(1), None, DETH.srcqp).spans == ()


@every(
    ("options", "evidence", "count", "frames"),
    [
        ({}, "seen", 1, []), ({"proof": [(1, "x")]}, "learnt", 1, []), ({"evidence": Evidence.LEARNT}, "learnt", 1, []),
        ({"proof": [(1, "x")], "evidence": Evidence.SEEN}, "seen", 1, []),
        ({"frames": [3, 4]}, "seen", 2, [3, 4]), ({"frames": [3], "count": 9}, "seen", 9, [3]),
        ({"rows": np.array([0, 2])}, "seen", 2, [1, 3]), ({"count": 4}, "seen", 4, []),
    ],
)  # fmt: skip
def test_how_a_hit_is_known_and_for_what_it_stands(options: dict[str, Any], evidence: str, count: int, frames: list[int]) -> None:
    hit = fault(seen(0), {}, key="k", message="m", severity=INFO, explains=False, about=(3,), **options)
    assert (hit.evidence, hit.count, [*hit.frames]) == (evidence, count, frames)
    assert (hit.key, hit.message, hit.severity, hit.explains, hit.about) == ("k", "m", INFO, False, (3,))
    assert hit.related == tuple(Related(*one) for one in options.get("proof", ()))


def test_rows_of_a_moment_are_no_frames() -> None:
    assert fault(Moment(1, 1), {}, rows=np.array([0, 2])).frames == () and fault(seen(0), {}).explains


def test_state_is_made_once_from_what_it_reads() -> None:
    class First:
        pass

    class Second:
        after = (First,)

        def __init__(self, first: First) -> None:
            self.first = first

    context = Linter([]).context
    made = context.get(Second)
    assert made.first is context.get(First) and context.get(Second) is made


@every("code", ["A001", "ABCDEFGHI001", "AB01", "AB0001", "ab001", "AB001 "])
def test_codes_of_rules(code: str) -> None:
    with pytest.raises(PluginError, match="is not a rule code"):
        type("Wrong", (Rule,), {"code": code, "__qualname__": "Wrong"})
    for right in ("ZY001", "ZYXWVUTS999"):
        type("Right", (Rule,), {"code": right, "__qualname__": "Right"})
        assert REGISTRY.pop(right).__qualname__ == "Right"


def test_where_a_condition_points_by_default() -> None:
    class Made(Rule):
        """A fault."""

        code, name = "ZYR001", "made"
        when = LRH.slid == 3

    class Placed(Rule):
        """A fault elsewhere."""

        code, name, on = "ZYR002", "placed", BTH
        when = LRH.slid == 3

    assert (Made.at, Made.on) == (LRH.slid, LRH) and (Placed.at, Placed.on) == (None, BTH)
    for code in ("ZYR001", "ZYR002"):
        REGISTRY.pop(code)
    with pytest.raises(NotImplementedError, match="rule ZYR001 has a condition"):
        Made().of_frame(seen(0))
    assert rc(0x04)


@pytest.mark.parametrize("first", ["ibdissect.rules.ZYR.a", "mine"])
def test_of_two_rules_with_one_code_the_users_is_late(first: str) -> None:
    """A plugin may be loaded before ours. A class of the same name in the same module is the same rule, loaded again."""
    names = [first, "mine" if first != "mine" else "ibdissect.rules.ZYR.a"]
    facts = {"__doc__": "A fault.", "code": "ZYR001", "name": "one-code", "message": "x"}
    made = type("One", (Rule,), {**facts, "__module__": names[0]})
    try:
        assert REGISTRY["ZYR001"] is made and type("One", (Rule,), {**facts, "__module__": names[0]}) is REGISTRY["ZYR001"] is not made
        with pytest.raises(PluginError) as caught:
            type("Two", (Rule,), {**facts, "__module__": names[1]})
        ours, theirs = ("One", "Two") if first != "mine" else ("Two", "One")
        assert f"ZYR001 is already {ours} (" in str(caught.value) and theirs not in str(caught.value)
    finally:
        REGISTRY.pop("ZYR001", None)


def test_a_rule_takes_no_arguments() -> None:
    with pytest.raises(TypeError):
        type("Three", (Rule,), {"__doc__": "A fault."}, severity="info")
