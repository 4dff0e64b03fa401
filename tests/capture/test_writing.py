"""Written captures read back the same, here, in dpkt and in tshark."""

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
from tests.capture.built import Packet, enhanced, erf_record, interface, options, packets, pcap, pcapngs, read, rows_of, section
from tests.craft import LINK_ERF


def copied(blob: bytes, container: str, comments: dict[int, list[str]] | None = None) -> bytes:
    out = io.BytesIO()
    with open_capture(io.BytesIO(blob)) as reader, CaptureWriter(out, container=container) as writer:
        for chunk in reader.chunks():
            for row in range(len(chunk)):
                writer.add(chunk, row, (comments or {}).get(chunk.first + row, ()))
    return out.getvalue()


@pytest.mark.slow
@given(packets())
def test_pcap_reads_back(made: list[Packet]) -> None:
    blob = pcap(made, link=247)
    again = copied(blob, "pcap")
    assert again == blob[:16] + again[16:20] + blob[20:] if made else len(again) == 24
    assert [(row[0], row[3]) for row in read(again)[0]] == [(row[0], row[3]) for row in read(blob)[0]]


@pytest.mark.slow
@given(pcapngs())
def test_pcapng_reads_back_with_comments(made: Made) -> None:
    if {row[4] for row in made.rows} <= {105}:  # a copy describes only interfaces with packets
        return
    again, reader = read(copied(made.blob, "pcapng", made.comments))
    assert [row[:5] for row in again] == [row[:5] for row in made.rows]
    assert reader.comments == made.comments


@pytest.mark.slow
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
    CaptureWriter(out).close()
    reader = open_capture(io.BytesIO(out.getvalue()))
    assert rows_of(reader) == [] and reader.link_types == [LINK_ERF]


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


def two_ports() -> bytes:
    """A commented pcapng: an unused interface, one in microseconds, one in nanoseconds that holds ERF records; packets of the last two."""
    blocks = [section(options=options("<", (1, "whole é".encode())))]
    for link, name, resolution in ((1, b"eth0", 6), (1, b"mlx5_0", 6), (197, b"ibdump", 9)):
        described = (2, name), (3, b"port of " + name), (9, bytes([resolution]))
        blocks.append(interface("<", link, *described, snaplen=4096))
    for number in range(6):
        index = 1 + number % 2
        ticks = 1_600_000_000_123_456 + number if index == 1 else 1_600_000_000_123_456_789 + number
        data = bytes(range(14)) * 4 if index == 1 else erf_record(bytes(40), second=1_600_000_000, flags=3)
        blocks.append(enhanced("<", index, ticks, data, (1, b"remark %d" % number)))
    return b"".join(blocks)


@pytest.mark.slow
def test_a_copy_keeps_interfaces_resolutions_and_comments(tmp_path: Path) -> None:
    blob, out = two_ports(), io.BytesIO()
    with open_capture(io.BytesIO(blob)) as reader, CaptureWriter(out, container="pcapng") as writer:
        for chunk in reader.chunks():
            writer.interfaces, writer.comments = reader.interfaces, reader.comments[0]
            for row in range(len(chunk)):
                writer.add(chunk, row, reader.comments[chunk.first + row])
    before, after = read(blob), read(out.getvalue())
    assert before[0] == after[0] and before[1].comments == after[1].comments and after[1].comments[0] == ["whole é"]
    one, two = before[1].interfaces, after[1].interfaces
    assert one is not None and two is not None and one.options == two.options
    assert [two.name(i) for i in range(3)] == ["eth0", "mlx5_0", "ibdump"]
    for found in (one, two):
        assert found.columns.tolist() == [(1, 4096, 6, 0), (1, 4096, 6, 0), (197, 4096, 9, 0)]
    if which("tshark") and which("capinfos"):
        paths = [tmp_path / "in.pcapng", tmp_path / "out.pcapng"]
        seen = []
        for path, data in zip(paths, (blob, out.getvalue()), strict=True):
            path.write_bytes(data)
            fields = ("frame.interface_id", "frame.interface_name", "frame.interface_description", "frame.time_epoch", "frame.comment")
            command = ["tshark", "-r", str(path), "-T", "fields", *(word for field in fields for word in ("-e", field))]
            lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            about = subprocess.run(["capinfos", "-IkE", str(path)], capture_output=True, text=True, check=True).stdout.partition("\n")[2]
            seen.append((lines, about))
        assert seen[0] == seen[1]
        assert "1\tmlx5_0\tport of mlx5_0\t1600000000.123458000\tremark 2" in seen[1][0] and "whole é" in seen[1][1]


def test_resolutions_that_nanoseconds_cannot_hold_become_nanoseconds() -> None:
    for resolution, ticks in ((12, 1_234_567_890_123_456), (0x80 | 20, 1_234_567_890), (0, 7)):
        blob = section() + interface("<", 1, (9, bytes([resolution]))) + enhanced("<", 0, ticks, bytes(14))
        out = io.BytesIO()
        with open_capture(io.BytesIO(blob)) as reader, CaptureWriter(out, container="pcapng") as writer:
            for chunk in reader.chunks():
                writer.interfaces = reader.interfaces
                writer.add(chunk, 0)
        assert read(out.getvalue())[0] == read(blob)[0]
        again = read(out.getvalue())[1].interfaces
        assert again is not None and again.columns["resolution"] == [min(resolution, 9)]
