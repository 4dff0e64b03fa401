"""The cost of captures of two points: CPU seconds and peak memory of `points`, and of `lint` on the same two captures.

    python benchmarks/points.py 1000000 3000000

For each number writes two captures with so many packets (16 connections, SENDs of 64 to 512 bytes, an ACK for every fourth, one in 2500
lost and sent again after a NAK), counts what `points` finds, and measures both commands in turn. Memory must not grow with the captures.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ibdissect.capture.chunk import LINK_ETHERNET
from ibdissect.capture.writing import CaptureWriter
from tests.craft import roce2
from tests.points.world import ACK, ACKNOWLEDGE, CLIENT, NAK, SEND_ONLY, SERVER, START

QPS, EACH, SIZES, LOSS = 16, 4, (64, 128, 256, 512), 1 / 2500
TTL, PSN, SYNDROME = 22, 51, 54
"""Offsets in a frame."""
LATENCY_NS, GAP_NS, PATIENCE_NS = 1_500, 800, 50_000


def write(folder: Path, count: int) -> int:
    """Two captures, each of about `count` packets; how many were lost."""
    rng, lost, sent, time = random.Random(7), 0, 0, 0
    sends = {size: bytearray(roce2(SEND_ONLY, bytes(size), ip={"source": CLIENT, "destination": SERVER})) for size in SIZES}
    ack = bytearray(roce2(ACKNOWLEDGE, ext={"AETH": {"syndrome": ACK, "msn": 1}}, ip={"source": SERVER, "destination": CLIENT}))
    psns = [rng.randrange(1 << 24) for _ in range(QPS)]
    waiting: list[tuple[int, int, int, bytes]] = []

    def pass_by(points: tuple[int, int], at: int, frame: bytearray, queue_pair: int, psn: int, *, arrives: bool = True) -> None:
        frame[47:50], frame[PSN : PSN + 3], frame[TTL] = queue_pair.to_bytes(3, "big"), (psn & 0xFFFFFF).to_bytes(3, "big"), 64
        heapq.heappush(waiting, (at, len(waiting), points[0], bytes(frame)))
        frame[TTL] = 63
        if arrives:
            heapq.heappush(waiting, (at + LATENCY_NS + int(rng.expovariate(1 / 200)), len(waiting), points[1], bytes(frame)))

    with CaptureWriter(str(folder / "A.pcap")) as first, CaptureWriter(str(folder / "B.pcap")) as second:
        while sent < count or waiting:
            qp = rng.randrange(QPS)
            for _ in range(EACH if sent < count else 0):
                size, gone = rng.choice(SIZES), rng.random() < LOSS
                pass_by((0, 1), time, sends[size], 0x100 + qp, psns[qp], arrives=not gone)
                if gone:
                    ack[SYNDROME] = NAK
                    pass_by((1, 0), time + 4_000, ack, 0x200 + qp, psns[qp])
                    ack[SYNDROME], time = ACK, time + 20_000
                    pass_by((0, 1), time, sends[size], 0x100 + qp, psns[qp])
                psns[qp], time, sent, lost = psns[qp] + 1, time + GAP_NS, sent + 1 + 2 * gone, lost + gone
            if sent < count:
                pass_by((1, 0), time + 2_500, ack, 0x200 + qp, psns[qp] - 1)
                sent += 1
            while waiting and (waiting[0][0] < time - PATIENCE_NS or sent >= count):
                at, _, point, frame = heapq.heappop(waiting)
                own = at + 3_200_417 + int(at * 11.7e-6) if point else at
                (second if point else first).write(frame, link=LINK_ETHERNET, time_ns=START + own)
    return lost


def measured(*words: str) -> tuple[float, float, bytes]:
    """CPU seconds, peak memory in MB and the output of a command."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([sys.executable, "-m", "ibdissect", *words], stdout=out, stderr=subprocess.DEVNULL)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        out.seek(0)
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out.read()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("packets", nargs="+", type=int)
    for count in arguments.parse_args().packets:
        with tempfile.TemporaryDirectory() as folder:
            lost = write(Path(folder), count)
            paths = [f"{folder}/{name}.pcap" for name in "AB"]
            lint, lint_mb, _ = measured("lint", *paths)
            cpu, memory, said = measured("points", *paths, "--format", "json")
            found = len(json.loads(said)["lost"])
            print(
                f"2 x {count} packets: points {cpu:.2f} s, {memory:.0f} MB; lint {lint:.2f} s, {lint_mb:.0f} MB; "
                f"ratio {cpu / lint:.2f}; {found} of {lost} losses found",
                flush=True,
            )


if __name__ == "__main__":
    main()
