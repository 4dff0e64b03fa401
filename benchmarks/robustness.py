"""Findings that appear only after a capture's packets are dropped, cut, swapped or duplicated.

python benchmarks/robustness.py CAPTURE... [--only NAME] [--infos] [--max-size BYTES]

Lists every such finding (errors and warnings; `--infos` for all), then their number by rule and manipulation.
Captures are classic pcap files.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.robustness.compare import Orderly, new_findings
from tests.robustness.manipulations import MANIPULATIONS, interleaved_with, of_another_subnet, read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path, help="captures, or folders of them")
    parser.add_argument("--only", action="append", help="name of a manipulation; repeatable")
    parser.add_argument("--infos", action="store_true")
    parser.add_argument("--max-size", type=int, default=2_000_000, help="leave out larger captures")
    options = parser.parse_args()
    paths = [path for given in options.captures for path in (sorted(given.rglob("*.pcap")) if given.is_dir() else [given])]
    counts: Counter[tuple[str, str, str]] = Counter()
    previous = None
    for path in paths:
        if path.stat().st_size > options.max_size:
            continue
        pcap = read(path)
        orderly = Orderly(pcap.packed())
        manipulations = dict(MANIPULATIONS)
        if previous is not None and previous.link == pcap.link:
            guest = of_another_subnet(previous)
            manipulations["interleaved"] = interleaved_with(guest)
            orderly = Orderly(pcap.packed(), guest.packed())
        previous = pcap
        for name, manipulate in manipulations.items():
            if options.only and name not in options.only:
                continue
            for new in new_findings(orderly, manipulate(pcap)):
                if new.finding.severity != "info" or options.infos:
                    found = new.finding
                    print(f"{path.name}: {name}: frame {found.frame} (was {new.origin}): {found.severity} {found.code} {found.message}")
                    counts[new.finding.code, new.finding.severity, name] += new.finding.count
    print()
    for (code, severity, name), count in sorted(counts.items()):
        print(f"{code} {severity:8} {name:20} {count}")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
