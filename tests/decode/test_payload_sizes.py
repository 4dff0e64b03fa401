"""The payload of a packet is known from its headers, however many bytes were captured."""

from __future__ import annotations

import struct

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.decode.payload_sizes import payload_sizes
from tests.cases import every
from tests.craft import native, rc, roce2
from tests.decode.made import ethernet_table, native_table, tables_of

LAST, FIRST = 0x02, 0x00


def sizes(table: ChunkTable) -> list[int]:
    found: list[int] = payload_sizes(table, np.flatnonzero(table.located.at("bth") >= 0)).tolist()
    return found


def cut(frame: bytes, captured: int, wire: int | None = None, link: int = 1) -> bytes:
    """A capture of one frame of which some bytes were captured."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    return head + struct.pack("<IIII", 1, 0, captured, wire or len(frame)) + frame[:captured]


@every("size", [0, 1, 3, 4, 255, 256])
def test_whole_packets(size: int) -> None:
    assert sizes(ethernet_table([roce2(LAST, bytes(size))])) == [size]
    assert sizes(native_table([rc(LAST, bytes(size))])) == [size]


@every("captured", [54, 55, 58, 64, 70, 100, 200])
def test_packets_that_were_cut(captured: int) -> None:
    (table,) = tables_of(cut(roce2(LAST, bytes(301)), captured))
    assert sizes(table) == [301]


def test_a_native_packet_that_was_cut() -> None:
    (table,) = tables_of(cut(native(LAST, payload=bytes(99)), 24, link=247))
    assert sizes(table) == [99]


def test_a_length_that_the_frame_cannot_hold_is_not_known() -> None:
    frame = native(LAST, payload=bytes(300))
    (table,) = tables_of(cut(frame, 70, wire=len(frame) - 3, link=247))
    assert sizes(table) == [-1]


def test_a_packet_that_a_mirror_cut_before_the_capture_did() -> None:
    frame = roce2(LAST, bytes(300))
    (table,) = tables_of(cut(frame, 70, wire=128))
    assert sizes(table) == [300]


def test_a_first_fragment_has_the_length_of_all() -> None:
    frame = bytearray(roce2(FIRST, bytes(1024)))
    frame[16:18], frame[20] = struct.pack(">H", 500), 0x20
    assert sizes(ethernet_table([bytes(frame[: 14 + 500])])) == [1024]
