"""Several processes write the rows of one capture as a single one does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from ibdissect import Capture
from ibdissect.capture import opening
from ibdissect.cli.common_options import CommonOptions
from ibdissect.cli.windows_in_processes import WindowWorker
from ibdissect.tables.values_in_frames import Rows, named_columns
from tests.commands import run

LAB = str(Path(__file__).parents[2] / "captures" / "pkey-lab.pcap")
NAMES = ("frame.number", "frame.time_delta", "frame.time_relative", "infiniband.bth.psn", "_ws.col.info")
"""Some need the frames before: the time since then, the numbers of hidden keys in summary lines."""


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    open_with, size = opening._open, getattr(request, "param", 2048)
    monkeypatch.setattr(opening, "_open", lambda _window, *rest: open_with(size, *rest))


def exported(target: Path, *words: str, capture: str = LAB) -> tuple[bytes, str]:
    names = [word for name in NAMES for word in ("-e", name)]
    done = run("export", capture, "--output", str(target), *names, *words, text=True, here=True)
    assert done.returncode == 0, done.stderr
    return target.read_bytes(), done.stderr.replace(str(target), "FILE")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "words"),
    [("csv", ()), ("jsonl", ()), ("csv", ("-Y", "frame.time_delta > 0.00015 and mad")), ("csv", ("-Y", "frame.number == 0"))],
)
def test_the_same_bytes(tmp_path: Path, ending: str, words: tuple[str, ...]) -> None:
    one = exported(tmp_path / f"one.{ending}", *words)
    assert exported(tmp_path / f"two.{ending}", *words, "--jobs", "2") == one


@pytest.mark.slow
def test_damage_and_no_frames(tmp_path: Path) -> None:
    whole = Path(LAB).read_bytes()
    for name, size in (("cut.pcap", 4000), ("empty.pcap", 24)):
        (tmp_path / name).write_bytes(whole[:size])
        one = exported(tmp_path / "one.csv", capture=str(tmp_path / name))
        assert exported(tmp_path / "two.csv", "--jobs", "2", capture=str(tmp_path / name)) == one
        assert ("cut-off" in one[1]) == (size == 4000) and one[0].startswith(b'"frame.number"')


@pytest.mark.slow
@pytest.mark.parametrize("small_windows", [1 << 16], indirect=True)
def test_keys_and_compressed_captures(tmp_path: Path) -> None:
    """Keys that are left out are counted in all processes."""
    capture = str(Path(LAB).with_name("mkey-enforced.pcap.gz"))
    one = exported(tmp_path / "one.csv", "-e", "infiniband.smplid.mkey", capture=capture)
    assert exported(tmp_path / "two.csv", "-e", "infiniband.smplid.mkey", "--jobs", "2", capture=capture) == one
    assert "left out; --show-keys writes them" in one[1]


def writer(opened: Capture) -> Any:
    """The columns of a capture, and what writes the numbers of its frames."""

    def write(chosen: Iterable[tuple[Any, Any]], file: IO[bytes]) -> int:
        numbers = [table.chunk.first + row for table, rows in chosen for row in rows.tolist()]
        file.write("".join(f"{number}\n" for number in numbers).encode())
        return len(numbers)

    return Rows(named_columns(opened.catalog, NAMES[:2]), opened.state(NAMES[:2])), write


def test_a_process_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, begun, read = WindowWorker(LAB, CommonOptions(quiet=True), writer), list[int](), WindowWorker._read

    def reading(self: WindowWorker) -> Iterator[Any]:
        begun.append(self._wanted)
        return read(self)

    monkeypatch.setattr(WindowWorker, "_read", reading)
    second, fifth = windows(1), windows(4)
    assert begun == [0] and int(second.text.split()[0]) < int(fifth.text.split()[0]) and not fifth.last
    assert windows(1) == second and len(begun) == 2, "an earlier one is read from the beginning"
    assert windows(99).last and windows(100).last and len(begun) == 2


def kill(windows: WindowWorker, number: int, stop: object = None, *, once: Path | None, call: Any = WindowWorker.__call__) -> Any:
    if number == 2 and (once is None or not once.exists()):
        if once is not None:
            once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return call(windows, number)


@pytest.mark.slow
def test_a_process_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its windows are made again; one that kills every process ends the export, and the old file stays."""
    one = exported(tmp_path / "one.csv")
    monkeypatch.setattr(WindowWorker, "__call__", lambda *words, **more: kill(*words, **more, once=tmp_path / "killed"))
    assert exported(tmp_path / "two.csv", "--jobs", "2") == one and (tmp_path / "killed").exists()
    monkeypatch.setattr(WindowWorker, "__call__", lambda *words, **more: kill(*words, **more, once=None))
    done = run("export", LAB, "--output", str(tmp_path / "two.csv"), "--jobs", "2", text=True, here=True)
    assert done.returncode == 2 and "pkey-lab.pcap: the process that worked on it died" in done.stderr
    assert (tmp_path / "two.csv").read_bytes() == one[0]


def test_what_several_processes_cannot_read() -> None:
    for words in (("-", "--jobs", "2"), ("-", "--engine", "dask")):
        done = run("export", words[0], "--output", "x.csv", *words[1:], text=True)
        assert done.returncode == 2 and "-: cannot be read by several processes" in done.stderr
