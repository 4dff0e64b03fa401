"""A filter tells nothing about hidden keys, so that nobody finds one out by asking."""

from __future__ import annotations

import pickle

import pytest

from ibdissect.decode import ChunkTable
from ibdissect.dfilter.compile import compile_filter
from ibdissect.errors import FilterError
from tests import craft
from tests.cases import every
from tests.decode.made import native_table

KEY = 0x1122334455667788


@pytest.fixture(scope="module")
def table() -> ChunkTable:
    """A PortInfo with an M_Key in its header and its data, one without keys, a UD packet with a Q_Key, a cut-off SMP."""
    with_key = craft.smp(0x81, 0x15, craft.build("PortInfo", lid=9, m_key=KEY), m_key=KEY)
    ud = craft.ud(b"payload", dest_qp=0x48, q_key=0xC0FFEE)
    return native_table([with_key, craft.smp(0x81, 0x15, craft.build("PortInfo", lid=10)), ud, with_key[:60]])


def rows(text: str, table: ChunkTable, *, hide: bool = True) -> list[int]:
    return compile_filter(text, hide_keys=hide).rows(table).nonzero()[0].tolist()


@every(
    "text",
    [
        "smplid.mkey > 5", "portinfo.m_key == 0x1122334455667788", "portinfo.m_key != 1", "portinfo.m_key == smplid.mkey",
        "portinfo.m_key & 1", "portinfo.m_key & 1 == 1", "portinfo.m_key in {0, 7}", "portinfo.m_key in {0..5}", "deth.q_key < 9",
        "portinfo.lid == 9 and smplid.mkey >= 0", 'string(deth.q_key) matches "^1"', "max(deth.q_key, 5) == 5", "all deth.q_key == 1",
        "abs(deth.q_key) == 3", "-deth.q_key < 0", "frame.len < deth.q_key", "deth.q_key not in {1}",
    ],
)  # fmt: skip
def test_comparisons_are_refused(text: str) -> None:
    with pytest.raises(FilterError, match="can only be tested for presence"):
        compile_filter(text, hide_keys=True)
    compile_filter(text)


@every(
    ("text", "wanted"),
    [
        ("portinfo.m_key", [0, 1]), ("portinfo.m_key == 0", [1]), ("portinfo.m_key != 0", [0]), ("deth.q_key == 0", [0, 1, 3]),
        ("deth.q_key != 0x80010000", [0, 1, 2, 3]),
        ("count(portinfo.m_key) == 1", [0, 1]), ("len(portinfo.m_key) == 8", [0, 1]), ("portinfo.m_key in {0}", [1]),
    ],
)  # fmt: skip
def test_what_may_be_asked(table: ChunkTable, text: str, wanted: list[int]) -> None:
    assert rows(text, table) == wanted == rows(text, table, hide=False)


@every(
    "text",
    [
        "frame contains 11:22:33:44:55:66:77:88", "infiniband contains 55:66", 'frame matches "\\x33\\x44"', "portinfo contains 66:77",
        "infiniband.portinfo[0:2] == 11:22", "frame contains c0:ff:ee",
        "infiniband.deth[0:4] == 00:c0:ff:ee",
    ],
)  # fmt: skip
def test_bytes_of_keys_are_zero(table: ChunkTable, text: str) -> None:
    assert rows(text, table, hide=False)
    assert not rows(text, table)


def test_other_bytes_stay(table: ChunkTable) -> None:
    assert rows('frame contains "payload"', table) == [2] and rows("portinfo contains 00:09", table) == [0]


def test_pickled_filters_hide_keys_too(table: ChunkTable) -> None:
    made = pickle.loads(pickle.dumps(compile_filter("frame contains 11:22:33:44", hide_keys=True)))
    assert not made.rows(table).any()
