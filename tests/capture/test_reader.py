"""A file is read again, a pipe as it comes, and a growing file is followed."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibdissect.capture.chunk import Reader
from ibdissect.capture.opening import open_capture
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, enhanced, erf_record, interface, pcap, pcap_rows, rows_of, section

MADE = [Packet(1_600_000_000 + n, n, bytes([n]) * 50) for n in range(40)]
PCAP = pcap(MADE)
RECORD = 66


@pytest.fixture
def pipe() -> Iterator[tuple[Reader, int]]:
    out, into = os.pipe()
    os.write(into, PCAP[: 24 + RECORD])
    with os.fdopen(out, "rb") as file:
        yield open_capture(file), into


def test_chunks_of_a_file_may_be_read_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PCAP)
    with open_capture(path, window=200) as reader:
        pairs = zip(reader.chunks(), reader.chunks(), strict=True)
        assert all(one.time_ns.tolist() == two.time_ns.tolist() and one.first == two.first for one, two in pairs)
        assert rows_of(reader) == pcap_rows(MADE)


ERF = b"".join(erf_record(one.data, second=one.second) for one in MADE)
DAMAGED = PCAP[: 24 + 9 * RECORD] + b"\xfe" * 500 + PCAP[24 + 9 * RECORD :]
PCAPNG = section() + interface("<", 1) + b"".join(enhanced("<", 0, n, one.data) for n, one in enumerate(MADE))


@pytest.mark.parametrize(("data", "skips"), [(PCAP, True), (ERF, True), (DAMAGED, False), (PCAPNG, False)])
@pytest.mark.parametrize("wanted", [[1], [20], [3, 4, 30, 40], [*range(1, 41)]])
def test_frames_are_read_again_without_the_windows_before_them(tmp_path: Path, data: bytes, skips: bool, wanted: list[int]) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with open_capture(path, window=200) as reader:
        before = rows_of(reader)
        again = {chunk.first + row: chunk.frame_bytes(row) for chunk in reader.chunks(wanted) for row in range(len(chunk))}
    assert {frame: again[frame] for frame in wanted} == {frame: before[frame - 1][3] for frame in wanted}
    assert not skips or len(again) <= 4 * len(wanted)


def test_damage_belongs_to_the_last_reading() -> None:
    reader = open_capture(io.BytesIO(PCAP[:-1]))
    for _ in range(2):
        rows_of(reader)
        assert len(reader.damage) == 1


def test_a_pipe_gives_what_is_there(pipe: tuple[Reader, int]) -> None:
    reader, into = pipe
    chunks = reader.chunks()
    assert len(next(chunks)) == 1
    os.write(into, PCAP[24 + RECORD : 24 + 4 * RECORD + 5])
    chunk = next(chunks)
    assert (chunk.first, len(chunk)) == (2, 3)
    os.write(into, PCAP[24 + 4 * RECORD + 5 :])
    os.close(into)
    assert sum(map(len, chunks)) == 36
    assert reader.damage == []


def test_a_pipe_can_be_read_once(pipe: tuple[Reader, int]) -> None:
    reader, into = pipe
    os.close(into)
    assert len(rows_of(reader)) == 1
    with pytest.raises(CaptureError, match="only once"):
        reader.chunks()


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(PCAP,))
    writer.start()
    with open_capture(path) as reader:
        assert rows_of(reader) == pcap_rows(MADE)
    writer.join()


def test_a_pipe_with_only_other_links() -> None:
    out, into = os.pipe()
    os.write(into, section("<") + interface("<", 105) + enhanced("<", 0, 0, b"wifi"))
    os.close(into)
    with os.fdopen(out, "rb") as file, pytest.raises(CaptureError, match="carries no InfiniBand"):
        rows_of(open_capture(file))


def test_following_a_file_until_stopped(tmp_path: Path) -> None:
    path = tmp_path / "grows.pcap"
    path.write_bytes(PCAP[: 24 + 2 * RECORD])
    with open_capture(path, follow=True) as reader, path.open("ab") as file:
        chunks = reader.chunks()
        assert len(next(chunks)) == 2
        file.write(PCAP[24 + 2 * RECORD : 24 + 5 * RECORD + 20])
        file.flush()
        assert len(next(chunks)) == 3
        reader.stop()
        assert list(chunks) == []
        assert reader.damage == []  # the half record was still being written


def test_a_followed_file_that_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "grows.pcap"
    path.write_bytes(PCAP)
    with open_capture(path, follow=True) as reader:
        chunks = reader.chunks()
        next(chunks)
        os.truncate(path, 24 + RECORD)
        with pytest.raises(CaptureError, match=r"grows\.pcap: was made shorter while it was followed"):
            next(chunks)


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PCAP)
    reader = open_capture(path)
    reader.close()
    other = os.open(path, os.O_RDONLY)
    reader.close()
    os.fstat(other)
    os.close(other)


def test_a_closed_capture_reads_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PCAP)
    reader = open_capture(path)
    reader.close()
    with open(path, "rb"), pytest.raises(CaptureError, match="is closed"):  # the file may get the descriptor's number
        next(reader.chunks())
