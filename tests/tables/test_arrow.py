"""Columns for Arrow are made without what only other programs need."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

import ibdissect
from tests.craft import erf_pcap, native
from tests.subnet.made import answer, port_info

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
    """Columns hold what `pa.array` makes of their values: text beyond ASCII, flags, lists, nulls at the start, in between, at the end."""
    names = {
        "frame.number": "int64", "frame.time": "timestamp[ns, tz=UTC]", "frame.time_relative": "decimal128(28, 9)", "bth.a": "bool",
        "bth.opcode": "uint8", "lrh.slid": "uint16", "bth.psn": "uint32", "mad.transactionid": "uint64", "frame.interface_id": "int32",
        "nodedescription.nodestring": "list<item: string>", "portinfo.lid": "list<item: uint16>", "_ws.malformed": "string",
    }  # fmt: skip
    words = "", "x", "\u00e9", "a\u20ac"
    frames = [native(0x04, bytes(8), bth={"psn": 7, "a": 1})[:-3], *(answer(2, 0x10, word.encode().ljust(64, b"\0")) for word in words)]
    frames += [native(0x11, bytes(4), bth={"psn": 9}), answer(2, 0x15, port_info(5)), native(0x04)[:9]]
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as capture:
        table = capture.table().select(*names).to_arrow()
    table.validate(full=True)
    assert dict(zip(names, map(str, table.schema.types), strict=True)) == names
    for column in table.columns:
        assert column.combine_chunks().equals(pa.array(column.to_pylist() if "ns" not in str(column.type) else column, column.type))
    found = table.to_pydict()
    assert found["infiniband.nodedescription.nodestring"] == [None, *([word] for word in words), None, None, None]
    assert (
        found["infiniband.bth.psn"][0] == 7 and found["infiniband.bth.psn"][-1] is None and found["infiniband.bth.a"][:2] == [True, False]
    )
    assert found["infiniband.portinfo.lid"][-2] == [5] and found["infiniband.portinfo.lid"][0] is None
    assert [str(each) for each in found["frame.time_relative"][:2]] == ["0E-9", "0.001000000"]
    assert [text is None for text in found["_ws.malformed"]] == [False, *[True] * 7]
