"""Fields that may decide how later structures are read: their kinds, their widths, and the fields that must be equal."""

from __future__ import annotations

import pytest

from ibdissect.errors import SpecError
from ibdissect.wire.spec import Field
from ibdissect.words import Struct, UdpPort, array, choice, flag, kept, raw, secret, uint


class Ask(Struct):
    prefix, key, carried_by, size = "zz", "ask", UdpPort(7), 12
    op = uint(8, "Op")
    tag = uint(16, "Tag")
    up = flag("Up")
    low = uint(7, "Low")
    many = array(2, uint(8, "Many"))
    token = secret(32, "K", "Token")
    more = secret(16, "K", "More")


class Inner(Struct):
    prefix, key, carried_by, size = "zz", "inner", UdpPort(9), 0
    body = raw(kept(Ask.low), "Body")


class Answer(Struct):
    prefix, key, carried_by, size = "zz", "answer", UdpPort(8), 2
    tag = uint(16, "Tag")
    first = choice(kept(Ask.op, same=((tag, Ask.tag),), where=Ask.up == 1, way="other"), {1: Inner}, "First")
    second = raw(kept(Ask.low), "Second")


def test_pairs_of_equal_fields() -> None:
    assert kept(Ask.op, same=Ask.tag).pairs == ((Ask.tag, Ask.tag),)
    assert kept(Ask.op, same=(Ask.tag, (Answer.tag, Ask.low))).pairs == ((Ask.tag, Ask.tag), (Answer.tag, Ask.low))
    assert kept(Ask.op).pairs == () and kept(Ask.op).name == "zz.ask.op"


@pytest.mark.parametrize(("bits", "is_one"), [(64, True), (65, False)])
def test_a_number_has_up_to_64_bits(bits: int, is_one: bool) -> None:
    field: Field[int] = Field("uint", bits, "Number")
    if is_one:
        assert kept(field).field is field
        return
    with pytest.raises(SpecError, match="is no number of a structure"):
        kept(field)


def test_what_is_no_number_or_a_key_is_refused() -> None:
    assert kept(Ask.up).field is Ask.up
    for wrong in (Ask.many, Ask, 7):
        with pytest.raises(SpecError, match="is no number of a structure"):
            kept(wrong)  # type: ignore[arg-type]
    for field, where in ((Ask.token, None), (Ask.op, Ask.token == 1), (Ask.op, (Ask.op == 1) & ~((Ask.low + Ask.token) > 2))):
        with pytest.raises(SpecError, match="'Token' is a key"):
            kept(field, where=where)
    with pytest.raises(SpecError, match="'More' is a key"):
        kept(Ask.op, where=(Ask.more == 1) & (Ask.token == 1))  # the first one
    assert [kept(Ask.op, way=way).way for way in ("", "same", "other")] == ["", "same", "other"]
