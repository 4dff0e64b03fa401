"""Hostile surroundings: a full disk, a closed pipe, a changed file, an absurd length or time, a user who interrupts."""

from __future__ import annotations

import gc
import gzip
import io
import lzma
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ibdissect import Capture
from ibdissect.capture.compressed import zstd_library
from ibdissect.decode.hidden.key_numbers import KeyNumbering
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dissect.shown_value import Presenter
from ibdissect.errors import CaptureError, FilterError
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.wire.catalog import builtin
from tests import commands
from tests.craft import erf_pcap, ethernet_pcap, rc, roce2, smp
from tests.decode.made import ethernet_table

pytestmark = pytest.mark.slow

COMMANDS = {
    "show": ("show", "{}", "--format", "tree"),
    "jsonl": ("show", "{}", "--format", "jsonl"),
    "lint": ("lint", "{}"),
    "stats": ("stats", "{}"),
    "rules": ("rules",),
}


FRAMES = 40_001


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of several windows."""
    frame = rc(0x04, bytes(1024), bth={"destqp": 7})
    path = tmp_path_factory.mktemp("world") / "long.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x10, modifier=9), *[frame] * (FRAMES - 1)]))
    return path


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("name", COMMANDS)
def test_full_disk_behind_standard_output(name: str, repo: Path) -> None:
    words = [word.format(repo / "captures/pkey-lab.pcap") for word in COMMANDS[name]]
    with open("/dev/full", "wb") as full:
        if name == "lint":  # an interpreter of its own also flushes at its end
            words = [sys.executable, "-m", "ibdissect", *words]
            done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, timeout=300, check=False)
        else:
            done = commands.run(*words, stdout=full)
    assert (done.returncode, done.stderr) == (2, b"error: No space left on device\n")


@pytest.mark.parametrize("words", [
    ("export", "{}", "--output", "x.pcapng"), ("export", "{}", "--output", "x.csv"), ("export", "{}", "--output", "x.parquet"),
    ("annotate", "{}", "--output", "x.pcapng"), ("scrub", "{}", "--output", "x.pcap"),
    ("lint", "{}", "--format", "sarif", "--output", "x.sarif"),
], ids=" ".join)  # fmt: skip
def test_full_disk_below_a_file(words: tuple[str, ...], repo: Path, tmp_path: Path) -> None:
    """No file or partial file is left at the end; an existing file is unchanged."""
    if "export" in words:
        pytest.importorskip("pyarrow")
    target = tmp_path / words[-1]
    target.write_bytes(b"before")
    path = str(repo / "captures/opensm-first-sweep.pcap")
    arguments = [word.format(path) for word in ("ibdissect", *words)]
    limit = (
        f"import resource, runpy, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\nsys.argv = {arguments!r}\n"
        "runpy.run_module('ibdissect', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", limit],
        capture_output=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        # Compiled code that the limit cuts off would stay and break later commands.
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        | {"PYTHONPATH": str(repo), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2 and b"cannot be written" in done.stderr and b"Traceback" not in done.stderr
    assert target.read_bytes() == b"before" or words[0] == "lint"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("name", ["show", "jsonl"])
def test_a_reader_that_has_seen_enough(name: str, long: Path) -> None:
    words = [word.format(long) for word in COMMANDS[name]]
    with subprocess.Popen([sys.executable, "-m", "ibdissect", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_an_interrupted_check_keeps_what_it_found(long: Path) -> None:
    """If interrupted after the first window, lint reports the findings so far, and that the check is incomplete."""
    report = check(str(long), CheckOptions(rules=load()), stop=lambda: True)
    assert report.status == "interrupted" and 0 < report.frames < FRAMES
    assert "AM001" in report.by_rule and all(finding.frame <= report.frames for finding in report.findings)
    whole = check(str(long), CheckOptions(rules=load()))
    assert whole.status == "ok" and whole.frames == FRAMES


def test_ctrl_c(long: Path) -> None:
    """An interrupt never gives a traceback; during the check, the findings so far are printed and marked as incomplete."""
    for wait in (0.0, 0.3, 1.0, 1.5):
        with subprocess.Popen(
            [sys.executable, "-m", "ibdissect", "lint", *[str(long)] * 3], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:  # fmt: skip
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        if process.returncode in (0, 1):
            assert b"interrupted" not in err  # the command finished first
        elif b"interrupted:" in err:
            assert process.returncode == 130 and b"AM001" in out and b"frames 1 to" in err
        elif wait:
            assert process.returncode in (130, -signal.SIGINT)


def test_a_file_that_shrinks_grows_or_goes_while_it_is_read(long: Path, tmp_path: Path) -> None:
    data = long.read_bytes()
    for change in ("shrink", "grow", "empty", "remove"):
        path = tmp_path / f"{change}.pcap"
        path.write_bytes(data)
        with Capture(str(path)) as capture:
            frames = 0
            for number, table in enumerate(capture.tables()):
                frames += len(table)
                if number:
                    continue
                if change == "remove":
                    path.unlink()
                elif change == "grow":
                    with path.open("ab") as file:
                        file.write(data[24:100_000])
                else:
                    os.truncate(path, len(data) // 2 if change == "shrink" else 0)
            assert frames > 0
            for wanted in (1, FRAMES // 2, FRAMES):
                try:
                    assert capture.dissect(wanted).frame == wanted
                except (CaptureError, IndexError):
                    assert change != "grow"


def test_links_that_lead_in_circles(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.pcap").write_bytes((repo / "captures/pkey-lab.pcap").read_bytes())
    (tmp_path / "deep/up").symlink_to("..")
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "me.pcap").symlink_to("me.pcap")
    (tmp_path / "gone.pcap").symlink_to("nowhere")
    done = commands.run("lint", str(tmp_path), "--fail-on", "never")
    assert done.returncode == 2 and b"in 1 capture checked" in done.stdout
    assert all(name in done.stderr for name in (b"me.pcap", b"gone.pcap")) and b"self" not in done.stderr


LENGTHS = (0xFFFFFFFF, 0xFFFFFFFC, 0x80000000, 0x7FFFFFFF, 262145, 0)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_beyond_reason(length: int) -> None:
    """A length beyond the end of the file is reported as damage, and nothing is allocated for it."""
    frame = smp(1, 0x10, modifier=1)
    pcap = erf_pcap([frame]) + struct.pack("<IIII", 0, 0, length, length) + bytes(64)
    block = struct.pack("<II", 6, length) + bytes(40) + struct.pack("<I", length)
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28) + struct.pack("<IIHHII", 1, 20, 197, 0, 0, 20)
    for data in (pcap, section + block, section + struct.pack("<IIIIIII", 6, 32, 0, 0, 0, length, length) + struct.pack("<I", 32)):
        report = check(io.BytesIO(data), CheckOptions(rules=load()))
        assert report.status in ("ok", "damaged", "truncated", "unreadable")
    assert check(io.BytesIO(pcap), CheckOptions(rules=load())).frames >= 1


@pytest.mark.parametrize("seconds", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("fraction", [0, 999_999_999, 0xFFFFFFFF])
def test_absurd_times(seconds: int, fraction: int, tmp_path: Path) -> None:
    frame = roce2(4, bytes(8))
    path = tmp_path / "t.pcap"
    path.write_bytes(ethernet_pcap([frame])[:24] + struct.pack("<IIII", seconds, fraction, len(frame), len(frame)) + frame)
    with Capture(str(path)) as capture:
        assert capture.dissect(1).time_ns == seconds * 10**9 + fraction
    assert check(str(path), CheckOptions(rules=load())).frames == 1


@pytest.mark.parametrize("resolution", [0, 9, 19, 63, 0x7F, 0x80, 0xBF, 0xFF])
def test_resolutions_beyond_reason(resolution: int, tmp_path: Path) -> None:
    frame = smp(1, 0x10)
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHIHHB3xHHI", 1, 32, 247, 0, 0, 9, 1, resolution, 0, 0, 32)
    body = struct.pack("<IIIII", 0, 0xFFFFFFFF, 0xFFFFFFFF, len(frame), len(frame)) + frame + bytes(-len(frame) % 4)
    path = tmp_path / "r.pcapng"
    path.write_bytes(section + interface + struct.pack("<II", 6, len(body) + 12) + body + struct.pack("<I", len(body) + 12))
    for words in (("show", "--format", "jsonl"), ("show", "--format", "tree"), ("stats",), ("lint", "--fail-on", "never")):
        done = commands.run(words[0], str(path), *words[1:])
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


PACKERS = {"gz": gzip.compress, "xz": partial(lzma.compress, preset=0), "zst": zstd_library().compress}


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux to tell a process's own peak of memory")
@pytest.mark.parametrize(("ending", "size"), [("gz", 48), ("xz", 48), ("zst", 0)])
def test_a_decompression_bomb_takes_no_memory(ending: str, size: int, tmp_path: Path) -> None:
    """64 MB of zeros (of empty records) after a valid record are read in about 60 MB more than a few frames take."""
    head, room = erf_pcap([smp(1, 0x10, modifier=1)]), 1 << 26
    record = struct.pack("<IIII", 0, 0, size, size) + bytes(size)
    path = tmp_path / f"bomb.pcap.{ending}"
    path.write_bytes(PACKERS[ending](head + record * (room // len(record))))
    limited = (
        "import sys; from ibdissect.capture.opening import open_capture\n"
        "with open_capture(sys.argv[1]) as reader:\n    frames = sum(len(chunk) for chunk in reader.chunks())\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(frames, peak.split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", limited, str(path)], capture_output=True, text=True, timeout=300, check=False)
    frames, kilobytes = map(int, done.stdout.split())
    assert frames == 1 + room // len(record) and kilobytes < 130_000


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(.*)*x", "([a-z]+)*!", "a{1,200}{1,200}", "(a?){60}a{60}", "(x+x+)+y", "(((a*)*)*)*b"]
)
def test_patterns_end(pattern: str, tmp_path: Path) -> None:
    """Patterns that would run for years in a backtracking engine are answered, or rejected before a frame is read."""
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([smp(0x81, 0x10, b"a" * 64)] * 2000 + [rc(4, b"ax" * 2000)] * 20))
    try:
        wanted = compile_filter(f'frame matches "{pattern}"', builtin())
    except FilterError as refused:
        assert str(refused).startswith("filter, column")
    else:
        with Capture(str(path)) as capture:
            assert sum(len(wanted.rows(table)) for table in capture.tables()) == 2020


@pytest.mark.slow
def test_scapys_packets_of_one_frame_are_freed_before_the_next() -> None:
    """Each of many VLAN tags is a packet with a copy of all that follow: 40 frames in 10 KB took 2 GB until Python looked for cycles."""
    from scapy.packet import Packet

    from ibdissect.cli.scapy_text import shown

    table = ethernet_table([bytes(12) + b"\x81\0" + b"\0\1\x81\0" * 100 + bytes(44)] * 20)
    gc.disable()
    try:
        presenter = Presenter(show_keys=True)  # else what is behind the third tag is hidden before Scapy sees it
        assert shown(table, 0, presenter).count("802.1Q") > 100
        most = sum(isinstance(one, Packet) for one in gc.get_objects())
        for row in range(1, 20):
            shown(table, row, presenter)
        assert sum(isinstance(one, Packet) for one in gc.get_objects()) < most + 100
    finally:
        gc.enable()


def test_temporary_files_are_private(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe is spooled to an unnamed file; a file being replaced is private until it is complete."""
    from ibdissect.export import whole_files

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Capture(io.BytesIO((repo / "captures/pkey-lab.pcap").read_bytes())) as capture:
        assert capture.dissect(3).frame == 3 and list(tmp_path.iterdir()) == []
    with whole_files.replacing(str(tmp_path / "x")) as file:
        file.write(b"1")
        (part,) = tmp_path.iterdir()
        assert stat.S_IMODE(part.stat().st_mode) & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_keys_are_distinguished_up_to_a_number() -> None:
    masker, rnd = KeyNumbering(), random.Random(1)
    most = 1 << 16
    names = [masker.name("Q_Key", rnd.getrandbits(64) | 1) for _ in range(most + 10)]
    assert names[0] == "Q_Key#1" and names[most - 1] == f"Q_Key#{most}" and set(names[most:]) == {"Q_Key#?"}
    assert masker.name("M_Key", 5) == "M_Key#1"
