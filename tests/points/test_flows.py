"""A flow is known by its ends, and by the port behind several LIDs."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.points.flows import PointFlow, PointFlows, routed, unchanged_ends
from tests.craft import rc, ud
from tests.decode.made import native_table
from tests.rules.made.conversations import gid_of


def lid(number: int) -> bytes:
    return number.to_bytes(2, "big")


def test_paths_to_one_port_are_one_flow() -> None:
    """LMC 1: the port with LID 4 also answers to 5; LID 7 belongs to nobody that sends."""
    flows = PointFlows()
    ends = [(8, 4, 5), (8, 5, 5), (4, 8, 5), (8, 7, 5), (8, 5, 6)]
    flows.known = [PointFlow(lid(source), lid(to), queue_pair) for source, to, queue_pair in ends]
    assert flows.merged().tolist() == [0, 0, 2, 0, 4]
    to_port, to_lid = (flows.ends(by_lid=by_lid)[:, 1].tolist() for by_lid in (False, True))
    assert to_port[0] == to_port[1] and to_lid[0] != to_lid[1]
    flows.known.append(PointFlow(lid(6), lid(8), 5))
    assert flows.merged().tolist()[:5] == [0, 0, 2, 3, 4]


@pytest.mark.parametrize("connected", [True, False])
def test_connections_to_hosts_behind_a_router_are_flows_of_their_own(connected: bool) -> None:
    """Equal numbers of queue pairs, and the router's LID. A datagram service may send from several GIDs."""
    to = [{"sgid": gid_of(1), "dgid": gid_of(host)} for host in (70, 71, 70)]
    frames = [rc(0x04, bytes(8), grh=grh) if connected else ud(bytes(8), dest_qp=0x12, grh=grh) for grh in to]
    flows, table, rows = PointFlows(), native_table(frames), np.arange(3)
    far = routed(table, rows)
    found = flows.of(table, rows, np.full(3, 0x12), np.zeros(3, np.uint64), far, unchanged_ends(table, rows, far))
    one, other, again = flows.merged()[found].tolist()
    assert one == again and (one != other) is connected
    assert len(set(map(tuple, flows.ends().tolist()))) == 1, "packets of a port in the other direction may have no GRH"
