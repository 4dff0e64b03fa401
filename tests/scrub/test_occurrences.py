"""The parts of a GID are told apart, numbers read and written at the right bytes, and values learnt in byte order."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest

from ibdissect.scrub.occurrences import Spot, gids, integers, learn, mark, replace
from ibdissect.scrub.substitutes import NumberedSubstitutes

GIDS = {
    "fe80::2:c903:0:1": {"prefix": 0xFE80 << 48, "guid": 0x2C90300000001},
    "2001:db8:1:2::5": {"prefix": 0x20010DB800010002, "guid": 5},
    "::": {}, "::1": {}, "::2": {"ip4": 2}, "::ffff:10.1.2.3": {"ip4": 0x0A010203}, "::10.1.2.3": {"ip4": 0x0A010203},
    "::1:0:7": {"prefix": 0, "guid": (1 << 32) + 7}, "::fffe:0:7": {"prefix": 0, "guid": (0xFFFE << 32) + 7},
    "0:0:0:1::1": {"prefix": 1, "guid": 1}, "0:0:0:1::ffff:0:7": {"prefix": 1, "guid": (0xFFFF << 32) + 7},
    "ff12::1": {"group": 1}, "ff12:401b:ffff::1:2": {"group": 0x10002},
    "ff12:401b::1": {"group": 1}, "ff12:601b::1": {"group": 1}, "ff12:a01b::1": {"group": 1},
    "ff12:402b::1": {"site": 0xFF12402B00000000, "group": 1}, "ff12:401b:0:1::1": {"site": 0xFF12401B00000001, "group": 1},
    "ff3e:40:2001:db8::1": {"site": 0xFF3E004020010DB8, "group": 1}, "fe80::1": {"prefix": 0xFE80 << 48, "guid": 1},
}  # fmt: skip
PLACES = {"prefix": 0, "guid": 8, "ip4": 12, "group": 8, "site": 0}


@pytest.mark.parametrize("text", GIDS)
def test_parts_of_a_gid(text: str) -> None:
    rows = np.frombuffer(ipaddress.IPv6Address("fe80::99").packed + ipaddress.IPv6Address(text).packed, np.uint8).reshape(2, 16)
    found = {}
    for name, spot in gids(np.array([100, 200], np.int64), rows):
        assert spot.bits == (32 if name == "ip4" else 64)
        for at, value in zip(spot.at.tolist(), spot.values.tolist(), strict=True):
            if at >= 200:
                found[name] = value
                assert at == 200 + PLACES[name]
            else:
                assert (name, at - 100, value) in (("prefix", 0, 0xFE80 << 48), ("guid", 8, 0x99))
    assert found == GIDS[text]


@pytest.mark.parametrize("size", range(1, 9))
def test_integers_of_every_width(size: int) -> None:
    rows = np.arange(1, 2 * size + 1, dtype=np.uint8).reshape(2, size)
    assert integers(rows).tolist() == [int.from_bytes(row.tobytes(), "big") for row in rows]


def test_values_are_numbered_in_byte_order_and_once() -> None:
    numbers = NumberedSubstitutes(lambda number, _value: number)
    learn(numbers, [])
    learn(numbers, [(np.array([30, 10]), np.array([7, 9], np.uint64)), (np.array([20, 40]), np.array([8, 9], np.uint64))])
    assert numbers.known == {9: 1, 8: 2, 7: 3}


@pytest.mark.parametrize("bits", [8, 16, 24, 32, 64])
def test_only_chosen_values_are_replaced_and_only_their_bytes(bits: int) -> None:
    size = bits // 8
    data = np.full(40, 0xEE, np.uint8)
    numbers = NumberedSubstitutes(lambda number, value: (value + number) % 256)
    spot = Spot(np.array([3, 15, 25]), bits, np.array([5, 6, 5], np.uint64))
    numbers.learn([5, 6])
    replace(data, spot, np.array([True, False, True]), numbers)
    expected = bytearray(b"\xee" * 40)
    for at in (3, 25):
        expected[at : at + size] = (6).to_bytes(size, "big")
    assert data.tobytes() == bytes(expected)


def test_a_mark_is_the_lowest_bit_of_a_field_that_is_empty() -> None:
    mask = np.array([0x0F, 0xF0, 0], np.uint8)
    data = np.array([0x30, 0x0C, 0xFF, 0x01, 0, 0, 0, 0x20, 0, 0xF0, 0x0F, 0xFF], np.uint8)
    mark(data, np.array([0, 3, 6, 9]), mask)
    assert data.tolist() == [0x30, 0x1C, 0xFF, 0x01, 0, 0, 0, 0x20, 0, 0xF0, 0x1F, 0xFF]
