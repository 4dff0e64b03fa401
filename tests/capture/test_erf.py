"""Bare ERF files are read exactly, and nothing else is taken for one."""

from __future__ import annotations

import io
import random
from pathlib import Path
from shutil import which

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from ibdissect.errors import CaptureError
from tests.capture.built import Row, erf_record, payloads, read
from tests.capture.test_pcap import tshark

MADE = st.lists(
    st.tuples(payloads(), st.integers(0, 2**32 - 1), st.sampled_from([2, 20, 21, 25, 27, 48]), st.integers(0, 255), st.integers(0, 3)),
    min_size=1,
    max_size=60,
)
Parts = list[tuple[bytes, int, int, int, int]]


def build(parts: Parts) -> tuple[list[bytes], list[Row]]:
    """Records half a second apart, the first one of InfiniBand; plain padding records give no row."""
    records = [erf_record(b"first", second=1_500_000_000)]
    rows: list[Row] = [(1_500_000_000 * 10**9, 5, 5, b"first", 197, 0, True)]
    for number, (data, fraction, kind, flags, extensions) in enumerate(parts):
        second = 1_500_000_000 + number // 2
        records.append(erf_record(data, second=second, fraction=fraction, kind=kind, flags=flags, extensions=extensions))
        if kind != 48 or extensions:
            time_ns = second * 10**9 + (fraction * 10**9 + 2**31 >> 32)
            rows.append((time_ns, len(data), len(data), data, 1 if kind in (2, 20) else 197, flags & 3, True))
    return records, rows


@pytest.mark.slow
@given(MADE, st.integers(1, 3000))
def test_every_record_in_any_window(parts: Parts, window: int) -> None:
    records, expected = build(parts)
    rows, reader = read(b"".join(records), window)
    assert rows == expected
    assert reader.damage == []


@pytest.mark.slow
@given(MADE)
def test_cut_off_anywhere(parts: Parts) -> None:
    records, _ = build(parts)
    blob = b"".join(records)
    kept = len(records[0]) + len(records[1])
    for size in {kept, (kept + len(blob)) // 2, len(blob) - 1} - {kept - 1}:
        if size < kept or (parts[0][2] == 48 and not parts[0][4]):
            continue
        whole = next(count for count in range(len(records), 0, -1) if sum(map(len, records[:count])) <= size)
        rows, reader = read(blob[:size])
        assert rows == build(parts[: whole - 1])[1]
        assert [damage.kind for damage in reader.damage] == ([] if sum(map(len, records[:whole])) == size else ["cut-off"])


@pytest.mark.slow
def test_long_files_use_the_walkers() -> None:
    draw = random.Random(5)
    parts = [
        (draw.randbytes(draw.randrange(80)), draw.randrange(2**32), draw.choice([2, 21, 25, 48]), 1, draw.randrange(3))
        for _ in range(20000)
    ]
    records, expected = build(parts)
    assert read(b"".join(records))[0] == expected


def test_wire_length_beyond_the_record_is_cut() -> None:
    blob = erf_record(b"abcdefgh", second=5, wlen=300)
    assert read(blob)[0] == [(5_000_000_000, 300, 8, b"abcdefgh", 197, 0, True)]


@pytest.mark.parametrize(
    "text",
    [
        b"hello world\n" * 40,
        b"0" * 5000,
        b" " * 70000,
        b"\n" * 200,
        bytes(400),
        b"#!/usr/bin/env python3\nimport os\n" * 99,
        b"\x15" * 9,
        b"\xff" * 999,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_other_files_are_no_erf(text: bytes) -> None:
    with pytest.raises(CaptureError, match="not a capture"):
        open_capture(io.BytesIO(text))


def test_times_that_jump_are_no_erf() -> None:
    near = erf_record(b"x" * 24, second=10**9) + erf_record(b"y" * 24, second=10**9 + 7 * 86400)
    assert len(read(near)[0]) == 2
    for other in (near + erf_record(b"z", second=2 * 10**9), erf_record(b"z", second=2 * 10**9)[:-1]):
        with pytest.raises(CaptureError, match="not a capture"):
            open_capture(io.BytesIO(other))


@pytest.mark.slow
@pytest.mark.skipif(which("tshark") is None, reason="needs tshark")
def test_tshark_agrees(tmp_path: Path) -> None:
    draw = random.Random(1)
    parts = [
        (draw.randbytes(40), draw.randrange(2**32), draw.choice([2, 21, 25, 48]), draw.randrange(4), draw.randrange(4)) for _ in range(300)
    ]
    path = tmp_path / "made.erf"
    path.write_bytes(b"".join(build(parts)[0]))
    assert [row[:3] for row in read(path)[0]] == tshark(path)
