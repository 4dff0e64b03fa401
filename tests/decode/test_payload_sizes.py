"""The payload of a packet is known from its headers, however many bytes were captured."""

from __future__ import annotations

import io
import re
import struct

import pytest

import ibdissect
from ibdissect.decode.payload_sizes import frame_sizes
from ibdissect.wire.encapsulation import IPv6
from tests import tunnels
from tests.cases import every
from tests.craft import build, erf_pcap, ethernet_pcap, native, rc, roce2
from tests.decode.made import tables_of

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


@pytest.mark.slow
@every("number", [0, 1, 3, 4, 255, 256])
def test_whole_packets(number: int) -> None:
    assert size(ethernet_pcap([roce2(LAST, bytes(number))])) == size(erf_pcap([rc(LAST, bytes(number))])) == number


@pytest.mark.slow
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


def test_sizes_of_frames_that_a_mirror_cut() -> None:
    """Its records say nothing of it; what IP says, also around a tunnel and with padding behind it, does."""
    four = roce2(LAST, bytes(301))
    six = tunnels.ethernet(0x86DD, build(IPv6, version=6, payload_length=400, next_header=17) + bytes(8))
    sizes = {four[:60]: len(four), six: 14 + 40 + 400, four + bytes(9): len(four) + 9}
    for inner, captured in ((four, 4), (four, 46), (b"\xff" * 12 + b"\x08\x06" + bytes(46), 20)):
        outer = tunnels.FRAMES["VXLAN"](len(inner), 1)
        sizes[outer + inner[:captured]] = len(outer) + len(inner)
    for frame, size in sizes.items():
        (table,) = tables_of(ethernet_pcap([frame]), 1 << 20)
        assert table.once(frame_sizes).tolist() == [size]
    (table,) = tables_of(cut(four[:30] + bytes(30), 40, 99), 1 << 20)
    assert table.once(frame_sizes).tolist() == [len(four)]
    (table,) = tables_of(cut(b"\xff" * 12 + b"\x08\x06" + bytes(46), 20, 99), 1 << 20)
    assert table.once(frame_sizes).tolist() == [99]
