"""Substitutes keep what rules look at, differ where values differ, and say nothing of the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.errors import CaptureError
from ibdissect.scrub import substitutes as subs
from tests.cases import every


@pytest.mark.slow
@given(st.integers(0, 7), st.lists(st.integers(1, 0xBFFF), max_size=5), st.lists(st.integers(0, 0xBFFF), min_size=1, max_size=200))
def test_lids_are_permuted_inside_blocks(lmc: int, tops: list[int], values: list[int]) -> None:
    lids = subs.Lids(lmc, tops)
    whole = [block + i for block in {value // 64 * 64 for value in values} for i in range(64)]
    lids.learn(values)
    lids.learn(whole)
    moved = {value: lids[value] for value in whole}
    assert sorted(moved) == sorted(moved.values())
    for value, new in moved.items():
        assert value // 64 == new // 64 and (value == 0) == (new == 0)
        # The low LMC bits, of a port's base LID zero, stay; so do neighbours; no LID crosses the top of a table.
        assert value % min(1 << lmc, 64) == new % min(1 << lmc, 64)
        assert all((value <= top) == (new <= top) for top in tops)


def test_lids_move() -> None:
    lids = subs.Lids()
    lids.learn(range(1, 64))
    assert sum(lids[value] != value for value in range(1, 64)) >= 62
    assert [lids[value] for value in range(1, 5)] == [11, 48, 21, 58]


@given(st.lists(st.integers(0, 0xFFFFFFFF), unique=True, max_size=300))
def test_addresses_keep_their_networks(values: list[int]) -> None:
    taken = [value for value, special in zip(values, subs.SPECIAL["ip4"](np.array(values, np.uint64)), strict=True) if not special]
    addresses = subs.Addresses()
    addresses.learn(taken)
    new = [addresses[value] for value in taken]
    assert len(set(new)) == len(taken)
    for i, value in enumerate(taken[1:]):
        unicast = value < 0xE0000000 and taken[i] < 0xE0000000
        assert not unicast or (value >> 24 == taken[i] >> 24) == (new[i + 1] >> 24 == new[i] >> 24)
        assert not unicast or (value >> 8 == taken[i] >> 8) == (new[i + 1] >> 8 == new[i] >> 8)
        assert (value >= 0xE0000000) == (new[i + 1] >= 0xE0000000)


@every(
    ("make", "values"),
    [
        (subs.guid, [0x0002C90300001491, 5, 1 << 63]),
        (subs.prefix, [0xFE80000000000001, 0xFEC0000000000007, 0x2001DB8AAAA0001]),
        (subs.qpn, [2, 0x12, 0xFFFFFE]),
        (subs.mac, [0x0002C9123456, 0x3333FF123456, 0x01005E7F0102, 0x0302C9123456]),
        (subs.group_id, [0x100, 0x1FF123456, 1 << 63]),
        (subs.site, [0xFF3E004020010DB8, 0xFF12AAAAFFFF0001]),
    ],
)
def test_numbers_tell_values_apart_by_appearance_alone(make: object, values: Sequence[int]) -> None:
    one, other = subs.NumberedSubstitutes(make), subs.NumberedSubstitutes(make)  # type: ignore[arg-type]
    one.learn([*values, *values])
    other.learn([value ^ 0x5500 for value in values])
    new = [one[value] for value in values]
    assert len(set(new)) == len(new) and not set(new) & set(values)
    assert new == [other[value ^ 0x5500] for value in values]


@pytest.mark.parametrize(
    ("make", "first"),
    [(subs.guid, 5), (subs.prefix, 0xFE80 << 48 | 1), (subs.prefix, 0x2001 << 48), (subs.mac, 5), (subs.mac, 0x01005E << 24 | 0x100),
     (subs.mac, 0x3333 << 32 | 0x100), (subs.group_id, 0x1FF << 24 | 1), (subs.group_id, 1 << 40), (subs.site, 0xFF12 << 48),
     (subs.qpn, 2)],
)  # fmt: skip
def test_many_values_have_as_many_substitutes(make: Any, first: int) -> None:
    assert len({make(number, first) for number in range(1, 100_000)}) == 99_999


@pytest.mark.slow
def test_many_groups_have_as_many_addresses() -> None:
    groups = subs.Addresses()
    groups.learn(range(0xE1000000, 0xE1000000 + 100_000))
    new = [groups[value] for value in range(0xE1000000, 0xE1000000 + 100_000)]
    assert len(set(new)) == 100_000 and {value >> 24 for value in new} == {0xEF}


def test_classes_of_addresses_stay() -> None:
    assert subs.prefix(3, 0xFE80_0000_0000_1234) >> 54 == 0xFE80 >> 6
    assert subs.prefix(3, 0xFEC0_0000_0000_1234) >> 54 == 0xFEC0 >> 6
    assert subs.mac(3, 0x01005E7F0102) >> 24 == 0x01005E and subs.mac(3, 0x3333FF123456) >> 32 == 0x3333
    assert subs.mac(3, 0x0002C9123456) >> 40 == 2
    assert subs.special_keys("Q_Key", np.array([0, 0x80010000, 5], np.uint64)).tolist() == [True, True, False]
    assert subs.SPECIAL["qpn"](np.array([0, 1, 2, 0xFFFFFF], np.uint64)).tolist() == [True, True, False, True]


def test_keys_become_their_numbers() -> None:
    keys, m_keys = subs.Keys(32, privileged=True), subs.Keys(64, privileged=False)
    keys.learn([0x1234, 0x80001234, 0x1234])
    assert (keys[0x1234], keys[0x80001234]) == (1, 0x80000002)
    m_keys.learn([0x8000000000000005, 0x1122334455667788, 0x8877665544332211, 0x9900000000000099])
    assert m_keys[0x8000000000000005] == 1 and m_keys[0x1122334455667788] == 2 and m_keys[0x9900000000000099] == 4
    assert m_keys[0x8877665544332211] == 0x0200000000000000  # the bytes of 2, reversed


def test_invalid_utf8_stays_invalid() -> None:
    texts = subs.NumberedSubstitutes(subs.text)
    texts.learn([("node_string", b"storage-7"), ("node_string", b"\xff\xfe")])
    assert texts["node_string", b"storage-7"] == b"node_string 1"
    with pytest.raises(UnicodeDecodeError):
        texts["node_string", b"\xff\xfe"].decode()


KNOWN, ONES = subs.WELL_KNOWN, 0xFFFF_FFFF_FFFF_FFFF
EDGES = {
    "guid": ([0, ONES], [1, ONES - 1]),
    "prefix": ([0, subs.LINK_LOCAL, ONES], [1, subs.LINK_LOCAL - 1, subs.LINK_LOCAL + 1, ONES - 1]),
    "site": ([], [0, 1, ONES]),
    "group": ([0, KNOWN, 0xFFFFFFFF], [KNOWN + 1, 0xFFFFFFFE, 1 << 32]),
    "qpn": ([0, 1, 0xFFFFFF], [2, 0xFFFFFE]),
    "ip4": ([0, 0xFFFFFFFF, 127 << 24, (128 << 24) - 1, 0xE0000000, 0xE00000FF],
            [1, 0xFFFFFFFE, (127 << 24) - 1, 128 << 24, 0xDFFFFFFF, 0xE0000100]),
    "mac": ([0, (1 << 48) - 1, 0x0180C2 << 24, (0x0180C3 << 24) - 1,
             0x01005E << 24, (0x01005E << 24) + KNOWN, 0x3333 << 32, (0x3333 << 32) + KNOWN],
            [1, (1 << 48) - 2, (0x0180C2 << 24) - 1, 0x0180C3 << 24, (0x01005E << 24) - 1, (0x01005E << 24) + KNOWN + 1, 0x01005F << 24,
             (0x3333 << 32) - 1, (0x3333 << 32) + KNOWN + 1, 0x3334 << 32]),
}  # fmt: skip


@every("kind", subs.SPECIAL)
def test_only_values_that_identify_nobody_stay(kind: str) -> None:
    stay, go = EDGES[kind]
    assert subs.SPECIAL[kind](np.array([*stay, *go], np.uint64)).tolist() == [True] * len(stay) + [False] * len(go)


def test_unicast_lids_of_both_widths() -> None:
    values = np.array([0, 1, subs.LIDS_16 - 1, subs.LIDS_16, 0xFFFF, 0x10000, subs.LIDS_32 - 1, subs.LIDS_32], np.uint64)
    assert subs.unicast_lids(values).tolist() == [False, True, True, False, False, True, True, False]


def test_addresses_are_numbered_by_network_and_host() -> None:
    given = [0x0A010203, 0x0A010204, 0x0A010303, 0x0B0000FF, 0x0A010200, 0x0A0103FE, 0xEF010101, 0xEF010102]
    addresses = subs.Addresses()
    addresses.learn(given)
    group = 0xEF000000 + (subs.MARK << 8)
    assert [addresses[value] for value in given] == [
        0x7E000001, 0x7E000002, 0x7E000101, 0x7D0000FF, 0x7E000000, 0x7E000102, group + 1, group + 2,
    ]  # fmt: skip


EXACT = [
    (subs.guid, 3, 0xABCDEF, 0x025C727562000003), (subs.guid, 0x100, 1, 0x025C727562000100),
    (subs.prefix, 3, 0xFE80_0000_0000_1234, 0xFE80_0000_5C72_0003), (subs.prefix, 0x10001, 0xFEC0_0000_0000_0001, 0xFEC0_0000_5C73_0001),
    (subs.prefix, 3, 0xFE40_0000_0000_0001, 0x2001_0DB8_0000_0003), (subs.prefix, 3, 0xFF00_0000_0000_0001, 0x2001_0DB8_0000_0003),
    (subs.prefix, 3, 0xFEBF_FFFF_0000_0001, 0xFEBF_0000_5C72_0003),
    (subs.qpn, 1, 9, 0x5C0001), (subs.qpn, 0xA3FFFE, 9, 0xFFFFFE), (subs.qpn, 0xA3FFFF, 9, 2), (subs.qpn, 0xA40000, 9, 3),
    (subs.mac, 3, 0x0002C9123456, 0x025C72000003), (subs.mac, 3, 0x010203040506, 0x035C72000003),
    (subs.mac, 3, 0x00FFFFFFFFFF, 0x025C72000003),
    (subs.mac, 3, 0x020000000001, 0x025C72000003), (subs.mac, 3, 0x01005E7F0102, 0x01005E5C7203),
    (subs.mac, 3, 0x333312345678, 0x33335C720003),
    (subs.mac, 3, 0x333412345678, 0x035C72000003), (subs.mac, 3, 0x01005F000001, 0x035C72000003),
    (subs.group_id, 3, 0x1FF123456, 0x1FF5C7203), (subs.group_id, 3, 0x1FE123456, 0x5C720003), (subs.group_id, 3, 1 << 40, 0x5C720003),
    (subs.site, 3, 0xFF3E004020010DB8, 0xFF3E00005C720003), (subs.site, 0x10001, 0xFF12AAAAFFFF0001, 0xFF1200005C730001),
]  # fmt: skip


@every(("make", "number", "value", "expected"), EXACT)
def test_substitutes_are_made_of_the_number_and_the_class_alone(make: Any, number: int, value: int, expected: int) -> None:
    assert make(number, value) == expected, hex(make(number, value))


def test_no_unit_of_lids_crosses_a_top_that_lies_inside_another() -> None:
    for lmc, top in ((2, 9), (2, 8), (2, 10), (1, 6), (3, 20)):
        size = 1 << lmc
        lids = subs.Lids(lmc, [top])
        lids.learn(range(64))
        inside = top // size * size
        if top != inside + size - 1:  # some of its LIDs lie above the top, the others not: it stays
            assert [lids[lid] for lid in range(inside, inside + size)] == list(range(inside, inside + size))
        assert all((lid <= top) == (lids[lid] <= top) for lid in range(64)) and sorted(lids[lid] for lid in range(64)) == list(range(64))


def test_lids_of_two_tops_and_of_several_blocks() -> None:
    lids = subs.Lids(0, [70, 100])
    lids.learn(range(64, 200))
    new = [lids[lid] for lid in range(64, 200)]
    assert [lid for lid in new if lid <= 70] == new[:7] and [lid for lid in new if lid <= 100] == new[:37]
    assert sum(a == b for a, b in zip(new, range(64, 200), strict=True)) <= 6
    assert (subs.Lids(7).unit, subs.Lids(6).unit, subs.Lids(5).unit) == (64, 64, 32)


def test_every_first_byte_of_an_address_has_its_own() -> None:
    usual = [first for first in range(224) if first != 127]
    addresses = subs.Addresses()
    addresses.learn(first << 24 | 0x010203 for first in usual)
    assert [addresses[first << 24 | 0x010203] >> 24 for first in usual] == [*range(126, 0, -1), *range(223, 127, -1), 0]
    addresses.learn([0xE0000100, 0xF0000001, 0xDFFFFFFE])
    assert [addresses[value] for value in (0xE0000100, 0xF0000001)] == [0xEF5C7201, 0xEF5C7202]


def test_a_map_takes_so_many_values_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subs, "MAX_KNOWN", 3)
    for full in (subs.NumberedSubstitutes(subs.guid), subs.Addresses()):
        full.learn([10, 20, 30, 10])
        with pytest.raises(CaptureError, match="more than 3"):
            full.learn([40])


def test_keys_of_both_byte_orders_and_widths() -> None:
    keys = subs.Keys(16, privileged=False)
    keys.learn([0x1122, 0x2211, 0x3344, 0x1111])
    assert [keys[value] for value in (0x1122, 0x2211, 0x3344, 0x1111)] == [1, 0x0100, 3, 4]
    assert keys.size == 2 and subs.special_keys("M_Key", np.array([0, 0x80010000], np.uint64)).tolist() == [True, False]


def test_text_is_numbered_by_its_name() -> None:
    assert (subs.text(3, ("node_string", b"vault")), subs.text(4, ("service_name", b"\xff"))) == (b"node_string 3", b"service_name 4 \xff")
