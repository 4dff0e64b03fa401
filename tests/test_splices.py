"""Several conversations in one capture are judged alike, however it is read. Proofs of rules follow each other, in rising time."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capture.built import Pipe
from tests.commands import run
from tests.test_windows import CASES, HEADER, PCAP, findings, zstd

SECOND = 10**9
GAPS = (10**6, SECOND, 20 * SECOND)
"""Nanoseconds between two proofs."""
START = 1_700_000_000 * SECOND
QUICK = (5, 18, 35, 36, 54, 58, 60, 82, 96, 100)
"""Some that were judged otherwise in windows once."""
WINDOWS = (64, 4096, 50_000)


def records(capture: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Time in ns, bytes and original length of the ERF records of a pcap file."""
    at = HEADER
    while at < len(capture):
        _, _, size, length = struct.unpack_from("<4I", capture, at)
        data = capture[at + 16 : at + 16 + size]
        stamp = int.from_bytes(data[:8], "little")
        yield (stamp >> 32) * SECOND + ((stamp & 0xFFFFFFFF) * SECOND >> 32), data, length
        at += 16 + size


def whole(capture: bytes) -> bool:
    """Whether it is a short pcap file with ERF records that all have their header."""
    if capture[:HEADER] != HEAD or len(capture) > 12_000:
        return False
    try:
        return bool(list(records(capture)))
    except struct.error:
        return False


HEAD = Counter(case.bad[:HEADER] for cases in CASES.values() for case in cases if case.bad[:4] == PCAP).most_common(1)[0][0]
PROOFS = [case.bad for cases in CASES.values() for case in cases if whole(case.bad)]


def splice(seed: int) -> bytes:
    """Eight proofs by chance, one behind the other."""
    chance = random.Random(seed)
    gap, now, out = chance.choice(GAPS), START, [HEAD]
    for proof in chance.sample(PROOFS, 8):
        packets = list(records(proof))
        base, last = packets[0][0], now
        for time_ns, data, length in packets:
            last = now + time_ns - base
            seconds, rest = divmod(last, SECOND)
            stamp = (seconds << 32 | (rest << 32) // SECOND).to_bytes(8, "little")
            out.append(struct.pack("<4I", seconds, rest // 1000, len(data), length) + stamp + data[8:])
        now = last + gap
    return b"".join(out)


def read(data: bytes, window: int | None = None) -> list[Any]:
    found = findings(io.BytesIO(data), window=window) if window else findings(io.BytesIO(data))
    return list(json.loads(found)["findings"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.thorough] * (seed not in QUICK)) for seed in range(400)])
def test_windows_and_pipes(seed: int) -> None:
    data = splice(seed)
    usual = read(data)
    for window in WINDOWS:
        assert read(data, window) == usual, f"windows of {window} bytes"
    if not any(finding["code"] == "CAP017" for finding in usual):  # a pipe cannot be read again to tell two subnets apart
        assert json.loads(findings(Pipe(data)))["findings"] == usual, "pipe"


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(3), *(pytest.param(range(n, n + 20), marks=pytest.mark.thorough) for n in range(3, 123, 20))])
def test_processes_and_compression(seeds: range, tmp_path: Path) -> None:
    pack: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd}
    for ending, packed in pack.items():
        for seed in seeds:
            (tmp_path / f"{seed}.pcap{ending}").write_bytes(packed(splice(seed)))

    def lint(ending: str, *more: str) -> list[Any]:
        words = ("lint", "--format", "json", *(f"{seed}.pcap{ending}" for seed in seeds), *more)
        if more:
            return findings_of(run(*words, cwd=tmp_path).stdout)
        environment = os.environ | {"PYTHONHASHSEED": "7"}
        command = [sys.executable, "-m", "ibdissect", *words]
        said = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, check=False)
        return findings_of(said.stdout)

    def findings_of(said: bytes) -> list[Any]:
        return [finding | {"capture": finding["capture"].split(".")[0]} for finding in json.loads(said)["findings"]]

    usual = lint("", "--jobs", "1")
    assert len({finding["capture"] for finding in usual}) == len(seeds)
    assert lint("", "--jobs", "2") == usual
    assert lint(".gz", "--jobs", "1") == usual
    assert lint(".zst", "--jobs", "2") == usual
    assert lint("") == usual, "another PYTHONHASHSEED"
