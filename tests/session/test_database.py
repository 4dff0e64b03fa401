"""Which tables does SQL see from Python, and what does a query cost that asks for nothing?"""

from __future__ import annotations

import io

import pytest

import ibdissect
from ibdissect.errors import FilterError
from tests.commands import NEEDS_DUCKDB
from tests.craft import erf_pcap, native, smp

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
