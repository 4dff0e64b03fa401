"""The cost of `export` of 12 fields, against `tshark -T fields` with the same ones.

python benchmarks/export.py CAPTURE... [--runs N] [--record]
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from measure import add_record_option, compare, record

FIELDS = (
    "frame.number", "frame.time_epoch", "frame.len", "infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.lrh.vl", "infiniband.lrh.sl",
    "infiniband.bth.opcode", "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.a",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--runs", type=int, default=3)
    add_record_option(parser)
    options = parser.parse_args()
    names = [word for field in FIELDS for word in ("-e", field)]
    with tempfile.TemporaryDirectory() as folder:
        for path in options.captures:
            tshark = ["tshark", "-n", "-r", path, "-T", "fields", *names]
            for ending in ("csv", "parquet"):
                command = [sys.executable, "-m", "ibdissect", "export", path, "--output", f"{folder}/x.{ending}", "-q", *names]
                found = compare(command, tshark, options.runs)
                print(f"{path}: export to {ending}: {found}", flush=True)
                if options.record:
                    record(f"export --output {ending}", path, found)


if __name__ == "__main__":
    main()
