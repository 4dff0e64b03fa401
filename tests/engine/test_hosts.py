"""A lane knows who sends to which queue pair."""

from __future__ import annotations

from ibdissect.engine.hosts import Host, Lane


def test_a_new_lane_has_sent_nothing() -> None:
    src, dst = Host(0, 1, 0, 0), Host(0, 2, 0, 1)
    lane = Lane(9, src, dst, 0x123456, 3, 1)
    assert (lane.src, lane.dst, lane.qpn, lane.network, lane.packets, lane.peer) == (src, dst, 0x123456, 3, 0, None)
    assert lane.begun == lane.front == lane.service == -1 and not lane.over and not lane.long_reads
