"""A capture cut into two files gives the findings of the whole when both are read with --set.

    python benchmarks/sets.py CAPTURE.pcap [--cuts 20]

Cuts in front of every frame, or with --cuts at that many places spread evenly. Stops at the first difference but for the names of frames.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.cli.test_sets import compare, records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--cuts", type=int)
    options = parser.parse_args()
    frames = sum(1 for _ in records(options.capture.read_bytes()))
    cuts = options.cuts or frames - 1
    start = time.perf_counter()
    for number in range(1, cuts + 1):
        with tempfile.TemporaryDirectory() as folder:
            compare(options.capture, [[number * frames // (cuts + 1)]], Path(folder))
    print(f"{options.capture}: {frames} frames, cut at {cuts} places, {time.perf_counter() - start:.0f} s: the findings of the whole")


if __name__ == "__main__":
    main()
