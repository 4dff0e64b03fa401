"""A flow is remembered across chunks, and told from others."""

from __future__ import annotations

import pytest

from ibdissect.decode.native_packets import Native
from ibdissect.subnet.recent_flows import RecentFlows
from tests import craft
from tests.decode.made import tables_of
from tests.rules.PKY.cases import send


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_flows(window: int) -> None:
    one = send(0x8001)
    frames = [one, send(0x8001, psn=9), send(0x8002), send(0x8001, qp=0x13), send(0x8001, slid=4), send(0x8001, dlid=6), one]
    recent = RecentFlows()
    for table in tables_of(craft.erf_pcap(frames), window):
        recent.take(table.chunk.first, table.once(Native))
    assert recent.frames.tolist() == [1, 2, 3, 4, 5, 6, 7]
    first = recent.flows[0]
    assert (recent.flows == first).tolist() == [True, True, False, False, False, False, True]
    assert len(set(recent.flows.tolist())) == 5
