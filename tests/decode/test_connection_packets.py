"""One pass over packets serves several followers, each window once, and costs nothing without transport headers."""

from __future__ import annotations

import numpy as np

from ibdissect.decode.connection_packets import LaneFollower, columns
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.rule import Context
from ibdissect.transport.psn_streams import Streams
from tests import craft
from tests.decode.made import ethernet_table, tables_of
from tests.diagnosis.lab import Lab


def test_followers_share_the_pass() -> None:
    context, lab = Context(), Lab()
    lab.ask(0, 100)
    lab.answer(1000, 100)
    streams, stories = context.get(Streams), context.get(Stories)
    for table in tables_of(lab.pcap()):
        list(streams.feed(table))
        stories.feed(table)
        context.get(LaneFollower).feed(table)
    assert [stream.packets for stream in streams.all] == [1, 1]
    assert stories.follower is not None and stories.follower.lanes is context.get(LaneFollower).lanes
    assert sum(lane.packets for lane in stories.follower.lanes.lanes.values()) == 2


def test_the_order_of_packets_is_followed_only_for_those_who_ask() -> None:
    lab, alone = Lab(), LaneFollower()
    lab.ask(0, 100)
    for table in tables_of(lab.pcap()):
        alone.feed(table)
    assert alone.lanes is not None and alone.lanes.told is None
    (lane,) = alone.lanes.lanes.values()
    assert lane.stream is None


def test_a_window_without_transport_headers_starts_nothing() -> None:
    follower = LaneFollower()
    follower.feed(ethernet_table([bytes(60)]))
    follower.finish()
    assert follower.lanes is None


def test_sizes_of_cut_packets_are_those_on_the_wire() -> None:
    whole = craft.rc(0x04, bytes(100), bth={"psn": 1})
    (table,) = tables_of(craft.erf_pcap([whole, whole[:60]]))
    found = columns(table, np.zeros(2, np.uint8))
    assert found["complete"].tolist() == [1, 0] and found["sizes"][1] in (-1, 100)
