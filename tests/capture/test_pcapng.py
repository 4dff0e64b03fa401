"""pcapng blocks are read exactly: sections, byte orders, interfaces, all packet blocks, comments."""

from __future__ import annotations

import io
import struct

import dpkt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from ibdissect.errors import CaptureError
from tests.capture.built import Ng, block, enhanced, erf_record, interface, pcapngs, read, section, simple
from tests.cases import every, few


@pytest.mark.slow
@given(pcapngs(), st.integers(1, 2000))
@settings(deadline=None)
def test_every_frame_in_any_window(made: Ng, window: int) -> None:
    if made.links == {105}:
        with pytest.raises(CaptureError):
            open_capture(io.BytesIO(made.blob))
        return
    rows, reader = read(made.blob, window)
    assert rows == made.rows
    assert reader.comments == made.comments
    assert reader.damage == []


@pytest.mark.slow
@given(pcapngs())
@settings(max_examples=15, deadline=None)
def test_cut_off_anywhere(made: Ng) -> None:
    blob = section("<") + interface("<", 1, (9, b"\x09")) + made.blob
    start = len(blob) - len(made.blob)
    for size in range(start, len(blob), max(1, len(made.blob) // 40)):
        rows, reader = read(blob[:size], 300)
        count = sum(end + start <= size for end in made.ends)
        assert [row[:4] for row in rows] == [row[:4] for row in made.rows[:count]]
        assert len(reader.damage) <= 1 and all(damage.kind == "cut-off" and damage.frame == count for damage in reader.damage)


@pytest.mark.slow
def test_cut_off_in_a_block_is_reported() -> None:
    blob = section(">") + interface(">", 247) + enhanced(">", 0, 0, b"abcd") + enhanced(">", 0, 0, b"efgh")
    last = len(blob) - 36
    for size in range(last, len(blob) + 1):
        rows, reader = read(blob[:size], 64)
        assert len(rows) == (2 if size == len(blob) else 1)
        cut = [] if size in (last, len(blob)) else [("cut-off", last, 1)]
        assert [(damage.kind, damage.offset, damage.frame) for damage in reader.damage] == cut


def test_cut_off_section_header_is_no_capture() -> None:
    for size in (4, 8, 11):
        with pytest.raises(CaptureError, match="cut off"):
            open_capture(io.BytesIO(section("<")[:size]))
    with pytest.raises(CaptureError, match="byte-order magic"):
        open_capture(io.BytesIO(section("<")[:8] + bytes(20)))


def test_dpkt_agrees() -> None:
    datas = [bytes([n]) * n for n in range(50)]
    blob = section("<") + interface("<", 1) + b"".join(enhanced("<", 0, n * 10**6, data) for n, data in enumerate(datas))
    rows, _ = read(blob)
    theirs = [(round(time * 10**9), data) for time, data in dpkt.pcapng.Reader(io.BytesIO(blob))]
    assert [(row[0], row[3]) for row in rows] == theirs


@few(("order", "count"), [("<", 8000), (">", 8000)], fast=(1,))
def test_long_sections_use_the_walkers(order: str, count: int) -> None:
    body = b"".join(enhanced(order, 0, n, struct.pack("<I", 6) * (n % 23)) for n in range(count))
    other = "<" if order == ">" else ">"
    blob = (
        section(order) + interface(order, 1, (9, b"\x09")) + body + section(other) + interface(other, 242) + enhanced(other, 0, 5, b"end")
    )
    rows, reader = read(blob)
    assert [row[0] for row in rows] == [*range(count), 5000]
    assert rows[-1][3:6] == (b"end", 242, 1)
    assert reader.link_types == [1, 242] and reader.damage == []


def test_erf_blocks_keep_the_time_and_interface_of_the_block() -> None:
    """tshark's frame.interface_id is the block's, too, whatever the bits of the ERF record."""
    record = erf_record(b"q" * 33, second=1, flags=2, extensions=1)
    blob = section("<") + interface("<", 1) + interface("<", 197) + enhanced("<", 1, 2_000_000, record)
    assert read(blob)[0] == [(2_000_000_000, 33, 33, b"q" * 33, 197, 1, True)]
    (chunk,) = open_capture(io.BytesIO(blob)).chunks()
    assert chunk.card_ports(np.array([0])).tolist() == [2]


@every(
    ("resolution", "ticks", "time_ns"),
    [(0, 7, 7_250_000_000), (6, 7_250_000, 7_250_000_000), (3, 7_249, 7_249_000_000), (0, 8, 8_000_000_000)],
)
def test_an_erf_record_may_say_the_time_of_its_block_more_precisely(resolution: int, ticks: int, time_ns: int) -> None:
    """Whole seconds, as mergecap writes them, are too coarse to tell what came first. Where both differ, the block's time holds."""
    record = erf_record(b"q" * 33, second=7, fraction=1 << 30)
    blob = section("<") + interface("<", 197, (9, bytes([resolution]))) + enhanced("<", 0, ticks, record)
    assert [row[0] for row in read(blob)[0]] == [time_ns]


def test_frames_of_an_unknown_link_type_are_missed() -> None:
    """Once for each type, and only if there are frames; what carries no InfiniBand, as WLAN, is not missed."""
    blob = section("<") + b"".join(interface("<", link) for link in (1, 105, 999, 998, 147))
    known = enhanced("<", 0, 0, b"ethernet") + enhanced("<", 1, 0, b"wifi")
    assert not read(blob + known)[1].damage
    _, reader = read(blob + known + enhanced("<", 2, 0, b"?") * 3 + known + enhanced("<", 4, 0, b"?"))
    assert sorted((one.kind, one.unread, one.reason) for one in reader.damage) == [
        ("unreadable", True, f"frames of link type {link} are not read: it is not known what they carry") for link in (147, 999)
    ]


def test_only_other_links_is_an_error_but_some_keep_their_numbers() -> None:
    wifi = section("<") + interface("<", 105) + enhanced("<", 0, 0, b"wifi")
    with pytest.raises(CaptureError, match=r"link type 105 \(IEEE 802\.11\) carries no InfiniBand"):
        open_capture(io.BytesIO(wifi))
    both = wifi + section("<") + interface("<", 247) + enhanced("<", 0, 0, b"ib")
    assert [(row[3], row[4], row[5]) for row in read(both)[0]] == [(b"wifi", 105, 0), (b"ib", 247, 1)]


def test_packets_of_no_interface_are_damage_and_reading_continues() -> None:
    blob = section("<") + interface("<", 1) + enhanced("<", 3, 0, b"lost") + enhanced("<", 0, 0, b"kept")
    rows, reader = read(blob)
    assert [row[3] for row in rows] == [b"kept"]
    (damage,) = reader.damage
    assert (damage.kind, damage.offset, damage.frame, damage.resumed) == ("damaged", 48, 0, 48 + 36)


def test_an_interface_described_too_late_does_not_count() -> None:
    blob = section("<") + interface("<", 1) + enhanced("<", 1, 0, b"lost") + interface("<", 247) + enhanced("<", 1, 0, b"kept")
    for window in (1, 1 << 20):
        assert [row[3] for row in read(blob, window)[0]] == [b"kept"]


def test_captured_length_beyond_the_block_is_damage() -> None:
    bad = bytearray(enhanced("<", 0, 0, b"abcd"))
    struct.pack_into("<I", bad, 20, 9)
    rows, reader = read(section("<") + interface("<", 1) + bytes(bad) + enhanced("<", 0, 0, b"kept"))
    assert [row[3] for row in rows] == [b"kept"]
    assert reader.damage[0].reason.endswith("captured length beyond the block")


def test_simple_packets_without_interface_are_damage() -> None:
    rows, reader = read(section("<") + simple("<", b"abcd"))
    assert rows == [] and len(reader.damage) == 1


def test_many_options_before_a_comment() -> None:
    pairs = [(2, b"\0\0\0\0"), (4, bytes(8)), (1, "grüße <b>".encode()), (1, b"\xff"), (0x8001, b"xyz")]
    _, reader = read(section(">") + interface(">", 1) + enhanced(">", 0, 0, b"abc", *pairs))
    assert reader.comments == {1: ["grüße <b>", "\ufffd"]}


@pytest.mark.slow
def test_alternating_byte_orders() -> None:
    pair = section("<") + interface("<", 1) + enhanced("<", 0, 0, b"le") + section(">") + interface(">", 1) + enhanced(">", 0, 0, b"be")
    rows, reader = read(pair * 500)
    assert [row[3] for row in rows] == [b"le", b"be"] * 500
    assert rows[-1][5] == 999 and reader.damage == []


def test_blocks_with_two_lengths_are_damage() -> None:
    good = b"".join(enhanced("<", 0, 1, bytes([n]) * 20) for n in range(10))
    broken = bytearray(block("<", 6, bytes(40)))
    broken[-4] ^= 0xFF
    rows, reader = read(section("<") + interface("<", 1) + good + bytes(broken) + good)
    assert len(rows) == 20
    (damage,) = reader.damage
    assert (damage.frame, damage.offset, damage.resumed) == (10, 48 + 520, 48 + 520 + len(broken))
