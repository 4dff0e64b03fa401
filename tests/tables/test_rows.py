"""Do cells hold what frames hold: types, nulls, lists?"""

from __future__ import annotations

import io

import numpy as np

import ibdissect
from ibdissect.dfilter.names import names_of
from ibdissect.dissect import named_values
from ibdissect.tables.rows import Rows, named_columns, texts
from ibdissect.wire.catalog import builtin
from tests.craft import erf_pcap, ethernet_pcap, native, ud
from tests.dissect.frames import all_frames, ethernet_frames


def lines(data: bytes, *names: str, show_keys: bool = False) -> tuple[list[list[str]], int]:
    with ibdissect.open(io.BytesIO(data), show_keys=show_keys) as capture:
        columns = named_columns(capture.catalog, names)
        made = Rows(columns, capture.state(names))
        (table,) = capture.tables()
        cells = made.cells(table, np.arange(len(table)))
        return [texts(each, column) for each, column in zip(cells, columns, strict=True)], made.masked


def test_absent_and_masked_values_are_empty() -> None:
    data = erf_pcap([ud(b"x", q_key=0xC0FFEE), native(0x04, b"y")])
    assert lines(data, "frame.number", "deth.q_key", "deth.srcqp") == ([["1", "2"], ["", ""], ["1", ""]], 1)
    assert lines(data, "deth.q_key", show_keys=True) == ([[str(0xC0FFEE), ""]], 0)


def test_several_values_of_a_frame_are_a_list() -> None:
    data = ethernet_pcap(ethernet_frames())
    ports, masked = lines(data, "udp.port", "frame.time", "tcp.port")
    assert ports[0][0] == "49152,4791" and ports[1][0].endswith("Z") and set(ports[2]) == {""} and not masked


def test_only_what_may_repeat_is_a_list() -> None:
    columns = {column.name: column for column in named_columns(builtin(), names_of(builtin()).every())}
    for name in ("infiniband.bth.psn", "infiniband.mad.method", "infiniband.sa.componentmask", "infiniband.cm.req.alt_hoplim"):
        assert not columns[name].repeats, name
    assert columns["infiniband.portinfo.lid"].repeats and columns["infiniband.p_keytable.p_key"].repeats  # records of the SA; a table
    for data in (erf_pcap(all_frames()), ethernet_pcap(ethernet_frames())):
        with ibdissect.open(io.BytesIO(data)) as capture:
            for table in capture.tables():
                for column in columns.values():
                    rows = [row for run in named_values.runs(table, column.fields) for row in run.rows.tolist()]
                    assert column.repeats or len(rows) == len(set(rows)), column.name


def test_seconds_as_text() -> None:
    """Seconds are made for all at once; the texts are those of single numbers."""
    for times in ([0, 1, 999_999_999, 1_000_000_000, 1_700_000_000_123_456_789], [-1, 5, -1_000_000_001], []):
        assert named_values.seconds_texts(np.array(times, np.int64)) == list(map(named_values.seconds_text, times))
