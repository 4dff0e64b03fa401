"""The payload of a packet is known from its headers, however many bytes were captured."""

from __future__ import annotations

import io
import re
import struct

import ibdissect
from tests.cases import every
from tests.craft import erf_pcap, ethernet_pcap, native, rc, roce2

LAST, FIRST = 0x02, 0x00


def size(capture: bytes) -> int:
    """Bytes of payload that the Info column tells of the only packet; -1 if it tells none."""
    with ibdissect.open(io.BytesIO(capture)) as opened:
        info = opened.dissect(1).summary.info
    told = re.search(r" len (\d+)", info)
    return int(told[1]) if told else -1


def cut(frame: bytes, captured: int, wire: int | None = None, link: int = 1) -> bytes:
    """A capture of one frame of which some bytes were captured."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    return head + struct.pack("<IIII", 1, 0, captured, wire or len(frame)) + frame[:captured]


@every("number", [0, 1, 3, 4, 255, 256])
def test_whole_packets(number: int) -> None:
    assert size(ethernet_pcap([roce2(LAST, bytes(number))])) == size(erf_pcap([rc(LAST, bytes(number))])) == number


@every("captured", [54, 55, 58, 64, 70, 100, 200])
def test_packets_that_were_cut(captured: int) -> None:
    assert size(cut(roce2(LAST, bytes(301)), captured)) == 301


def test_a_native_packet_that_was_cut() -> None:
    assert size(cut(native(LAST, payload=bytes(99)), 24, link=247)) == 99


def test_a_length_that_the_frame_cannot_hold_is_not_known() -> None:
    frame = native(LAST, payload=bytes(300))
    assert size(cut(frame, 70, wire=len(frame) - 3, link=247)) == -1


def test_a_packet_that_a_mirror_cut_before_the_capture_did() -> None:
    frame = roce2(LAST, bytes(300))
    assert size(cut(frame, 70, wire=128)) == 300


def test_a_first_fragment_has_the_length_of_all() -> None:
    frame = bytearray(roce2(FIRST, bytes(1024)))
    frame[16:18], frame[20] = struct.pack(">H", 500), 0x20
    assert size(ethernet_pcap([bytes(frame[: 14 + 500])])) == 1024
