"""Bad input gives a clear message and exit status 2, and never a traceback, a hang or a lost finding."""

from __future__ import annotations

import gzip
import io
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from ibdissect import Capture
from ibdissect.dissect.frame_trees import dissect_row
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.shown_value import Presenter
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from tests import commands
from tests.craft import erf_pcap, smp

pytestmark = pytest.mark.slow

WIFI = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 105) + struct.pack("<IIII", 1, 0, 4, 4) + b"abcd"
INPUTS = {
    "empty.pcap": (b"", "is empty"),
    "text.pcap": (b"No. Time Source Destination\n1 0.0 a b\n" * 40, "not a capture"),
    "wifi.pcap": (WIFI, "802.11"),
    "half-header.pcap": (struct.pack("<IHH", 0xA1B2C3D4, 2, 4), "capture"),
    "text.pcap.gz": (gzip.compress(b"hello\n" * 100), "not a capture"),
    "png.pcap": (b"\x89PNG\r\n\x1a\n" + bytes(300), "not a capture"),
}


@pytest.mark.parametrize("name", sorted(INPUTS))
@pytest.mark.parametrize("command", [("lint",), ("show",), ("show", "--format", "jsonl"), ("show", "--count")], ids=" ".join)
def test_no_capture(tmp_path: Path, name: str, command: tuple[str, ...]) -> None:
    data, word = INPUTS[name]
    path = tmp_path / name
    path.write_bytes(data)
    done = commands.run(*command, str(path), text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert str(path) in done.stderr and word in done.stderr


def test_missing_directory_and_unreadable(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.pcap", tmp_path):
        for command in ("lint", "show"):
            done = commands.run(command, str(path), text=True)
            assert done.returncode == 2 and str(path) in done.stderr and "Traceback" not in done.stderr


def test_what_was_found_before_the_damage_stays() -> None:
    data = bytearray(erf_pcap([smp(1, 0x10, modifier=1), *[smp(1, 0x10)] * 4]))
    at = 24 + 16 + 306
    data[at + 8 : at + 12] = b"\xff\xff\xff\x7f"  # the second record claims two gigabytes
    report = check(io.BytesIO(bytes(data)), CheckOptions(rules=load()))
    assert report.status == "damaged" and report.error is None
    assert {"AM001", "CAP014"} <= set(report.by_rule)


SAMPLES = ["opensm-first-sweep.pcap", "rxe-rping.pcap", "rxe-atomic-write.pcap", "pkey-lab.pcap", "rxe-nak-bad-rkey.pcap"]


@pytest.mark.parametrize("name", SAMPLES)
def test_mutations_never_raise(repo: Path, name: str, request: pytest.FixtureRequest) -> None:
    """Random mutations of each sample through reading, lint, summaries and trees."""
    original = (repo / "captures" / name).read_bytes()
    rnd = random.Random(name)
    options = CheckOptions(rules=load())
    for _ in range(40 if request.config.getoption("--thorough") else 8):
        data = bytearray(original[: min(len(original), 6000)])
        for _ in range(rnd.choice((1, 3, 10, 60))):
            at = rnd.randrange(24, len(data))
            data[at] = rnd.choice((0, 0xFF, 0x80, rnd.randrange(256), data[at] ^ 1 << rnd.randrange(8)))
        if rnd.random() < 0.3:
            del data[rnd.randrange(24, len(data)) :]
        report = check(io.BytesIO(bytes(data)), options)
        assert report.status in ("ok", "truncated", "damaged", "unreadable")
        for finding in report.findings:
            assert finding.message and finding.frame <= report.frames
        if report.status == "unreadable":
            continue
        with Capture(io.BytesIO(bytes(data))) as capture:
            for table in capture.tables():
                assert len(summaries(table, np.arange(len(table)))) == len(table)
                for row in rnd.sample(range(len(table)), min(3, len(table))):
                    tree = dissect_row(table, row, Presenter())
                    assert tree.frame == table.chunk.first + row
