"""The memory that `lint` and the screen's study take for a capture with millions of findings.

    python benchmarks/findings.py [--folder FOLDER] 1000000 5000000 20000000

The captures repeat a packet of captures/pkey-lab.pcap that its destination must not take (PKY001), each time with another payload: its
PSN was sent before (RC002), and its ICRC and VCRC are wrong (ROC006, ROC007). So each frame has four findings.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN, AT_ONCE = 30, 100_000
CHANGES = slice(-12, -8)
"""The bytes of a record that change: the end of the payload, in front of ICRC and VCRC."""


def write(path: Path, frames: int) -> None:
    """The first frames of the laboratory, which show the P_Key tables, and then the forbidden packet `frames` times."""
    data, at = (ROOT / "captures/pkey-lab.pcap").read_bytes(), 24
    for _ in range(FORBIDDEN):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    one = data[at : at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")]
    with path.open("wb") as out:
        out.write(data[:at])
        for first in range(0, frames, AT_ONCE):
            repeat(one, first, min(AT_ONCE, frames - first), out)


def repeat(one: bytes, first: int, count: int, out: IO[bytes]) -> None:
    """Write a record `count` times, 2 us apart."""
    rows = np.frombuffer(one * count, np.uint8).reshape(count, -1).copy()
    numbers = np.arange(first, first + count)
    start = int.from_bytes(one[:4], "little") * 1_000_000 + int.from_bytes(one[4:8], "little")
    times = np.stack(np.divmod(start + 2 * numbers, 1_000_000), axis=1)
    rows[:, :8] = times.astype("<u4").view(np.uint8).reshape(count, 8)
    rows[:, CHANGES] = numbers.astype(">u4").view(np.uint8).reshape(count, 4)
    out.write(rows.tobytes())


def studied(path: str) -> None:
    """Let the study of the screen read a capture; prints its memory."""
    from ibdissect.pipeline.check import CheckOptions
    from ibdissect.rules import load
    from ibdissect.screen_model.background_analysis import BackgroundAnalysis
    from ibdissect.screen_model.capture_model import CaptureModel

    model = CaptureModel(path)
    study = BackgroundAnalysis(model, lambda: CheckOptions(rules=load()))
    done = threading.Event()
    thread = threading.Thread(target=study.run, args=(lambda: done.set() if study.finished else None,))
    model.scan(lambda: None)
    thread.start()
    done.wait()
    kept, size = len(model.findings), model.findings._settled.nbytes
    print(f"  study: {kept:,} occurrences, {size / max(kept, 1):.1f} bytes each; {model.findings.limits or 'all are listed'}")
    print(f"  study: {memory('VmRSS')} MB, at most {memory('VmHWM')} MB", flush=True)
    study.close()
    thread.join()


def memory(what: str) -> int:
    """A line of /proc/self/status in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("findings", nargs="*", type=int, default=[1_000_000, 5_000_000])
    parser.add_argument("--folder", help="where to write the captures (18 bytes a finding)")
    parser.add_argument("--study", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.study:
        studied(given.study)
        return
    for findings in given.findings:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "findings.pcap"
            write(path, findings // 4)
            print(f"{findings:,} findings in {findings // 4:,} frames", flush=True)
            subprocess.run([sys.executable, __file__, "--study", str(path)], check=True)
            words = ["lint", "-q", "--format", "json", "--output", str(Path(folder) / "found.json"), "--fail-on", "never", str(path)]
            code = f"import resource; from ibdissect.cli import run; run({words}); print(resource.getrusage(0).ru_maxrss >> 10)"
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            print(f"  lint: at most {done.stdout.strip()} MB", flush=True)


if __name__ == "__main__":
    main()
