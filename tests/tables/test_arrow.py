"""Columns for Arrow are made without what only other programs need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

NO_PANDAS = """
import sys

class Watch:
    def find_spec(self, name, path, target=None):
        assert name != "pandas", "asked for"

sys.meta_path.insert(0, Watch())
import ibdissect
with ibdissect.open(sys.argv[1]) as capture:
    print(capture.table().to_arrow().num_rows)
"""


@pytest.mark.slow
def test_pandas_is_not_imported(repo: Path) -> None:
    """Text, numbers, times, flags and lists of the default columns: `pa.array` would import pandas for any of them."""
    capture = str(repo / "captures" / "pkey-lab.pcap")
    done = subprocess.run([sys.executable, "-c", NO_PANDAS, capture], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("37\n", "")


def test_nulls_of_every_type() -> None:
    """Arrays from bytes hold what `pa.array` would: text beyond ASCII, flags, lists that are null or hold nulls."""
    from ibdissect.tables.arrow import TYPES, _array
    from ibdissect.tables.rows import Cells

    null = np.array([False, True, False, False, True])
    for kind in TYPES:
        values = np.array(["", "x", "\u00e9", "a\u20ac", "b"], object) if kind == "text" else np.arange(5)
        values = values.astype({"text": object, "time": np.int64, "seconds": np.int64}.get(kind, kind))
        there = [None if gone else one for gone, one in zip(null.tolist(), values.tolist(), strict=True)]
        plain = pa.array(there, pa.int64() if kind in ("time", "seconds") else TYPES[kind])
        flat = _array(Cells(values, null), kind)
        flat.validate(full=True)
        if kind == "seconds":
            assert [None if one is None else int(one.scaleb(9)) for one in flat.to_pylist()] == there
            continue
        assert flat.equals(plain.cast(TYPES[kind]))
        lists = _array(Cells(values, null, np.array([2, 0, 3])), kind)
        lists.validate(full=True)
        assert lists.value_lengths().to_pylist() == [2, None, 3]
        assert lists.flatten().equals(flat)
