"""Checksums stay right where they were right, and wrong where they were wrong, whatever the addresses and lengths."""

from __future__ import annotations

import struct

import pytest

from tests.carriers import CARRIERS
from tests.cases import every, few
from tests.craft import LINK_INFINIBAND, ethernet_pcap, roce2, smp
from tests.decode.made import table_of
from tests.fuzz.container import pcapng
from tests.scrub.made import ones, scrubbed

IP6 = {"src": bytes.fromhex("20010db800000000000000000000a001"), "dst": bytes.fromhex("20010db800000000000000000000b002")}


def scrubbed_frame(frame: bytes) -> bytes:
    return table_of(scrubbed(ethernet_pcap([bytes(60), frame]))).chunk.frame_bytes(1)


def udp_over_6(payload: bytes, wrong: int = 0) -> bytes:
    """A RoCE v2 frame over IPv6 with a UDP checksum, whose sum is `wrong` too large."""
    four = roce2(0x04, payload)
    udp = bytearray(four[34:])
    udp[6:8] = bytes(2)
    head = struct.pack(">IHBB", 0x60000000, len(udp), 17, 64) + IP6["src"] + IP6["dst"]
    sum_ = ones(head[8:] + struct.pack(">HH", 17, len(udp)) + udp)
    udp[6:8] = struct.pack(">H", (0xFFFF - sum_ + wrong) % 0xFFFF or 0xFFFF)
    return four[:12] + b"\x86\xdd" + head + bytes(udp)


@pytest.mark.parametrize("payload", [b"", b"odd", b"some words of mine"])
@pytest.mark.parametrize("wrong", [0, 1, 0x8000])
def test_udp_over_ipv6(payload: bytes, wrong: int) -> None:
    before = udp_over_6(payload, wrong)
    after = scrubbed_frame(before)
    assert after[22:54] != before[22:54] and len(after) == len(before)
    assert (ones(after[22:54] + struct.pack(">HH", 17, len(after) - 54) + after[54:]) == 0xFFFF) is (wrong == 0)
    assert after[60:62] != bytes(2)


def test_a_packet_that_is_not_found_in_the_copy_gets_no_checksum() -> None:
    """Of two headers of authentication one is known, and the other removed."""
    _, frame = CARRIERS["AH behind AH"](roce2(0x04, b"words"))
    assert scrubbed_frame(frame)[-4:] == bytes(4) != frame[-4:]


@pytest.mark.slow
def test_an_absent_checksum_stays_absent() -> None:
    frame = bytearray(udp_over_6(b"words"))
    frame[60:62] = bytes(2)
    assert scrubbed_frame(bytes(frame))[60:62] == bytes(2)
    for half in (60, 61):  # one byte of it is enough to be there
        frame[60:62] = bytes(2)
        frame[half] = 7
        assert scrubbed_frame(bytes(frame))[60:62] != bytes(2)


@every("length", [0, 7, 8, 9, 0xFFFF])
def test_a_truncated_datagram_gets_a_checksum_that_cannot_be_verified(length: int) -> None:
    frame = bytearray(udp_over_6(b"words"))
    frame[58:60] = struct.pack(">H", length)
    after = scrubbed_frame(bytes(frame))[60:62]
    assert (after == b"\0\1") is (length not in (8, 9))


def test_an_odd_last_byte_is_the_upper_half_of_a_word() -> None:
    frame = bytearray(udp_over_6(b"words of mine"))
    size = len(frame) - 54 - 5  # the datagram ends before the frame
    frame[58:60] = struct.pack(">H", size)
    frame[60:62] = bytes(2)
    sum_ = ones(bytes(frame[22:54]) + struct.pack(">HH", 17, size) + bytes(frame[54 : 54 + size]))
    frame[60:62] = struct.pack(">H", 0xFFFF - sum_)
    after = scrubbed_frame(bytes(frame))
    assert size % 2 == 1 and after[60:62] != frame[60:62]
    assert ones(after[22:54] + struct.pack(">HH", 17, size) + after[54 : 54 + size]) == 0xFFFF


def test_a_cut_datagram_keeps_its_frame() -> None:
    frame = udp_over_6(b"some words of mine")
    after = scrubbed_frame(frame[:-5])
    assert after[60:62] == b"\0\1" and len(after) == len(frame) - 5


@few("right", [0, 1, 2, 0xFFFE], fast=(0, 3))
def test_a_wrong_checksum_of_ip_stays_wrong_whatever_the_right_one_is(right: int) -> None:
    """All ones, which would verify as zero does, are never written: senders write zero (RFC 1624)."""

    def header(identification: int, wrong: int = 0) -> bytes:
        frame = bytearray(roce2(0x04, b"words", ip={"identification": identification}))
        frame[24] ^= wrong
        return scrubbed_frame(bytes(frame))[14:34]

    found = (int.from_bytes(header(1)[10:12], "big") + 1 - right) % 0xFFFF
    assert header(found)[10:12] == right.to_bytes(2, "big") and ones(header(found)) == 0xFFFF
    assert ones(header(found, wrong=0x55)) != 0xFFFF


def test_a_header_checksum_that_was_never_filled_in_stays_zero() -> None:
    frame = bytearray(roce2(0x04, b"words"))
    assert scrubbed_frame(bytes(frame))[24:26] != bytes(2)
    frame[24:26] = bytes(2)
    assert scrubbed_frame(bytes(frame))[24:26] == bytes(2)


@every(("captured", "more"), [(-1, 0), (-2, 0), (0, 1), (0, 4)])
def test_nothing_is_left_of_a_checksum_of_a_frame_that_was_cut_off(captured: int, more: int) -> None:
    """It cannot be computed again, and the old one tells the key; whether bytes are missing or only the frame's length says so."""
    found = []
    for key in (0xA7C3E95B00112233, 0x5):
        frame = smp(2, 0x15, m_key=key)
        rows = [(LINK_INFINIBAND, frame[: len(frame) + captured], len(frame) + more)]
        found.append(table_of(scrubbed(pcapng(rows), "pcapng")).chunk.frame_bytes(0))
        assert frame[-6:-2] != bytes(4) and len(found[-1]) == len(frame) + captured
        assert found[-1][len(frame) - 6 :] == bytes(6 + captured)
    assert found[0] == found[1]
