"""Queue pairs that belong together, and for how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.native_packets import Native
from tests.craft import erf_pcap
from tests.decode.made import native_table, tables_of
from tests.rules.made.connections import LEAVE, READY, data, reply, request

ACTIVE, PASSIVE = (1, 0x100), (2, 0x200)


def taken(frames: Sequence[bytes]) -> Connections:
    """The connections of a capture."""
    pairs = Connections()
    for table in tables_of(erf_pcap(frames)):
        deque(pairs.feed(table), 0)
    return pairs


def test_a_connection_lasts_from_rep_to_dreq() -> None:
    pairs = taken([request(partition_key=0x8001), reply(), READY, LEAVE])
    pair = pairs.at(ACTIVE, 3)
    assert pair is not None and pair is pairs.at(PASSIVE, 3)
    assert (pair.p_key, pair.service) == (0x8001, "RC")
    assert pair.far(ACTIVE) == PASSIVE and pair.far(PASSIVE) == ACTIVE
    assert pairs.at(ACTIVE, 2) is None and pairs.at(ACTIVE, 4) is None


def test_the_next_connection_ends_the_one_before() -> None:
    later = [request(local_communication_id=0x1003, local_qpn=0x101), reply(remote_communication_id=0x1003, local_communication_id=0x2004)]
    pairs = taken([request(), reply(), *later])
    first, second = pairs.at(PASSIVE, 3), pairs.at(PASSIVE, 5)
    assert first is None and second is not None and (second.active_lid, second.active_qpn) == (1, 0x101)


def test_nothing_without_rep_or_beyond_the_subnet() -> None:
    assert not taken([request()]).by_queue_pair
    assert not taken([reply()]).by_queue_pair
    assert not taken([request(primary_subnet_local=0), reply()]).by_queue_pair
    assert not taken([request(primary_local_port_lid=0xFFFF), reply()]).by_queue_pair


def test_a_repeated_rep_changes_nothing() -> None:
    pairs = taken([request(), reply(), reply()])
    pair = pairs.at(PASSIVE, 4)
    assert pair is not None and pair.rep_frame == 2 and len(pairs.by_queue_pair[PASSIVE]) == 1


def test_candidates_miss_none() -> None:
    frames = [request(), reply(), READY, data(900), data(901)]
    pairs = Connections()
    table = native_table(frames)
    deque(pairs.feed(table), 0)
    native = Native(table)
    index = pairs.candidates(native)
    assert set(np.flatnonzero(native.dest_qp == 0x200).tolist()) <= set(index.tolist())
