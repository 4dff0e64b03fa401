"""The cost of many small captures, against one capture with the same packets, and the gain of two processes.

    python benchmarks/many.py CAPTURE.pcap [--parts 1000] [--runs 3]

Splits the records of a pcap file evenly. Prints CPU time for one capture and for its parts, and elapsed time with --jobs 1 and 2;
compare the latter only on an idle machine.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import run


def split(path: Path, folder: Path, parts: int) -> Path:
    """Write `parts` captures into `folder`/parts, and one with the same packets, whose path is returned."""
    data = path.read_bytes()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}.get(data[:4])
    if order is None:
        sys.exit(f"{path} is no uncompressed pcap file")
    records, at = [], 24
    while at + 16 <= len(data):
        length = struct.unpack_from(f"{order}I", data, at + 8)[0]
        records.append(data[at : at + 16 + length])
        at += 16 + length
    each = len(records) // parts
    if not each:
        sys.exit(f"{path} has {len(records)} packets, too few for {parts} parts")
    (folder / "parts").mkdir()
    for part in range(parts):
        (folder / "parts" / f"{part:05}.pcap").write_bytes(data[:24] + b"".join(records[part * each : (part + 1) * each]))
    whole = folder / "whole.pcap"
    whole.write_bytes(data[:24] + b"".join(records[: each * parts]))
    print(f"{path}: {parts} captures of {each} packets")
    return whole


def elapsed(command: list[str]) -> float:
    """Elapsed seconds of a command."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--parts", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        whole = split(options.capture, Path(name), options.parts)
        lint = [sys.executable, "-m", "ibdissect", "lint", "-q"]
        parts = str(Path(name) / "parts")
        one = statistics.median(run([*lint, str(whole)]).cpu for _ in range(options.runs))
        many = statistics.median(run([*lint, parts]).cpu for _ in range(options.runs))
        print(f"one capture {one:.2f} s of CPU, its parts {many:.2f} s: ratio {many / one:.2f}", flush=True)
        alone = statistics.median(elapsed([*lint, parts]) for _ in range(options.runs))
        both = statistics.median(elapsed([*lint, parts, "--jobs", "2"]) for _ in range(options.runs))
        print(f"--jobs 1 {alone:.2f} s, --jobs 2 {both:.2f} s elapsed: {alone / both:.2f} times as fast")


if __name__ == "__main__":
    main()
