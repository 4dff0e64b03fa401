"""Do the conversions of IBA codes, addresses and masks give the quantities that the standard and its users know?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.wire import convert


@given(st.integers(0, 31))
def test_timeout_code_inverts_timeout_seconds(code: int) -> None:
    assert convert.timeout_code(convert.timeout_seconds(code)) == code


@given(st.floats(1e-6, 8000))
def test_timeout_code_is_the_least_that_suffices(seconds: float) -> None:
    code = convert.timeout_code(seconds)
    assert seconds <= convert.timeout_seconds(code)
    assert code == 0 or convert.timeout_seconds(code - 1) < seconds


@pytest.mark.parametrize("seconds", [-1.0, 9000.0, float("nan"), float("inf")])
def test_timeout_code_refuses(seconds: float) -> None:
    with pytest.raises(ValueError):
        convert.timeout_code(seconds)


@pytest.mark.parametrize(("code", "text"), [(0, "0 (4.096 us)"), (8, "8 (1.049 ms)"), (18, "18 (1.074 s)"), (31, "31 (8796 s)")])
def test_timeout_text(code: int, text: str) -> None:
    assert convert.timeout_text(code) == text


def test_lifetime_is_infinite_from_20_on() -> None:
    assert convert.lifetime_text(19) == "19 (2.147 s)"
    assert convert.lifetime_text(20) == "20 (infinite)"


@pytest.mark.parametrize(
    ("code", "bps"), [(2, 2_500_000_000), (5, 5_000_000_000), (15, 25_000_000_000), (24, 1_200_000_000_000), (0, None), (25, None)]
)
def test_rate_bps(code: int, bps: int | None) -> None:
    assert convert.rate_bps(code) == bps


def test_rate_code_is_the_slowest_that_suffices() -> None:
    for code, gbps in convert.RATE_GBPS.items():
        assert convert.rate_code(int(gbps * 10**9)) == code
    assert convert.rate_code(1) == 2
    assert convert.rate_code(26_000_000_000) == 19
    with pytest.raises(ValueError):
        convert.rate_code(1_200_000_000_001)


def test_mtu() -> None:
    assert [convert.mtu_bytes(code) for code in range(7)] == [None, 256, 512, 1024, 2048, 4096, None]
    assert [convert.mtu_code(size) for size in (256, 4096)] == [1, 5]
    with pytest.raises(ValueError):
        convert.mtu_code(1500)


@pytest.mark.parametrize(("base", "lmc", "first", "last"), [(5, 0, 5, 5), (8, 3, 8, 15), (13, 2, 12, 15), (0xBF80, 7, 0xBF80, 0xBFFF)])
def test_lids_of(base: int, lmc: int, first: int, last: int) -> None:
    lids = convert.lids_of(base, lmc)
    assert (lids[0], lids[-1], len(lids)) == (first, last, 1 << lmc)


@pytest.mark.parametrize(
    "text", ["0002:c903:0000:1491", "2:c903:0:1491", "00:02:c9:03:00:00:14:91", "0x0002c90300001491", "0002C90300001491"]
)
def test_parse_guid(text: str) -> None:
    assert convert.parse_guid(text) == 0x0002C90300001491


@pytest.mark.parametrize("text", ["", "0x12", "0002:c903:0000", "0002:c903:0000:149g", "00002:c903:0000:1491", "0x0002c903000014911"])
def test_parse_guid_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not a GUID"):
        convert.parse_guid(text)


def test_parse_lid_ranges() -> None:
    assert convert.parse_lid("0x10") == 16
    assert convert.parse_lid("0xC000", multicast=True) == 0xC000
    assert convert.parse_lid("65535", multicast=None) == 0xFFFF
    for text, multicast in (("0", False), ("0xC000", False), ("0xFFFF", True), ("5", True), ("65536", None), ("x", None), ("-1", None)):
        with pytest.raises(ValueError, match="not a LID"):
            convert.parse_lid(text, multicast)


def test_parse_end_port() -> None:
    gid = bytes.fromhex("fe800000000000000002c90300001491")
    assert convert.parse_end_port("fe80::2:c903:0:1491") == gid
    assert convert.parse_end_port("0002:c903:0000:1491") == gid
    assert convert.parse_end_port("0x0002c90300001491") == gid
    assert convert.parse_end_port("17") == 17
    assert convert.parse_end_port("0002:c903:0000:1491", prefix=0xFEC0_0000_0000_0000)[:2] == b"\xfe\xc0"  # type: ignore[index]
    for text in ("", "0xC000", "zz", "fe80::2::1"):
        with pytest.raises(ValueError):
            convert.parse_end_port(text)


def test_masks_name_every_bit() -> None:
    assert convert.width_mask_text(3) == "3 (1x or 4x)"
    assert convert.width_mask_text(255) == "255 (set to supported)"
    assert convert.width_mask_text(0x23) == "35 (1x or 4x or unknown 0x20)"
    assert convert.speed_mask_text(7) == "7 (2.5 Gb/s (SDR) or 5 Gb/s (DDR) or 10 Gb/s (QDR))"
    assert convert.speed_ext_enabled_text(30) == "30 (extended speeds disabled)"
    assert convert.speed_ext2_mask_text(1) == "1 (212.5 Gb/s (XDR))"


@pytest.mark.parametrize(("lid", "text"), [(4, "4"), (0xBFFF, "49151"), (0xC001, "0xc001 (multicast)"), (0xFFFF, "0xffff (permissive)")])
def test_lid_text(lid: int, text: str) -> None:
    assert convert.lid_text(lid) == text
