"""Which files are one recording by their names, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.file_names import CaptureSet
from ibdissect.capture.recordings import sets_of
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap
from tests.cases import every

DUMPCAP = ["d/cap_00009_20261121120000.pcapng", "d/cap_00010_20261121120010.pcapng.gz", "d/cap_00011_20261121120020.pcapng"]
TIMES = ["x-2026-11-21_11.pcap", "x-2026-11-21_12.pcap", "x-2026-11-22_00.pcap"]


@every(
    ("path", "later", "name"),
    [
        ("d/cap_00007_20261121120000.pcap", "d/cap_00010_20261121120000.pcap", "d/cap_*.pcap"),
        ("cap_20261121120000_00007.pcapng.zst", "cap_20261121120009_00008.pcapng.zst", "cap_*.pcapng"),
        ("x.pcap", "x.pcap1", "x.pcap*"), ("x.pcap9", "x.pcap12", "x.pcap*"), ("x.pcap003.gz", "x.pcap012.gz", "x.pcap*"),
        ("x-20261121T120000.pcap4", "x-20261121T120000.pcap10", "x-*.pcap"),
        ("cap_2026-11-21_12:30:00.pcap", "cap_2026-11-21_13:00:00.pcap", "cap_*.pcap"),
        ("zip://x.pcap2::a.zip", "zip://x.pcap10::a.zip", "zip://x.pcap*::a.zip"),
        ("zip://d/x.pcap2::s3://b/day.zip", "zip://d/x.pcap10::s3://b/day.zip", "zip://d/x.pcap*::s3://b/day.zip"),
        ("https://h/x_00001_20261121120000.pcap?sig=secret", "https://h/x_00002_20261121120000.pcap?sig=secret", "https://h/x_*.pcap"),
    ],
)  # fmt: skip
def test_names(path: str, later: str, name: str) -> None:
    assert sets_of([later, path]) == [CaptureSet(name, (path, later))]


@every("path", ["cap_00007.txt", "readme", "cap_7_20261121120000.txt", "x.pcap1.bak"])
def test_other_names(path: str) -> None:
    assert [one.members for one in sets_of([path, "other", *DUMPCAP])] == [tuple(DUMPCAP), (path, "other")]


def test_recordings() -> None:
    alone = ["a.pcap", "b.pcap", "lab-2026.pcap", "e/cap_00001_20261121120000.pcap"]
    names = [(one.name, len(one.members)) for one in sets_of([*DUMPCAP, *TIMES, *alone])]
    assert names == [("d/cap_*.pcapng", 3), ("x-*.pcap", 3), (alone[-1], 1), ("*.pcap", 3)]
    assert sets_of(["x.pcap.gz", "x.pcap"])[0].members == ("x.pcap.gz", "x.pcap"), "the same file twice is no recording"


@pytest.mark.parametrize("files", [DUMPCAP, TIMES, ["x-20261121120000.pcap", "x-20261121120000.pcap1", "x-20261121130000.pcap"]])
def test_order(files: list[str]) -> None:
    assert sets_of(files[::-1])[0].members == tuple(files)


def test_order_after_the_highest_number() -> None:
    files = ["c_99998_20261121120000.pcap", "c_99999_20261121120001.pcap", "c_00000_20261121120002.pcap", "c_00001_20261121120003.pcap"]
    assert sets_of(sorted(files))[0].members == tuple(files)


def test_order_when_summer_time_ends() -> None:
    files = ["c_00001_20261025025000.pcap", "c_00002_20261025020500.pcap", "c_00003_20261025030000.pcap"]
    assert sets_of(files[::-1])[0].members == tuple(files)


def test_two_recordings_with_one_name() -> None:
    files = ["c_00001_20261121120000.pcap", "c_00002_20261121120001.pcap", "c_00001_20261122090000.pcap", "c_00003_20261122090009.pcap"]
    assert sets_of(sorted(files))[0].members == tuple(files)


def test_order_of_a_full_ring_is_that_of_the_first_records(tmp_path: Path) -> None:
    for number, second in enumerate((300, 400, 100, 200)):
        (tmp_path / f"x.pcap{number}").write_bytes(pcap([Packet(1_600_000_000 + second, 0, bytes(60))]))
    (found,) = sets_of(map(str, tmp_path.iterdir()))
    assert [member[-1] for member in found.members] == ["2", "3", "0", "1"]


def test_what_names_do_not_tell_is_read_as_given() -> None:
    stray = ["e/cap_00001_20261121120000.pcap"]
    found = sets_of(["b.pcap", *DUMPCAP, "a.pcap", *stray])
    rest = CaptureSet("*.pcap", ("b.pcap", "a.pcap"))
    assert found == [CaptureSet("d/cap_*.pcapng", tuple(DUMPCAP)), CaptureSet(stray[0], tuple(stray)), rest]
    with pytest.raises(CaptureError, match=r"3 captures by their names"):
        ibdissect.open(["b.pcap", *DUMPCAP, *stray], set=True)


@every(
    "urls",
    [
        ["https://me:secret1@h/a.pcap?sig=secret2", "https://me:secret3@h/b.pcap?sig=secret4"],
        ["https://me:secret@h/x_00001_20261121120000.pcap", "https://me:secret@h/x_00004_20261121120009.pcap"],
        ["https://h/get?sig=secret&file=x-2026112112.pcap", "https://h/get?sig=secret&file=x-2026112113.pcap"],
        ["https://me:secret@h/cap_00001_20261121120000.pcap"],
    ],
)
def test_secrets_of_urls_are_in_no_name_of_a_set(urls: list[str]) -> None:
    (found,) = sets_of(urls)
    assert found.members == tuple(urls)
    assert "secret" not in found.name and found.name.startswith("https://h/")
