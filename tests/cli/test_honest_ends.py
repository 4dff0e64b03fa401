"""A failed command exits with status 2 and a one-line message, whatever names it contains."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ibdissect.capture.compressed import Unpacking
from ibdissect.cli import run
from ibdissect.decode.hidden.key_numbers import KeyNumbering
from tests import commands
from tests.cases import few
from tests.craft import erf_pcap, ethernet_pcap, native, smp

COMMAND = "\n::stop-commands::word"
"""GitHub obeys a line that begins so."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.pcap").write_bytes(erf_pcap([smp(1, 0x10)]))
    return tmp_path


def lint(*words: str) -> int:
    return commands.status_here("lint", *words)


@pytest.mark.parametrize(
    "words",
    [
        ("x" + COMMAND,), ("clean.pcap", "--frames", "x" + COMMAND), ("clean.pcap", "--plugin", "x" + COMMAND),
        ("clean.pcap", "--x" + COMMAND),
        ("clean.pcap", "-Y", f'ip.src == "{COMMAND}"'), ("clean.pcap", "--config", "bad.toml"), ("clean.pcap", "--select", "A" + COMMAND),
        ("clean.pcap", "--baseline", "x" + COMMAND), ("clean.pcap", "--format", "x" + COMMAND), ("x" + COMMAND + ".pcap",),
    ],
)  # fmt: skip
def test_no_name_begins_a_line_of_its_own(words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.toml").write_text('"a\\n::stop-commands::word" = 1\n')
    (folder / ("x" + COMMAND + ".pcap")).write_bytes(b"no capture")
    assert lint(*words) == 2
    said = capsys.readouterr()
    assert "stop-commands" in said.err and not any(line.startswith("::") for line in (said.err + said.out).splitlines())


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
@few("option", ["--baseline", "--config", "--plugin"], fast=(0, 2))
def test_a_file_without_end(option: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "endless.toml").symlink_to("/dev/zero")
    assert lint("clean.pcap", option, "endless.toml") == 2
    *notes, said = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ") and all("is a device: it is read until it ends" in note for note in notes)


@pytest.mark.parametrize(
    ("error", "said"),
    [(MemoryError(), "error: out of memory\n"), (ValueError("a\n::b"), "ValueError: a"), (OSError(28, "No room"), "No room")],
)
def test_what_no_command_expects_is_status_2(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ibdissect.cli.lint.each_capture", broken)
    assert lint("clean.pcap") == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@few("closed", [">&-", "2>&-", ">&- 2>&-"], fast=(0, 1))
def test_closed_streams(closed: str, folder: Path) -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m ibdissect lint clean.pcap {closed}"], timeout=120, check=False)
    assert done.returncode == 2


@pytest.mark.slow  # not in the tests that coverage watches: it could not write its data either
@pytest.mark.skipif(os.name != "posix", reason="needs ulimit")
def test_sql_under_a_file_limit(folder: Path) -> None:
    words = f"ulimit -f 8; {sys.executable} -m ibdissect sql clean.pcap 'select count(*) from packets'"
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}  # Python would keep modules that are cut
    done = subprocess.run(["bash", "-c", words], capture_output=True, timeout=120, check=False, env=environment)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(b"error: clean.pcap: cannot be loaded into a database")
    assert not list(folder.glob("ibdissect-sql-*"))


@few(
    ("data", "said"),
    [
        (erf_pcap([]), "the capture holds no frames"),
        (ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(40)] * 3), "no InfiniBand or RoCE was found in 3 frames"),
        (erf_pcap([native()[:23]] * 3 + [native()]), "3 of 4 frames could not be decoded"),
        (erf_pcap([native()[:23]] + [native()] * 3), ""),
    ],
    fast=(1,),
)
def test_a_capture_that_was_not_understood_is_reported(data: bytes, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.pcap").write_bytes(data)
    assert lint("odd.pcap", "--ignore", "CAP018", "--fail-on", "never", "--allow-empty") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    empty = "nothing could be checked: " if "no" in said.split()[:4] else ""
    assert warned == ([f"warning: odd.pcap: {empty}{said}"] if said else [])
    assert lint("odd.pcap", "-q", "--fail-on", "never", "--allow-empty") == 0
    assert capsys.readouterr().err == ""


def test_keys_that_are_not_distinguished_are_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ibdissect.decode.hidden.key_numbers.MAX_KEYS", 2)
    (folder / "keys.pcap").write_bytes(erf_pcap([smp(1, 0x15, m_key=0x1111 * key) for key in range(1, 6)]))
    assert run(["show", "keys.pcap", "--format", "tree"]) == 0
    shown = capsys.readouterr()
    assert "M_Key#?" in shown.out and "warning: keys.pcap: 3 keys have no number of their own" in shown.err
    assert KeyNumbering().dropped.count == 0


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that takes long to check, mostly to decompress."""
    path = tmp_path_factory.mktemp("long") / "long.pcap.gz"
    frames = [smp(1, 0x10, modifier=9)] * 4000
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(erf_pcap(frames))
        body = erf_pcap(frames)[24:]
        for _ in range(300):
            file.write(body)
    return path


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    "words",
    [("lint", "{}"),
     ("lint", "--jobs", "2", "{}", "{}"), ("scrub", "{}", "--output", "copy.pcap"), ("export", "{}", "--output", "x.parquet"),
     ("sql", "{}", "select count(*) from packets")],
    ids=lambda words: f"{words[0]}{len(words)}",
)  # fmt: skip
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_ends_at_once_and_leaves_no_file(words: tuple[str, ...], number: int, long: Path, folder: Path) -> None:
    """So does SIGHUP, of which a terminal that is closed sends several."""
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "ibdissect", *(word.format(long) for word in words)]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    writes = words[0] in ("scrub", "export", "sql")
    while writes and set(folder.iterdir()) == before and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2 if writes else 1)  # `export` writes this capture in two seconds
    assert process.poll() is None, process.communicate()
    start = time.monotonic()
    for _ in range(1 if number == signal.SIGTERM else 3):
        process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode in (128 + number, -number) and b"Traceback" not in said
    assert time.monotonic() - start < 5 and set(folder.iterdir()) == before


CURTAILED: list[tuple[tuple[str, ...], bool]] = [  # words, and whether the command takes sets
    (("show", "--count"), True), (("stats",), True), (("stats", "--jobs", "1"), True), (("fabric",), True),
    (("export", "-e", "frame.number", "--output", "out.csv"), True), (("export", "--findings", "--output", "out.csv"), True),
    (("export", "--output", "out.pcap"), True), (("annotate", "--output", "out.pcapng"), False), (("scrub", "--output", "out.pcap"), False),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sets"), CURTAILED, ids=[" ".join(words) for words, _ in CURTAILED])
def test_what_was_not_read_is_status_2_after_the_output(
    words: tuple[str, ...], sets: bool, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unpacking, "most", Unpacking.most)
    frames = [smp(1, 0x10, modifier=1), *[smp(1, 0x10)] * 100]
    (folder / "long.pcap.gz").write_bytes(gzip.compress(erf_pcap(frames)))
    assert run([words[0], "long.pcap.gz", *words[1:], "--max-unpacked", "8K", "-q"]) == 2
    said = capsys.readouterr()
    assert "error: long.pcap.gz: cut-off" in said.err and "it unpacks to more than 8,192 bytes (--max-unpacked)" in said.err
    assert said.out or (folder / words[-1]).stat().st_size
    assert run([words[0], "long.pcap.gz", *words[1:], "--max-unpacked", "8M"]) == 0
    if sets:
        (folder / "part_00001_20261121120000.pcap").write_bytes(erf_pcap(frames))
        (folder / "part_00002_20261121120001.pcap").write_bytes(b"no capture")
        assert run([words[0], "--set", *sorted(map(str, folder.glob("part*"))), *words[1:]]) == 2
        assert "part_00002_20261121120001.pcap: not a capture" in capsys.readouterr().err


@pytest.mark.slow
def test_checksums_that_no_filter_compares_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "key.pcap").write_bytes(erf_pcap([smp(1, 0x15, m_key=5), smp(1, 0x15, m_key=6), smp(1, 0x15)]))
    for words, said in ((["invariant.crc & 1"], True), (["frame.number > 0"], False), (["invariant.crc > 0", "--show-keys"], False)):
        assert run(["show", "key.pcap", "--count", "-Y", *words]) == 0
        note = "note: 2 checksums of frames with keys were not compared; --show-keys compares them\n"
        assert capsys.readouterr().err == (note if said else "")
    shutil.copy(folder / "key.pcap", folder / "other.pcap")
    for jobs in "12":
        done = commands.run("stats", "key.pcap", "other.pcap", "--jobs", jobs, "-Y", "invariant.crc & 1", cwd=folder, text=True)
        assert (done.returncode, done.stderr) == (0, note.replace("2", "4", 1))
