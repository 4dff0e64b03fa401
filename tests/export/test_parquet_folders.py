"""A partitioned dataset is one table for pyarrow, DuckDB and pandas, and grows by whole files only."""

from __future__ import annotations

import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from ibdissect.export import parquet_folders
from tests.commands import NEEDS_DUCKDB, run
from tests.craft import ethernet_pcap, interfaces_pcapng, roce2

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
HOUR = 3_600_000_000_000
START = 1_700_000_000_000_000_000 // HOUR * HOUR


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """a: frames of two hours; b: frames of the second one."""
    folder = tmp_path / "captures"
    folder.mkdir()
    frames = [roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(6)]
    (folder / "a.pcap").write_bytes(ethernet_pcap(frames, start_ns=START, step_ns=HOUR // 3))
    (folder / "b.pcap").write_bytes(ethernet_pcap(frames[:2], start_ns=START + HOUR, step_ns=1000))
    return folder


def export(folder: Path, *paths: Path, by: str = "capture,hour", more: tuple[str, ...] = ()) -> str:
    done = run("export", *map(str, paths), "--output", str(folder), "--partition-by", by, *more, text=True)
    assert done.returncode == 0, done.stderr
    return str(done.stderr)


def test_one_table(captures: Path, tmp_path: Path) -> None:
    assert "8 frames written" in export(tmp_path / "ds", captures)
    assert sorted({Path(file).parent.as_posix() for file in files(tmp_path / "ds")}) == [
        "capture=a.pcap/hour=2023-11-14T22", "capture=a.pcap/hour=2023-11-14T23", "capture=b.pcap/hour=2023-11-14T23",
    ]  # fmt: skip
    table = dataset.dataset(tmp_path / "ds", partitioning="hive").to_table()
    assert table.num_rows == 8 and {"capture", "hour", "frame.number"} <= set(table.column_names)
    assert sorted(table.filter(pa.compute.field("capture") == "a.pcap")["frame.number"].to_pylist()) == [1, 2, 3, 4, 5, 6]


@NEEDS_DUCKDB
def test_duckdb_and_pandas(captures: Path, tmp_path: Path) -> None:
    import duckdb

    export(tmp_path / "ds", captures, by="hour,capture")
    source = f"read_parquet('{tmp_path}/ds/**/*.parquet', hive_partitioning=true)"
    counts = duckdb.sql(f"select hour, capture, count(*) from {source} group by all order by all").fetchall()
    assert counts == [("2023-11-14T22", "a.pcap", 3), ("2023-11-14T23", "a.pcap", 3), ("2023-11-14T23", "b.pcap", 2)]
    if find_spec("pandas") is not None:
        import pandas

        assert len(pandas.read_parquet(tmp_path / "ds")) == 8


def test_growing(captures: Path, tmp_path: Path) -> None:
    export(tmp_path / "ds", captures / "a.pcap")
    before = files(tmp_path / "ds")
    export(tmp_path / "ds", captures / "a.pcap")
    assert files(tmp_path / "ds") == before, "the same rows again change nothing"
    export(tmp_path / "ds", captures / "b.pcap")
    assert len(files(tmp_path / "ds")) == 3 and set(before) < set(files(tmp_path / "ds"))


def test_equal_rows_of_two_captures_are_both_kept(captures: Path, tmp_path: Path) -> None:
    shutil.copy(captures / "b.pcap", captures / "c.pcap")
    export(tmp_path / "ds", captures / "b.pcap", captures / "c.pcap", by="hour", more=("-e", "bth.opcode"))
    assert len(files(tmp_path / "ds")) == 2


def test_a_set_and_a_day(captures: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        shutil.move(captures / f"{name}.pcap", captures / f"c_0000{number}_20231114220000.pcap")
    export(tmp_path / "ds", captures, by="capture,day", more=("--set", "-e", "bth.psn"))
    (found,) = files(tmp_path / "ds")
    assert found.startswith("capture=c_%2A.pcap/day=2023-11-14/")
    assert dataset.dataset(tmp_path / "ds", partitioning="hive").to_table()["capture"].to_pylist() == ["c_*.pcap"] * 8


def test_a_capture_that_cannot_be_read_leaves_the_others(captures: Path, tmp_path: Path) -> None:
    (captures / "broken.pcap").write_bytes(b"no capture")
    done = run("export", str(captures), "--output", str(tmp_path / "ds"), "--partition-by", "capture", text=True)
    assert done.returncode == 2 and "broken.pcap: not a capture" in done.stderr
    assert len(files(tmp_path / "ds")) == 2


def test_a_member_of_an_archive_is_called_by_its_name(captures: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "h.zip", "w") as packed:
        packed.write(captures / "a.pcap", "d/a*.pcap")
    done = run("export", f"zip://d/a*.pcap::{tmp_path}/h.zip", "--output", str(tmp_path / "ds"), "--partition-by", "capture", text=True)
    assert done.returncode == 0, done.stderr
    (found,) = files(tmp_path / "ds")
    assert found.startswith("capture=a%2A.pcap/")


@pytest.fixture
def alternating(tmp_path: Path) -> Path:
    """Three frames, the second of the next hour."""
    path = tmp_path / "x.pcap"
    frames = [roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(3)]
    path.write_bytes(interfaces_pcapng([(0, frame) for frame in frames], times=[START, START + HOUR, START], link=1))
    return path


def test_few_files_are_open_at_once(alternating: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hour may be in two files."""
    monkeypatch.setattr(parquet_folders, "MAX_OPEN", 1)
    done = run("export", str(alternating), "--output", str(tmp_path / "ds"), "--partition-by", "hour", text=True, here=True)
    assert done.returncode == 0 and "3 frames written" in done.stderr and len(files(tmp_path / "ds")) == 3


def test_nothing_is_left_of_too_many_files(alternating: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_folders, "MAX_OPEN", 1)
    monkeypatch.setattr(parquet_folders, "MAX_FILES", 1)
    done = run("export", str(alternating), "--output", str(tmp_path / "ds"), "--partition-by", "hour", text=True, here=True)
    assert done.returncode == 2 and "more than 1 files" in done.stderr and not (tmp_path / "ds").exists()


@pytest.mark.slow
def test_processes_write_the_same_files(captures: Path, tmp_path: Path) -> None:
    (captures / "broken.pcap").write_bytes(b"no capture")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, jobs in zip(folders, "12", strict=True):
        done = run("export", str(captures), "--output", str(folder), "--partition-by", "capture,hour", "--jobs", jobs, text=True)
        assert done.returncode == 2 and "broken.pcap: not a capture" in done.stderr and "8 frames written" in done.stderr
    assert files(folders[0]) == files(folders[1]) and len(files(folders[0])) == 3


@pytest.mark.slow
def test_nothing_is_left_of_a_killed_process(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    monkeypatch.setattr(parquet_folders.Partitions, "add", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    done = run("export", str(captures), "--output", str(tmp_path / "ds"), "--partition-by", "hour", "--jobs", "2", text=True, here=True)
    assert done.returncode == 2 and "a.pcap: the process that worked on it died" in done.stderr
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["os.replace", *(pytest.param(one, marks=pytest.mark.slow) for one in ("parquet_writer", "os.makedirs"))])
def test_a_full_disk_leaves_no_folder(what: str, jobs: str, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the dataset nor those of its partitions, nor those above; what was there stays."""
    import os

    def full(path: str, *_: object, **__: object) -> None:
        if what == "os.makedirs" and path == target:
            made(os.path.dirname(path), exist_ok=True)
        raise OSError(28, "No space left on device")

    target, made = str(tmp_path / "new/ds"), os.makedirs
    monkeypatch.setattr(f"{parquet_folders.__name__}.{what}", full)
    done = run("export", str(captures), "--output", target, "--partition-by", "capture,hour", "--jobs", jobs, text=True, here=True)
    assert done.returncode == 2 and "No space left on device" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["captures"]
    (tmp_path / "new").mkdir()
    run("export", str(captures), "--output", target, "--partition-by", "hour", "--jobs", jobs, text=True, here=True)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.suffix != ".pcap") == ["captures", "new"]


def test_other_keys_are_refused(captures: Path, tmp_path: Path) -> None:
    """In folders beside those that are there, the same frames would be in the dataset twice."""
    export(tmp_path / "ds", captures, by="capture,hour")
    before = files(tmp_path / "ds")
    for by in ("hour", "capture", "hour,capture", "capture,day"):
        done = run("export", str(captures), "--output", str(tmp_path / "ds"), "--partition-by", by, text=True)
        assert done.returncode == 2 and "is partitioned by capture,hour: frames that are there already would count twice" in done.stderr
    export(tmp_path / "ds", captures, by="capture,hour")
    assert files(tmp_path / "ds") == before
    (tmp_path / "ds/day=2026-09-21").mkdir()
    done = run("export", str(captures), "--output", str(tmp_path / "ds"), "--partition-by", "day", text=True)
    assert done.returncode == 2 and "ds holds folders of capture and of day side by side" in done.stderr


@pytest.mark.parametrize(("words", "said"), [
    (("week",), "not a list of partition keys"), (("hour,hour",), "capture, day, hour, each once"),
    (("hour", "--findings"), "for the columns of frames"), (("hour", "--output", "-"), "a dataset is a folder"),
    (("hour", "--output", __file__), "is a file, and a dataset is a folder"),
    (("hour", "-e", "no.name"), 'there is no field "no.name"'), (("hour", "-Y", "no.name"), '"no.name" is neither a field nor a protocol'),
])  # fmt: skip
def test_refusals(words: tuple[str, ...], said: str, captures: Path, tmp_path: Path) -> None:
    done = run("export", str(captures), "--output", str(tmp_path / "ds"), "--partition-by", *words, text=True)
    assert done.returncode == 2 and done.stderr.count(said) == 1  # not once for each capture
