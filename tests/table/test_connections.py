"""Are the connections of a capture followed from REQ to DREP?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.flow.recovery import distance
from ibdissect.flow.streams import Streams
from ibdissect.table.connections import Connections
from tests.table.made import tables_of


def followed(path: Path) -> tuple[Connections, Streams]:
    connections, streams = Connections(), Streams()
    for table in tables_of(str(path)):
        for source in (connections, streams):
            for _ in source.feed(table):
                pass
    return connections, streams


@pytest.mark.parametrize(
    ("name", "count", "torn_down"), [("cm_cmtime", 40, 40), ("cm_rping_persistent", 3, 3), ("cm_mra", 1, 1), ("vlan_send_rdmacm", 2, 2)]
)
def test_connections_of_a_capture(shared: Path, name: str, count: int, torn_down: int) -> None:
    connections, _ = followed(shared / f"captures/rxe/{name}.pcap")
    assert len(connections.all) == count
    assert all(c.rep_frame and c.rtu_frame and c.passive_qpn > 1 for c in connections.all)
    assert sum(c.dreq_frame > 0 and c.drep_frame > 0 for c in connections.all) == torn_down


def test_each_side_begins_with_what_its_peer_announced(shared: Path) -> None:
    connections, streams = followed(shared / "captures/rxe/cm_rping_v4.pcap")
    (c,) = connections.all
    (there,) = streams.requests("RC", c.active, c.passive, c.passive_qpn)
    (back,) = streams.requests("RC", c.passive, c.active, c.active_qpn)
    assert distance(int(streams.state["first_psn"][there]), c.passive_psn) == 0
    assert distance(int(streams.state["first_psn"][back]), c.active_psn) == 0


def test_a_slow_answer_and_a_refusal(shared: Path) -> None:
    (slow,) = followed(shared / "captures/rxe/cm_mra.pcap")[0].all
    assert slow.reqs == 2 and slow.mra_frame == 3 and slow.rep_frame == 4
    (refused,) = followed(shared / "captures/rxe/cm_reject_no_listener.pcap")[0].all
    assert refused.rej_reason == 8 and not refused.rep_frame
