"""Does what is written read back the same, here, in dpkt and in tshark?"""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from shutil import which

import dpkt
import pytest
from hypothesis import given

from ibdissect.capture.opening import open_capture
from ibdissect.capture.writing import CaptureWriter
from ibdissect.errors import CaptureError
from tests.capture.built import Ng as Made
from tests.capture.built import Packet, erf_record, packets, pcap, pcapngs, read, rows_of


def copied(blob: bytes, container: str, comments: dict[int, list[str]] | None = None) -> bytes:
    out = io.BytesIO()
    with open_capture(io.BytesIO(blob)) as reader, CaptureWriter(out, container=container) as writer:
        for chunk in reader.chunks():
            for row in range(len(chunk)):
                writer.add(chunk, row, (comments or {}).get(chunk.first + row, ()))
    return out.getvalue()


@given(packets())
def test_pcap_reads_back(made: list[Packet]) -> None:
    blob = pcap(made, link=247)
    again = copied(blob, "pcap")
    assert again == blob[:16] + again[16:20] + blob[20:] if made else len(again) == 24
    assert [(row[0], row[3]) for row in read(again)[0]] == [(row[0], row[3]) for row in read(blob)[0]]


@given(pcapngs())
def test_pcapng_reads_back_with_comments(made: Made) -> None:
    if {row[4] for row in made.rows} <= {105}:  # a copy describes only interfaces with packets
        return
    again, reader = read(copied(made.blob, "pcapng", made.comments))
    assert [row[:5] for row in again] == [row[:5] for row in made.rows]
    assert reader.comments == made.comments


def test_erf_headers_are_kept(tmp_path: Path) -> None:
    records = [
        erf_record(bytes([n]) * 50, second=1_600_000_000, flags=n & 3, extensions=n % 3, kind=2 if n % 4 == 3 else 21) for n in range(12)
    ]
    blob = pcap([Packet(1_600_000_000, 0, record) for record in records], link=197)
    for container in ("pcap", "pcapng"):
        assert read(copied(blob, container))[0] == read(blob)[0]
    if which("tshark"):
        path = tmp_path / "a.pcapng"
        path.write_bytes(copied(blob, "pcapng", {3: ["PKY001: <b>[red]ü"]}))
        command = ["tshark", "-r", str(path), "-T", "fields", "-e", "frame.len", "-e", "frame.comment", "-e", "erf.flags.cap"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert lines == [f"50\t{'PKY001: <b>[red]ü' if n == 2 else ''}\t{n & 3}" for n in range(12)]


def test_dpkt_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    with CaptureWriter(path) as writer:
        writer.write(b"abc", link=1, time_ns=1_000_000_005, length=70)
        writer.write(b"defg", link=1, time_ns=2_000_000_000)
        assert writer.frames == 2
    with path.open("rb") as file:
        assert [data for _, data in dpkt.pcap.Reader(file)] == [b"abc", b"defg"]
    assert read(path)[0][0][:3] == (1_000_000_005, 70, 3)


def test_an_empty_pcap_is_a_capture() -> None:
    out = io.BytesIO()
    CaptureWriter(out, link=247).close()
    reader = open_capture(io.BytesIO(out.getvalue()))
    assert rows_of(reader) == [] and reader.link_types == [247]


def test_long_comments_are_cut_at_a_character() -> None:
    out = io.BytesIO()
    with CaptureWriter(out, container="pcapng") as writer:
        writer.write(b"x", link=1, time_ns=0, comments=["ü" * 40000])
    assert read(out.getvalue())[1].comments == {1: ["ü" * 32767]}


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be written"):
        CaptureWriter(tmp_path / "no" / "such.pcap")
    with CaptureWriter(io.BytesIO()) as writer:
        writer.write(b"", link=1, time_ns=0)
        with pytest.raises(CaptureError, match=r"link type 247, the ones before it 1; .*pcapng"):
            writer.write(b"", link=247, time_ns=0)
        with pytest.raises(CaptureError, match="cannot be written"):
            writer.write(b"", link=1, time_ns=1 << 63)
