"""The filter bar offers what may come next."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.dfilter.compile import compile_filter
from ibdissect.dfilter.complete import complete
from ibdissect.errors import FilterError
from tests.cases import every


def texts(text: str) -> list[str]:
    """What is offered at the end of a text."""
    return [offer.text for offer in complete(text, len(text))]


@every(
    ("text", "wanted"),
    [
        ("infiniband.bth.p_", "infiniband.bth.p_key"), ("bth.p_", "bth.p_key"), ("lrh.dlid == 1 and bth.opc", "bth.opcode"),
        ("not fram", "frame"), ("(eth.s", "eth.src"), ("mad.method ", "=="), ("mad.method ", "in {"), ("frame co", "contains"),
        ("frame[0:2] ", "=="), ("mad.method == 1 ", "and"), ("mad.method in {1} ", "or"), ("mad.method == ", "0x81"),
        ("mad.method == GetR", "0x81"), ('mad.method == "GetR', "0x81"), ("portinfo.portstate in {1, Act", "4"),
        ("portinfo.portstate in {1..Act", "4"), ("bth.se == T", "True"), ("max", "max("),
        ("lr", "lrh"), ("infiniband.portinf", "infiniband.portinfo"),
    ],
)  # fmt: skip
def test_offers(text: str, wanted: str) -> None:
    assert wanted in texts(text)


def test_nothing_inside_a_string_or_where_only_numbers_fit() -> None:
    assert texts('frame contains "lrh') == [] and texts("lrh.dlid == ") == []


def test_the_word_is_replaced() -> None:
    offer = next(each for each in complete("bth.opc == 4", 7) if each.text == "bth.opcode")
    assert offer.start == 0 and offer.label == "OpCode"
    assert next(each for each in complete("mad.method == Ge", 16)).start == 14


def test_offered_names_are_known() -> None:
    for start in ("", "infiniband.", "ip", "f", "port", "opa.", "sll"):
        for offer in complete(start, len(start)):
            if not offer.text.endswith("("):
                compile_filter(offer.text)


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(st.text('abcdefghilmnoprt._"{}[]()=!<>&|, 0123456789', max_size=60), st.integers(-3, 70))
def test_any_text_gets_an_answer(text: str, cursor: int) -> None:
    offers = complete(text, cursor)
    assert len(offers) <= 40 and all(0 <= offer.start <= max(0, cursor) for offer in offers)


@pytest.mark.slow
def test_a_long_text_takes_no_time() -> None:
    """The patterns look back, and must not look far."""
    text = "a" * 10_000 + " " * 10_000
    assert complete(text, len(text))
    with pytest.raises(FilterError):
        compile_filter(text)
