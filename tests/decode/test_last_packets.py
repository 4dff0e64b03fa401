"""The latest packet of a connection is known at each frame, wherever windows end."""

from __future__ import annotations

from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.last_packets import LastPackets
from tests.cases import every
from tests.craft import erf_pcap
from tests.decode.made import tables_of
from tests.rules.made.connections import data, reply, request

STEP_NS = 1_000_000_000
FRAMES = [request(), reply(), data(900), request(local_communication_id=9, local_qpn=0x900, primary_local_port_lid=7), data(901), data(902)]


def followed(window: int, frame: int) -> list[int]:
    """Seconds from the REP to the latest packets before a frame, of each connection that was set up."""
    connections = Connections()
    followers = (connections, LastPackets(connections))
    found = []
    for table in tables_of(erf_pcap(FRAMES, step_ns=STEP_NS), window):
        for follower in followers:
            list(follower.feed(table))
        if table.chunk.first <= frame < table.chunk.first + len(table):
            found = [
                (followers[1].of(one, frame) - one.rep[1]) // STEP_NS for one in connections.all if one.rep is not None and one.rep_frame
            ]
    return found


@every("window", [1 << 20, 700, 350, 100])
def test_the_latest_packet_before_a_frame(window: int) -> None:
    assert [followed(window, frame) for frame in (3, 4, 5, 6)] == [[0], [1], [1], [3]]
