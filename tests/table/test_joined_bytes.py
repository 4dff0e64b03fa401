"""Is every field of a message in several packets found once: in the first packet if it is there, else in the frame that completed it?"""

from __future__ import annotations

import io

from ibdissect.session.capture import Capture
from ibdissect.wire.ulp import rpcrdma
from tests.acme import connection
from tests.craft import erf_pcap
from tests.flow.test_whole_messages import NFS, PACKET, SEGMENTS, packets


def test_each_entry_of_a_list_is_found_once() -> None:
    with Capture(io.BytesIO(erf_pcap([*connection(rpcrdma.SERVICE), *packets(NFS)]))) as opened:
        (table,) = opened.tables()
        column = table.shown.column(rpcrdma.RPCRDMASegment.offset_)
        assert sorted(column.values.tolist()) == list(range(SEGMENTS))
        first = (PACKET - 28) // 16
        assert column.rows.tolist() == [2] * first + [len(table) - 1] * (SEGMENTS - first)
        assert table.shown.column(rpcrdma.RPCRDMA.xid).rows.tolist() == [2]
        assert table.shown.column(rpcrdma.RPCCall.program).rows.tolist() == [len(table) - 1]
        assert len(table.column(rpcrdma.RPCRDMASegment.offset_).rows) == first, "nothing is learnt of the whole"
