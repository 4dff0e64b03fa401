"""Names of ring buffers: the files of one recording, their order, and missing members."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ibdissect.capture import discover
from ibdissect.capture.discover import one_set, rings, sets_of
from ibdissect.capture.sets import CaptureSet, missing, next_of, part_of, series_of
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap

DUMPCAP = ["d/cap_00009_20261121120000.pcapng", "d/cap_00010_20261121120010.pcapng.gz", "d/cap_00011_20261121120020.pcapng"]
TIMES = ["x-2026-11-21_11.pcap", "x-2026-11-21_12.pcap", "x-2026-11-22_00.pcap"]


@pytest.mark.parametrize(
    ("path", "name", "number"),
    [
        ("d/cap_00007_20261121120000.pcap", "d/cap_*.pcap", 7),
        ("cap_20261121120000_00007.pcapng.zst", "cap_*.pcapng", 7),
        ("x.pcap", "x.pcap*", 0),
        ("x.pcap12", "x.pcap*", 12),
        ("x.pcap003.gz", "x.pcap*", 3),
        ("x-20261121T120000.pcap4", "x-*.pcap", 4),
        ("cap_2026-11-21_12:30:00.pcap", "cap_*.pcap", 0),
        ("zip://x.pcap2::a.zip", "zip://x.pcap*::a.zip", 2),
        ("zip://d/x.pcap2::s3://b/day.zip", "zip://d/x.pcap*::s3://b/day.zip", 2),
        ("https://h/x.pcap1?sig=secret", "https://h/x.pcap*", 1),
    ],
)
def test_names(path: str, name: str, number: int) -> None:
    part = part_of(path)
    assert part is not None and (part.name, part.number) == (name, number)


@pytest.mark.parametrize("path", ["cap_00007.txt", "readme", "cap_7_20261121120000.txt", "x.pcap1.bak"])
def test_other_names(path: str) -> None:
    assert part_of(path) is None


def test_rings() -> None:
    alone = ["a.pcap", "b.pcap", "lab-2026.pcap", "e/cap_00001_20261121120000.pcap"]
    assert {name: len(parts) for name, parts in rings([*DUMPCAP, *TIMES, *alone]).items()} == {"d/cap_*.pcapng": 3, "x-*.pcap": 3}
    assert rings(["x.pcap", "x.pcap.gz"]) == {}, "the same file twice"


@pytest.mark.parametrize("files", [DUMPCAP, TIMES, ["x-20261121120000.pcap", "x-20261121120000.pcap1", "x-20261121130000.pcap"]])
def test_order(files: list[str]) -> None:
    assert one_set(files[::-1]).members == tuple(files)


def test_order_after_the_highest_number() -> None:
    files = ["c_99998_20261121120000.pcap", "c_99999_20261121120001.pcap", "c_00000_20261121120002.pcap", "c_00001_20261121120003.pcap"]
    assert one_set(sorted(files)).members == tuple(files)
    assert [missing(*pair) for pair in pairwise(files)] == ["", "", ""]


def test_order_when_summer_time_ends() -> None:
    files = ["c_00001_20261025025000.pcap", "c_00002_20261025020500.pcap", "c_00003_20261025030000.pcap"]
    assert one_set(files[::-1]).members == tuple(files)


def test_two_recordings_with_one_name() -> None:
    files = ["c_00001_20261121120000.pcap", "c_00002_20261121120001.pcap", "c_00001_20261122090000.pcap", "c_00003_20261122090009.pcap"]
    assert one_set(sorted(files)).members == tuple(files)
    assert [missing(*pair) for pair in pairwise(files)][:2] == ["", ""]


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
        one_set(["b.pcap", *DUMPCAP, *stray])


@pytest.mark.parametrize(
    "urls",
    [
        ["https://me:secret1@h/a.pcap?sig=secret2", "https://me:secret3@h/b.pcap?sig=secret4"],
        ["https://me:secret@h/x.pcap", "https://me:secret@h/x.pcap3"],
        ["https://h/get?sig=secret&file=x.pcap", "https://h/get?sig=secret&file=x.pcap3"],
        ["https://me:secret@h/cap_00001_20261121120000.pcap"],
    ],
)
def test_secrets_of_urls_are_in_no_name_of_a_set(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "_begun", lambda path: path)  # no server answers here
    found = one_set(urls)
    assert found.members == tuple(urls)
    assert "secret" not in found.name and found.name.startswith("https://h/")
    assert "secret" not in missing(urls[0], urls[-1])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("c_00001_20261121120000.pcap", "c_00002_20261121120001.pcap", ""),
        ("c_00001_20261121120000.pcap", "c_00003_20261121120001.pcap.gz", "file 2 is missing between"),
        ("x.pcap", "x.pcap4", "files 1 to 3 are missing between"),
        ("x.pcap7", "x.pcap0", ""),
        ("zip://x.pcap1::d/a.zip", "zip://x.pcap3::d/a.zip", "file 2 is missing between x.pcap1 and x.pcap3"),
        ("zip://x.pcap1::d/a.zip", "zip://x.pcap3::d/b.zip", ""),
        ("x-20261121120000.pcap", "x-20261121120000.pcap2", "file 1 is missing"),
        ("x-2026112112.pcap", "x-2026112118.pcap", ""),
        ("c_00001_20261121120000.pcap", "other_00003_20261121120001.pcap", ""),
        ("a.pcap", "b.pcap", ""),
    ],
)
def test_missing(before: str, after: str, said: str) -> None:
    assert missing(before, after).startswith(said) and bool(missing(before, after)) == bool(said)


def test_next_member(tmp_path: Path) -> None:
    files = [str(tmp_path / f"c_0000{n}_2026112112000{n}.pcap") for n in (1, 2, 3)]
    assert next_of(files[0], files[:1]) is None
    for file in files[1:]:
        Path(file).touch()
    assert next_of(files[0], files[:1]) == files[1]
    assert next_of(files[2], files) is None


@pytest.mark.parametrize(
    ("path", "series"),
    [
        ("d/bench-20261127.pcap", "d/bench-*.pcap"), ("d/bench-2026-11-27.pcap.gz", "d/bench-*.pcap"),
        ("bench_2026-11-27T03:00:12Z.pcap", "bench_*Z.pcap"), ("1732700000.pcap", "*.pcap"),
        ("cap_00007_20261121120000.pcap", "cap_*.pcap"), ("x.pcap3.zst", "x.pcap*"),
    ],
)  # fmt: skip
def test_series(path: str, series: str) -> None:
    found = series_of(path)
    assert found is not None and found[0] == series


@pytest.mark.parametrize(
    "path", ["a.pcap", "33-mkey-prot1.pcap", "d20261127/a.pcap", "20261341.pcap", "120261127.pcap", "build-4711.pcap", "2732700000.pcap"]
)
def test_names_that_stand_alone(path: str) -> None:
    assert series_of(path) is None


def test_places_in_a_series_are_in_order() -> None:
    names = ["b-20261127.pcap", "b-20261128.pcap", "b-20261201.pcap.gz"]
    assert sorted(names, key=lambda name: str(series_of(name))) == names
    ring = [f"x.pcap{number}" for number in (1, 2, 10)]
    assert sorted(ring, key=lambda name: str(series_of(name))) == ring
