"""Which tables does SQL see from Python, and what does a query cost that asks for nothing?"""

from __future__ import annotations

import io

import pytest

import ibdissect
from ibdissect.errors import FilterError
from tests.commands import NEEDS_DUCKDB
from tests.craft import erf_pcap, native, smp
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
