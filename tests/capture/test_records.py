"""Damage is told, and the way found again behind it, the same in any window."""

from __future__ import annotations

import io
import random
import struct

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.capture.records import ROWS
from tests.capture.built import Packet, enhanced, erf_record, interface, pcap, pcap_rows, read, section
from tests.cases import every

GOOD = [Packet(1_600_000_000 + n, n, bytes([n]) * (20 + n)) for n in range(30)]
WINDOWS = [1, 100, 5000, 1 << 24]


@every("window", WINDOWS)
@every("order", "<>")
@every("size", [1, 17, 300, 70_000])
def test_garbage_between_pcap_records(window: int, order: str, size: int) -> None:
    before = pcap(GOOD[:9], order)
    garbage = b"\xfe" * 16 + random.Random(size).randbytes(size)
    rows, reader = read(before + garbage + pcap(GOOD[9:], order)[24:], window)
    assert rows == pcap_rows(GOOD)
    (damage,) = reader.damage
    assert (damage.kind, damage.offset, damage.frame, damage.resumed) == ("damaged", len(before), 9, len(before) + len(garbage))
    assert "impossible" in damage.reason


@every("window", WINDOWS)
def test_the_last_record_alone_ends_exactly_at_the_end(window: int) -> None:
    rows, reader = read(pcap(GOOD[:9]) + b"\xfe" * 40 + pcap(GOOD[9:10])[24:], window)
    assert rows == pcap_rows(GOOD[:10])
    assert reader.damage[0].resumed is not None


@every("window", WINDOWS)
def test_nothing_good_behind_the_damage(window: int) -> None:
    blob = pcap(GOOD) + b"\xfe" * 9000
    rows, reader = read(blob, window)
    assert rows == pcap_rows(GOOD)
    (damage,) = reader.damage
    assert (damage.kind, damage.offset, damage.frame, damage.resumed) == ("damaged", len(blob) - 9000, 30, None)


def test_the_search_is_bounded() -> None:
    rows, reader = read(pcap(GOOD) + b"\xfe" * ((1 << 20) + 100) + pcap(GOOD)[24:])
    assert len(rows) == len(GOOD)
    assert reader.damage[0].resumed is None


def test_records_of_another_year_are_not_believed_behind_damage() -> None:
    late = [Packet(1_700_000_000, 0, b"q" * 30)] * 5
    rows, reader = read(pcap(GOOD) + b"\xfe" * 50 + pcap(late)[24:])
    assert len(rows) == len(GOOD) and reader.damage[0].resumed is None


def test_damage_in_the_very_first_record() -> None:
    rows, reader = read(pcap([]) + b"\xfe" * 50 + pcap(GOOD)[24:])
    assert rows == pcap_rows(GOOD)
    assert reader.damage[0].frame == 0


@every("window", WINDOWS)
def test_garbage_in_erf_and_pcapng(window: int) -> None:
    records = [erf_record(bytes([n]) * 30, second=1_600_000_000) for n in range(50)]
    blocks = [enhanced("<", 0, n, bytes([n]) * 30) for n in range(50)]
    head = section("<") + interface("<", 1)
    for start, parts in ((b"", records), (head, blocks)):
        before = start + b"".join(parts[:25])
        rows, reader = read(before + b"\xfe" * 51 + b"".join(parts[25:]), window)
        assert [row[3] for row in rows] == [bytes([n]) * 30 for n in range(50)]
        (damage,) = reader.damage
        assert (damage.offset, damage.frame, damage.resumed) == (len(before), 25, len(before) + 51)


def test_too_many_damaged_places_end_the_reading() -> None:
    bad = enhanced("<", 7, 0, b"")
    rows, reader = read(section("<") + interface("<", 1) + bad * 1050 + enhanced("<", 0, 0, b"never"))
    assert rows == [] and len(reader.damage) == 1000


@pytest.mark.slow
def test_many_small_records_come_in_many_chunks() -> None:
    count = 2 * ROWS + 7
    with open_capture(io.BytesIO(pcap([]) + struct.pack("<IIII", 1, 2, 0, 9) * count)) as reader:
        sizes = [len(chunk) for chunk in reader.chunks()]
    assert sizes == [ROWS, ROWS, 7]


@pytest.mark.parametrize("length", [262_144, 262_145])
def test_the_longest_believable_record(length: int) -> None:
    rows, reader = read(pcap([Packet(1, 1, bytes(length))]), 1000)
    assert len(rows) == (length == 262_144)
    assert len(reader.damage) == (length != 262_144)
