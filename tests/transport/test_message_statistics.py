"""Messages are counted by queue pair, with rate and percentiles, in `stats` and in tables."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from tests.commands import run


def test_stats(repo: Path) -> None:
    done = run("stats", str(repo / "captures/rxe-rping.pcap"), "--format", "json")
    status, out = done.returncode, done.stdout
    first, second = json.loads(out)["messages"]
    assert status == 0 and first["kinds"] == {"SEND": 20, "WRITE": 10, "READ": 10} and first["complete"] == first["messages"] == 40
    assert first["bytes"] == 20 * 16 + 20 * 100 and (second["kinds"], second["retries"], second["naks"]) == ({"SEND": 20}, 0, 0)
    span = first["last_ns"] - first["first_ns"]
    assert first["bits_per_second"] == first["bytes"] * 8 * 10**9 // span
    exact = sorted(latencies(repo, first["destination"]))
    for share in (50, 95, 99):  # to the width of a bucket, 4.4 %
        wanted = exact[-(-share * len(exact) // 100) - 1]
        assert wanted <= first[f"p{share}_ns"] + 1 <= wanted * 1.05 + 3


def latencies(repo: Path, to: str) -> list[int]:
    """From frame times: each request of this capture is one packet, and its response the next."""
    names = [name for field in ("frame.time_epoch", "ip.dst", "infiniband.bth.opcode") for name in ("-e", field)]
    lines = run("show", str(repo / "captures/rxe-rping.pcap"), "-Y", "bth", *names).stdout.decode().splitlines()
    rows = [(int(time.replace(".", "")), end, int(opcode)) for time, end, opcode in (line.split("\t") for line in lines)]
    return [after[0] - before[0] for before, after in pairwise(rows) if before[1] == to and before[2] in (0x04, 0x0A, 0x0C)]
