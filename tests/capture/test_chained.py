"""The members of a set give the rows of one capture, whatever their formats, and faults of one of them are told."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.chunk import Reader
from ibdissect.capture.file_names import CaptureSet
from ibdissect.capture.opening import open_capture
from ibdissect.capture.writing import CaptureWriter
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, enhanced, erf_record, interface, pcap, pcap_rows, rows_of, section

MADE = [Packet(1_600_000_000 + n, n * 1000, bytes([n]) * 50) for n in range(12)]
NG = b"".join([section("<"), interface("<", 1), interface("<", 1, (2, b"eth1")), enhanced("<", 1, 5, bytes(60), (1, b"hello"))])


def made(folder: Path, *blobs: bytes) -> CaptureSet:
    paths = [folder / f"c_{n:05}_20261121120000.pcap" for n in range(len(blobs))]
    for path, blob in zip(paths, blobs, strict=True):
        path.write_bytes(blob)
    return CaptureSet("c_*.pcap", tuple(map(str, paths)))


def damage_of(reader: Reader) -> list[tuple[str, int, str]]:
    return [(one.kind, one.frame, Path(one.file).name[:7]) for one in reader.damage]


@pytest.mark.parametrize("window", [100, 1 << 24])
def test_members_of_all_formats(tmp_path: Path, window: int) -> None:
    parts = [MADE[:3], MADE[3:4], MADE[4:9], MADE[9:]]
    blobs = [pcap(parts[0]), gzip.compress(pcap(parts[1], ">")), pcap(parts[2], nano=False), pcap(parts[3], ">", nano=False)]
    with open_capture(made(tmp_path, *blobs), window=window) as reader:
        assert rows_of(reader) == pcap_rows(MADE) == rows_of(reader)
        assert [member.first for member in reader.members] == [1, 4, 5, 10]
        assert reader.damage == [] and reader.link_types == [1]


def test_link_types_may_differ(tmp_path: Path) -> None:
    blobs = [pcap(MADE[:2]), b"".join(erf_record(bytes(60), second=1_600_000_009) for _ in range(3)), pcap(MADE[2:], link=247)]
    with open_capture(made(tmp_path, *blobs)) as reader:
        assert [row[4] for row in rows_of(reader)] == [1] * 2 + [197] * 3 + [247] * 10
        assert len(reader.link_types) == 3


def test_interfaces_and_comments(tmp_path: Path) -> None:
    packets = enhanced(">", 1, 6, bytes(61)) + enhanced(">", 0, 7, bytes(62))
    other = section(">") + interface(">", 1, (2, b"eth2")) + interface(">", 1) + packets
    with open_capture(made(tmp_path, NG, pcap(MADE[:1]), other, NG)) as reader:
        rows = rows_of(reader)
        assert [row[5] for row in rows] == [1, 2, 0, 3, 1]
        assert reader.comments == {1: ["hello"], 5: ["hello"]}
        assert reader.interfaces is not None and [reader.interfaces.name(i) for i in range(4)] == ["", "eth1", "", "eth2"]
        with CaptureWriter(tmp_path / "copy.pcapng", container="pcapng") as writer:
            for chunk in reader.chunks():
                writer.interfaces = reader.interfaces
                for row in range(len(chunk)):
                    writer.add(chunk, row)
    assert [row[:4] + row[5:6] for row in rows_of(open_capture(tmp_path / "copy.pcapng"))] == [row[:4] + row[5:6] for row in rows]


def test_pcapng_after_pcap(tmp_path: Path) -> None:
    with open_capture(made(tmp_path, pcap(MADE[:1]), NG)) as reader:
        assert reader.interfaces is None
        assert [chunk.interfaces for chunk in reader.chunks()] == [None, None]


def test_damage_names_the_member(tmp_path: Path) -> None:
    whole = made(tmp_path, pcap(MADE[:2])[:-5], b"no capture", pcap(MADE[2:4]), b"", pcap(MADE[4:6]), b"")
    gone = CaptureSet(whole.name, tuple(path for path in whole.members if "00002" not in path))
    with open_capture(gone) as reader:
        assert len(rows_of(reader)) == 3
        # The last member, which is empty, may have been begun just now.
        wrong = [("cut-off", 1, "c_00000"), ("unreadable", 1, "c_00001"), ("missing", 1, "c_00003"), ("unreadable", 1, "c_00003")]
        assert damage_of(reader) == wrong
    with pytest.raises(CaptureError, match=r"c_00001.*not a capture"):
        open_capture(CaptureSet("x", whole.members[1:2]))


def test_a_pipe_is_no_member(tmp_path: Path) -> None:
    out, into = os.pipe()
    os.write(into, pcap(MADE[:1]))
    os.close(into)
    whole = made(tmp_path, pcap(MADE[:2]))
    with open_capture(CaptureSet("x", (whole.members[0], f"/dev/fd/{out}"))) as reader:
        assert len(rows_of(reader)) == 2
        assert "only once" in reader.damage[0].reason
    os.close(out)


def test_following(tmp_path: Path) -> None:
    """The last member grows, then others are begun; the empty one, too, is followed."""
    whole = made(tmp_path, pcap(MADE[:1]), pcap(MADE[1:2]))
    grown = pcap(MADE[2:4])
    with open_capture(whole, follow=True) as reader:
        chunks = reader.chunks()
        assert [next(chunks).first, next(chunks).first] == [1, 2]
        with open(whole.members[1], "ab") as file:
            file.write(grown[24:])
        third, fourth = (tmp_path / f"c_0000{n}_20261121120009.pcap" for n in (2, 3))
        third.write_bytes(pcap(MADE[4:5]))
        fourth.touch()
        seen: list[int] = []
        while sum(seen) < 3:
            seen.append(len(next(chunks)))
        fourth.write_bytes(pcap(MADE[5:7]))
        assert len(next(chunks)) == 2
        reader.stop()
        assert list(chunks) == [] and reader.damage == []
        assert [member.first for member in reader.members] == [1, 2, 5, 6]


def test_index(tmp_path: Path) -> None:
    whole = made(tmp_path, *(pcap(list(part)) for part in (MADE[:3], MADE[3:4], MADE[4:9], MADE[9:])))
    with ibdissect.open(whole.members, set=True) as capture:
        frames = [12, 2, 3, 4, 5, 9, 10]
        assert [capture.frame(frame).data for frame in frames] == [MADE[frame - 1].data for frame in frames]
        Path(whole.members[2]).unlink()  # by the ring buffer
        assert [len(capture.frame(frame).data) for frame in (2, 3, 4, 5, 9, 10)] == [50, 50, 50, 0, 0, 50]
