"""The parts of a GID are told apart, and what was not zero is marked."""

from __future__ import annotations

import ipaddress

import numpy as np

from ibdissect.scrub.replacing import gids, mark

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


def test_parts_of_a_gid() -> None:
    rows = np.frombuffer(b"".join(ipaddress.IPv6Address(text).packed for text in GIDS), np.uint8).reshape(-1, 16)
    found: dict[str, dict[str, int]] = {text: {} for text in GIDS}
    for name, spot in gids(np.arange(len(GIDS)) * 100, rows):
        assert spot.bits == (32 if name == "ip4" else 64)
        for at, value in zip(spot.at.tolist(), spot.values.tolist(), strict=True):
            number, place = divmod(at, 100)
            assert place == PLACES[name]
            found[[*GIDS][number]][name] = value
    assert found == GIDS


def test_a_mark_is_the_lowest_bit_of_a_field_that_is_empty() -> None:
    mask = np.array([0x0F, 0xF0, 0], np.uint8)
    data = np.array([0x30, 0x0C, 0xFF, 0x01, 0, 0, 0, 0x20, 0, 0xF0, 0x0F, 0xFF], np.uint8)
    mark(data, np.array([0, 3, 6, 9]), mask)
    assert data.tolist() == [0x30, 0x1C, 0xFF, 0x01, 0, 0, 0, 0x20, 0, 0xF0, 0x1F, 0xFF]
