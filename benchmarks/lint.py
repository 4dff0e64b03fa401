"""The cost of `lint`, against tshark's full dissection of the same file.

python benchmarks/lint.py CAPTURE... [--runs N] [--record]
"""

from __future__ import annotations

import argparse
import sys

from measure import add_record_option, compare, record

WAYS = {"--no-crc": ["--no-crc"], "every ICRC": ["--ignore", "ROC007"], "every ICRC and VCRC": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    add_record_option(parser)
    options = parser.parse_args()
    for path in options.captures:
        tshark = ["tshark", "-n", "-r", path, "-q", "-z", "io,phs"]
        for name, extra in WAYS.items():
            command = [sys.executable, "-m", "ibdissect", "lint", "-q", *extra, path]
            found = compare(command, tshark, options.runs)
            print(f"{path}: lint {name}: {found}", flush=True)
            if options.record:
                record(" ".join(["lint", *extra]), path, found)


if __name__ == "__main__":
    main()
