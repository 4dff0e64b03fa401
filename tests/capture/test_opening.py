"""Every wrong file fails at opening with a sentence that says why, and never in another way."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import sys
from pathlib import Path

import pytest

from ibdissect.capture.compressed import zstd_library
from ibdissect.capture.opening import open_capture
from ibdissect.capture.path_arguments import discover
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, enhanced, erf_record, interface, pcap, pcap_rows, read, rows_of, section, simple

MADE = [Packet(1_600_000_000, n, bytes([n]) * 40) for n in range(20)]
PCAP = pcap(MADE)


def test_wrong_paths(tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "text.pcap").write_text("this is a text, not a capture\n" * 3)
    for name, reason in [
        ("missing.pcap", "no such file"),
        ("", "is a directory"),
        ("empty.pcap", "is empty"),
        ("a\0b", "cannot be opened"),
        ("text.pcap", "not a capture: starts with 74 68 69 73.*known are pcap, pcapng, ERF, also .gz .zst .xz .bz2 .lz4"),
    ]:
        path = os.path.join(tmp_path, name)
        with pytest.raises(CaptureError, match=reason) as caught:
            open_capture(path)
        assert caught.value.path == path


def test_a_typo_names_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "pkey-lab.pcap").write_bytes(PCAP)
    for name, hint in ("pkey-lab.pcp", "did you mean pkey-lab.pcap?"), ("other.pcap", ""), ("no/pkey-lab.pcp", ""):
        with pytest.raises(CaptureError, match="no such file") as caught:
            open_capture(os.path.join(tmp_path, name))
        assert caught.value.hint == hint


def test_no_file_of_a_folder_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc/kmsg, to which an archive may hold a link: a regular file that delivers nothing."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        monkeypatch.setattr("stat.S_ISREG", lambda mode: True)
        with pytest.raises(CaptureError, match="is a directory without captures"):
            discover([str(tmp_path)])
        os.write(writer, PCAP[:24])
        assert discover([str(tmp_path)]).files == [str(tmp_path / "pipe")]
    finally:
        os.close(writer)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_forbidden(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PCAP)
    path.chmod(0)
    with pytest.raises(CaptureError, match="permission denied"):
        open_capture(path)


@pytest.mark.parametrize("magic", ["34cdb2a1", "a1b2cd34"])
def test_modified_pcap(magic: str) -> None:
    with pytest.raises(CaptureError, match=f"modified pcap .magic {magic}.*editcap"):
        open_capture(io.BytesIO(bytes.fromhex(magic) + PCAP[4:]))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd_library().compress], ids=["gz", "xz", "zst"])
def test_compressed_captures(pack: object, tmp_path: Path) -> None:
    path = tmp_path / "named.wrongly"
    path.write_bytes(pack(PCAP))  # type: ignore[operator]
    for window in (50, 1 << 20):
        rows, reader = read(path, window)
        assert rows == pcap_rows(MADE) and reader.damage == []
    with pytest.raises(CaptureError, match="cannot be followed"):
        open_capture(path, follow=True)
    with pytest.raises(CaptureError, match="compressed twice"):
        open_capture(io.BytesIO(pack(path.read_bytes())))  # type: ignore[operator]
    with pytest.raises(CaptureError, match="is empty"):
        open_capture(io.BytesIO(pack(b"")))  # type: ignore[operator]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PCAP)))
    reader = open_capture("-")
    assert reader.path == "-" and rows_of(reader) == pcap_rows(MADE)


def test_text_objects_are_refused() -> None:
    with pytest.raises(CaptureError, match="not a binary file object"):
        open_capture(io.StringIO("x"))  # type: ignore[arg-type]


def test_a_file_object_is_read_from_where_it_stands_and_stays_open() -> None:
    source = io.BytesIO(b"before" + PCAP)
    source.seek(6)
    with open_capture(source) as reader:
        assert rows_of(reader) == rows_of(reader) == pcap_rows(MADE)
    assert not source.closed


def samples() -> list[bytes]:
    record = erf_record(b"ib" * 20, second=1_600_000_000, extensions=1)
    block = enhanced("<", 0, 10**15, b"ng" * 9, (1, b"hello"))
    ng = (
        section("<")
        + interface("<", 247, (9, b"\x09"))
        + block * 3
        + simple("<", b"abc")
        + section(">")
        + interface(">", 197)
        + enhanced(">", 0, 1, record)
    )
    return [
        pcap(MADE[:6]),
        pcap(MADE[:6], ">", False),
        pcap([Packet(5, 5, record)] * 4, link=197),
        ng,
        record * 8,
        gzip.compress(ng),
        lzma.compress(ng),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(samples())))
def test_mutations_raise_nothing_but_capture_errors(number: int, pytestconfig: pytest.Config) -> None:
    draw = random.Random(number)
    sample = samples()[number]
    for _ in range(400 if pytestconfig.getoption("--thorough") else 100):
        blob = bytearray(sample)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(blob))
            match draw.randrange(5):
                case 0:
                    blob[at] = draw.randrange(256)
                case 1:
                    blob[at : at + 4] = draw.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80"])
                case 2:
                    del blob[at : at + draw.randint(1, 9)]
                case 3:
                    blob[at:at] = draw.randbytes(draw.randint(1, 20))
                case _:
                    blob[at] ^= 1 << draw.randrange(8)
            blob = blob or bytearray(sample)
        outcomes = []
        for window in (37, 1 << 16):
            try:
                rows, reader = read(bytes(blob), window)
            except CaptureError as error:
                outcomes.append(([], str(error)))
            else:
                outcomes.append((rows, str(reader.damage)))
        assert outcomes[0] == outcomes[1]
