"""The tables that SQL sees from Python, and the cost of a query that asks for nothing."""

from __future__ import annotations

import io

import numpy as np
import pytest

import ibdissect
from ibdissect.dfilter.names import names_of
from ibdissect.errors import FilterError
from ibdissect.wire.catalog import builtin
from tests.commands import NEEDS_DUCKDB
from tests.craft import erf_pcap, native, smp
from tests.decode.made import native_table
from tests.subnet.made import SET, answer, ask, port_info

pytestmark = NEEDS_DUCKDB
FRAMES = [native(payload=bytes(8), slid=7), smp(1, 0x11)]


@pytest.mark.slow
def test_queries_give_arrow_tables_with_types_also_without_rows() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap(FRAMES))) as opened:
        assert opened.sql("select lrh_slid from packets order by 1").to_pydict() == {"lrh_slid": [1, 7]}
        none = opened.sql("select code, frame from findings where code = 'NONE'")
        assert (none.num_rows, [str(kind) for kind in none.schema.types]) == (0, ["string", "int64"])
        with pytest.raises(FilterError, match="there is no table nothing"):
            opened.sql("from nothing")


PORT_INFO, BUSY, REFUSED = 0x15, 0x0001, 0x001C
WITH_PORTS = [
    answer(2, PORT_INFO, port_info(2)),
    answer(3, PORT_INFO, port_info(3, port_state=0), header={"status": BUSY}),
    answer(4, PORT_INFO, port_info(4), header={"status": 0x8000}),  # no SMP on a directed route: bit 15 is none of a direction
    ask(5, PORT_INFO, method=SET, body=port_info(5, port_state=0)),
    smp(0x81, PORT_INFO, port_info(6), path=[1, 2]),
    smp(0x81, PORT_INFO, port_info(7, port_state=0), path=[1, 2], header={"status": REFUSED}),
]


@pytest.mark.slow
def test_ports_are_what_answers_report_and_a_status_has_no_direction() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap(WITH_PORTS))) as opened:
        assert opened.sql("select portinfo_lid from ports").to_pydict() == {"portinfo_lid": [2, 6]}
        told = opened.sql("select mad_status, smpdirected_d from mads").to_pydict()
    assert told["mad_status"] == [0, BUSY, 0x8000, 0, 0, REFUSED] and told["smpdirected_d"] == [None] * 4 + [True, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("infiniband.bth.destqp", "bth_destqp"), ("_ws.col.info", "info"), ("_ws.malformed", "malformed"), ("frame.number", "frame_number"),
        ("a-b.infiniband.c", "a_b_infiniband_c"),
    ],
)  # fmt: skip
def test_names_in_sql(name: str, plain: str) -> None:
    from ibdissect.tables import sql

    assert sql._plain(name) == plain


@pytest.mark.slow
def test_which_columns_there_are_and_what_they_hold() -> None:
    import pyarrow as pa

    from ibdissect.tables import sql

    assert sql._there(("frame.x", "_ws.y", "a.b", "a.b.name", "c.d", "c.d.name"), {"a.b": ()}) == ["frame.x", "_ws.y", "a.b", "a.b.name"]
    names = names_of(builtin())
    assert sql._label(names, "infiniband.portinfo.portstate.name") == "PortState: what the code means"
    assert sql._label(names, "infiniband.portinfo.portstate") == "PortState"
    tree = [{"n": 1, "children": [{"n": 2}, {"n": 3, "children": [{"n": 4}]}]}, {"n": 5}]
    assert [node["n"] for node in sql._nodes(tree)] == [1, 2, 3, 4, 5]
    schema = sql._of_sql(pa.schema([("frame.time", pa.timestamp("ns", "UTC")), ("infiniband.bth.psn", pa.uint32())]))
    assert [(field.name, str(field.type)) for field in schema] == [("frame_time", "timestamp[ns]"), ("bth_psn", "uint32")]


@pytest.mark.slow
def test_which_rows_tables_have() -> None:
    from ibdissect.tables import sql

    table = native_table([native(), *WITH_PORTS, smp(0x81, 0x11)])
    assert np.flatnonzero(sql._holds("mads", table)).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert np.flatnonzero(sql._holds("ports", table)).tolist() == [1, 5]
    rows = np.arange(1, 8)
    assert sql._status(table, rows).tolist() == [0, BUSY, 0x8000, 0, 0, REFUSED, 0]
    assert sql._status(table, rows[5:6]).tolist() == [REFUSED]


@pytest.mark.slow
def test_a_batch_of_mads_has_statuses_without_direction_where_it_has_any() -> None:
    import pyarrow as pa

    from ibdissect.tables import sql

    table, rows = native_table(WITH_PORTS), np.arange(6)
    status, other = pa.array([9] * 6, pa.uint16()), pa.array(range(6), pa.int64())
    mads = pa.RecordBatch.from_arrays([other, status], ["x", "infiniband.mad.status"])
    assert sql._without_direction(mads, table, rows).to_pydict() == {
        "x": [*range(6)],
        "infiniband.mad.status": [0, BUSY, 0x8000, 0, 0, REFUSED],
    }
    alone = pa.RecordBatch.from_arrays([other], ["x"])
    assert sql._without_direction(alone, table, rows) is alone
