"""What the names of captures tell: files of a ring buffer that are missing, and captures of a series."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import ibdissect
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap
from tests.commands import run
from tests.craft import erf_pcap, flipped, native


def recorded(folder: Path, *paths: str) -> list[str]:
    """Files, or members of archives, each with a packet, a second later than the one before."""
    for second, path in enumerate(paths):
        name, _, archive = path.removeprefix("zip://").partition("::")
        data = pcap([Packet(1_600_000_000 + second, 0, bytes(60))])
        if archive:
            with zipfile.ZipFile(folder / archive, "a") as packed:
                packed.writestr(name, data)
        else:
            (folder / name).write_bytes(data)
    return [
        f"zip://{path[6:].partition('::')[0]}::{folder / path.partition('::')[2]}" if "::" in path else str(folder / path) for path in paths
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("c_00001_20261121120000.pcap", "c_00002_20261121120001.pcap", ""),
        ("c_00001_20261121120000.pcap", "c_00003_20261121120001.pcap", "file 2 is missing between"),
        ("c_99999_20261121120001.pcap", "c_00000_20261121120002.pcap", ""),
        ("x.pcap", "x.pcap4", "files 1 to 3 are missing between"),
        ("x.pcap7", "x.pcap0", ""),
        ("zip://x.pcap1::a.zip", "zip://x.pcap3::a.zip", "file 2 is missing between x.pcap1 and x.pcap3"),
        ("x-20261121120000.pcap", "x-20261121120000.pcap2", "file 1 is missing"),
        ("x-2026112112.pcap", "x-2026112118.pcap", ""),
        ("a.pcap", "b.pcap", ""),
    ],
)
def test_missing(tmp_path: Path, before: str, after: str, said: str) -> None:
    with ibdissect.open(recorded(tmp_path, before, after), set=True) as capture:
        assert [frame.time_ns for frame in capture] == [1_600_000_000 * 10**9, 1_600_000_001 * 10**9]
        reasons = [damage.reason for damage in capture.reader.damage]
    assert len(reasons) == bool(said) and all(reason.startswith(said) for reason in reasons)


@pytest.mark.parametrize(
    ("one", "other"),
    [("zip://x.pcap1::a.zip", "zip://x.pcap3::b.zip"), ("c_00001_20261121120000.pcap", "other_00003_20261121120001.pcap")],
)
def test_others_are_no_members(tmp_path: Path, one: str, other: str) -> None:
    with pytest.raises(CaptureError, match="are 2 captures by their names"):
        ibdissect.open([*recorded(tmp_path, one, other), str(tmp_path / "c_00002_20261121120001.pcap")][: 2 + ("c_" in one)], set=True)


def compared(folder: Path, known: list[str], here: list[str]) -> dict[str, str]:
    """With which capture of a baseline each capture is compared that the baseline does not know by its name."""
    for number, name in enumerate((*known, *here)):  # a series is of captures that do not hold the same
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(erf_pcap([flipped(native(payload=bytes([number])), -1)]))
    lint = ("lint", "--jobs", "1", "--select", "ROC007")
    run(*lint, *known, "--write-baseline", "known.json", cwd=folder)
    told = run(*lint, *here, "--baseline", "known.json", cwd=folder, text=True)
    lines = [line.split(" is compared with ") for line in (told.stdout + told.stderr).splitlines() if " is compared with " in line]
    return {path.strip(): name.strip() for path, name in lines}


def test_captures_of_a_series_are_compared(tmp_path: Path) -> None:
    """By a date or seconds, or by the number of a ring buffer's file."""
    series = {
        "d/bench-20261127.pcap": "d/bench-20261128.pcap", "b_2026-11-27T03:00:12Z.pcap": "b_2026-11-28T03:00:12Z.pcap",
        "1732700000.pcap": "1732800000.pcap", "c_00007_20261121120000.pcap": "c_00008_20261121120000.pcap", "x.pcap3": "x.pcap4",
    }  # fmt: skip
    assert compared(tmp_path, [*series], [*series.values()]) == {new: old for old, new in series.items()}


def test_names_that_stand_alone(tmp_path: Path) -> None:
    alone = ["a.pcap", "33-mkey-prot1.pcap", "20261341.pcap", "120261127.pcap", "build-4711.pcap", "2732700000.pcap"]
    others = ["b.pcap", "34-mkey-prot1.pcap", "20261342.pcap", "120261128.pcap", "build-4712.pcap", "2732700001.pcap"]
    assert compared(tmp_path, alone, others) == {}


def test_places_in_a_series_are_in_order(tmp_path: Path) -> None:
    """The first of the new ones is compared with the first of those that are gone."""
    known, here = (
        ["b-20261127.pcap", "b-20261201.pcap", "x.pcap2", "x.pcap10"],
        ["b-20261203.pcap", "b-20261202.pcap", "x.pcap11", "x.pcap12"],
    )
    assert compared(tmp_path, known, here) == {
        "b-20261202.pcap": "b-20261127.pcap", "b-20261203.pcap": "b-20261201.pcap", "x.pcap11": "x.pcap2", "x.pcap12": "x.pcap10",
    }  # fmt: skip
