"""The conversions of IBA codes, addresses and masks give the quantities that the standard and its users know."""

from __future__ import annotations

import pytest

from ibdissect.wire import convert
from tests.cases import every


@every(("code", "text"), [(0, "0 (4.096 us)"), (8, "8 (1.049 ms)"), (18, "18 (1.074 s)"), (31, "31 (8796 s)")])
def test_timeout_text(code: int, text: str) -> None:
    assert convert.timeout_text(code) == text


def test_lifetime_is_infinite_from_20_on() -> None:
    assert convert.lifetime_text(19) == "19 (2.147 s)"
    assert convert.lifetime_text(20) == "20 (infinite)"


def test_rate_text() -> None:
    assert [convert.rate_text(code) for code in (0, 2, 15, 26)] == ["0 (unknown)", "2 (2.5 Gb/s)", "15 (25 Gb/s)", "26 (2400 Gb/s)"]


@every("text", ["0002:c903:0000:1491", "2:c903:0:1491", "00:02:c9:03:00:00:14:91", "0x0002c90300001491", "0002C90300001491"])
def test_parse_guid(text: str) -> None:
    assert convert.parse_guid(text) == 0x0002C90300001491


@every("text", ["", "0x12", "0002:c903:0000", "0002:c903:0000:149g", "00002:c903:0000:1491", "0x0002c903000014911"])
def test_parse_guid_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not a GUID"):
        convert.parse_guid(text)


def test_masks_name_every_bit() -> None:
    assert convert.width_mask_text(3) == "3 (1x or 4x)"
    assert [convert.width_enabled_text(value) for value in (255, 0)] == ["255 (set to supported)", "0 (no change)"]
    assert [convert.width_mask_text(0), convert.speed_mask_text(0)] == ["0 (none)"] * 2
    assert convert.width_mask_text(0x23) == "35 (1x or 4x or unknown 0x20)"
    assert convert.speed_mask_text(7) == "7 (2.5 Gb/s (SDR) or 5 Gb/s (DDR) or 10 Gb/s (QDR))"
    assert convert.speed_ext_enabled_text(30) == "30 (extended speeds disabled)"
    assert convert.speed_ext2_mask_text(1) == "1 (212.5 Gb/s (XDR))"
    assert convert.speed_ext2_enabled_text(7) == "7 (set to supported)"


@every(("lid", "text"), [(4, "4"), (0xBFFF, "49151"), (0xC001, "0xc001 (multicast)"), (0xFFFF, "0xffff (permissive)")])
def test_lid_text(lid: int, text: str) -> None:
    assert convert.lid_text(lid) == text


@every(
    ("value", "text"),
    [
        (0x0000, "0x0000 (limited member of partition 0x0000)"), (0x7FFF, "0x7fff (limited member of partition 0x7fff)"),
        (0x4000, "0x4000 (limited member of partition 0x4000)"), (0x8000, "0x8000 (full member of partition 0x0000)"),
        (0xBFFF, "0xbfff (full member of partition 0x3fff)"), (0xFFFF, "0xffff (full member of partition 0x7fff)"),
    ],
)  # fmt: skip
def test_the_highest_bit_of_a_p_key_is_full_membership(value: int, text: str) -> None:
    assert convert.p_key_text(value) == text


@every(
    ("lid", "text"),
    [
        (0xEFFFFFFF, "4026531839"),
        (0xF0000000, "0xf0000000 (multicast)"),
        (0xFFFFFFFE, "0xfffffffe (multicast)"),
        (0xFFFFFFFF, "0xffffffff (permissive)"),
    ],
)
def test_wide_lids(lid: int, text: str) -> None:
    assert convert.opa_lid_text(lid) == text


@every(
    ("seconds", "text"),
    [
        (0.0, "0 us"),
        (999.4e-6, "999.4 us"),
        (0.001, "1 ms"),
        (0.9994, "999.4 ms"),
        (1.0, "1 s"),
        (12345.6, "1.235e+04 s"),
        (1e-9, "0.001 us"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert convert.duration_text(seconds) == text


@every(("data", "text"), [(b"ab\0cd", "ab"), (b"", ""), (b"\0", ""), (b"a\xff", "a\ufffd"), ("ä".encode(), "ä")])
def test_texts_end_at_a_nul(data: bytes, text: str) -> None:
    assert convert.decode_text(data) == text


def test_times_and_leases() -> None:
    assert [convert.timeout_ns(code) for code in (0, 1, 31)] == [4096, 8192, 4096 << 31]
    assert [convert.lease_text(seconds) for seconds in (0, 1, 65535)] == ["0 (infinite)", "1 s", "65535 s"]
    assert [convert.lid_text(lid) for lid in (0, 0xC000, 0xFFFE)] == ["0", "0xc000 (multicast)", "0xfffe (multicast)"]
