"""Write umad_attributes.csv from the headers of a copy of rdma-core: `python umad_attributes.py /path/to/rdma-core`. Numbers only."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

SOURCES = (
    ("libibumad/umad_sm.h", r"UMAD_SM_ATTR_(\w+)\s*=\s*(0x[0-9A-Fa-f]+)", 0x01),
    ("libibumad/umad_sa.h", r"UMAD_SA_ATTR_(\w+)\s*=\s*(0x[0-9A-Fa-f]+)", 0x03),
    ("libibumad/umad_cm.h", r"UMAD_CM_ATTR_(\w+)\s*=\s*(0x[0-9A-Fa-f]+)", 0x07),
    ("libibmad/mad.h", r"IB_GSI_(PORT_\w+|SW_PORT_\w+)\s*=\s*(0x[0-9A-Fa-f]+)", 0x04),
    ("libibmad/mad.h", r"IB_BM_ATTR_(\w+)\s*=\s*(0x[0-9A-Fa-f]+)", 0x05),
    ("libibmad/mad.h", r"IB_CC_ATTR_(\w+)\s*=\s*(0x[0-9A-Fa-f]+)", 0x21),
)
"""Header, what an attribute looks like in it, management class."""


def main(root: Path, out: Path) -> None:
    """Write a row for each attribute below the vendors' range."""
    rows = [
        (f"0x{mgmt_class:02x}", f"0x{int(number, 16):04x}", name.lower(), header)
        for header, pattern, mgmt_class in SOURCES
        for name, number in re.findall(pattern, (root / header).read_text(encoding="utf-8"))
        if int(number, 16) < 0xFF00
    ]
    with open(out, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("class", "attribute", "name", "source"), *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_suffix(".csv"))
