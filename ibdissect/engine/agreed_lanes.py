"""Lanes of queue pairs that connection management names: which two are of one connection."""

from __future__ import annotations

from typing import Any

from ibdissect.wire import cm

from . import pairing
from .connection_setups import SetUp
from .packet_kinds import PSNS


def named(lanes: Any, setup: SetUp, hosts: list[Any], side: int) -> Any:
    """The lane of a set-up from one of its ends to the queue pair that the other one named; None if there are too many."""
    ends = hosts[side], hosts[1 - side], setup.qpns[1 - side], setup.network
    lane = lanes.made(lanes.key_of(*ends), *ends)
    if lane is not None:
        lane.setup, lane.side = setup, side
    return lane


def expect(lanes: Any, setup: SetUp, message: int) -> None:
    """Connection management names queue pairs: their lanes are of this connection."""
    hosts = [lanes.hosts[*end, setup.network] for end in setup.ends]
    if message == cm.REP_ID and setup.rep is not None and setup.rep[0] == setup.last_frame and setup.qpns[1] is not None:
        to_other = named(lanes, setup, hosts, 0)
        if to_other is None:
            return
        if setup.qpns[0] is not None:
            to_asker = named(lanes, setup, hosts, 1)
            if to_asker is not None:
                lanes.pair(to_other, to_asker)
        elif setup.psns[1] is not None:
            for more in range(pairing.STARTS):
                lanes.pairing.remember(to_other, setup.psns[1] + more & PSNS - 1)
    elif message == cm.REQ_ID and setup.tries == 1 and setup.qpns[0] is not None:
        key = lanes.key_of(hosts[1], hosts[0], setup.qpns[0], setup.network)
        if key not in lanes.lanes:
            lanes.expected[key] = setup, 1
            if len(lanes.expected) > pairing.MAX_PSNS:
                lanes.expected.pop(next(iter(lanes.expected)))
    elif message == cm.DREQ_ID:
        for side in (0, 1):
            qpn = setup.qpns[1 - side]
            lane = lanes.lanes.get(lanes.key_of(hosts[side], hosts[1 - side], qpn, setup.network)) if qpn is not None else None
            if lane is not None and lane.setup is None and setup.rep is None:
                lane.setup, lane.side = setup, side
                if not setup.reqs and setup.rej is None:
                    lanes.setups.keep(setup, setup.first_frame or setup.last_frame, setup.last_time)
                if lane.peer is not None and lane.peer.setup is None:
                    lane.peer.setup, lane.peer.side = setup, 1 - side
