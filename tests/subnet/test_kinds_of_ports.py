"""What a port may be follows from its number, its LID and the kind of its node, as long as that holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.kinds_of_ports import KindsOfPorts, is_lid, kinds_by_then, kinds_of_ports
from ibdissect.wire.port_kinds import ADAPTER_PORT, ALL_PORTS, EXTERNAL_PORT, PORT_ZERO, ROUTER_PORT
from ibdissect.wire.sm_port import PortInfo
from tests.craft import erf_pcap, sa_mad, smp, ud
from tests.decode.made import tables_of
from tests.subnet.made import ANSWER, SET, node, port_info, switch

CA, SWITCH, ROUTER = 1, 2, 3
LOW, HIGH = ADAPTER_PORT | ROUTER_PORT, ALL_PORTS & ~PORT_ZERO
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("kind", "number", "has_lid", "expected"),
    [
        (CA, 0, True, ADAPTER_PORT), (CA, 9, False, ADAPTER_PORT), (ROUTER, 1, True, ROUTER_PORT), (SWITCH, 0, True, PORT_ZERO),
        (SWITCH, 1, True, EXTERNAL_PORT), (0, 0, True, ALL_PORTS & ~EXTERNAL_PORT), (0, 4, True, LOW), (0, 5, True, HIGH),
        (0, 4, False, HIGH), (7, 4, True, LOW),
    ],
)  # fmt: skip
def test_what_a_port_may_be(kind: int, number: int, has_lid: bool, expected: int) -> None:
    """Of a node that another may have replaced: also what a port of an unknown node may be."""

    def kinds(of: int) -> int:
        return int(kinds_of_ports(np.array([of]), np.array([number]), np.array([has_lid]))[0])

    assert kinds(kind) == expected
    assert kinds(-kind) == expected | kinds(0)


def test_lids() -> None:
    assert is_lid(np.array([0, 1, 0xBFFF, 0xC000, 0xFFFF])).tolist() == [False, True, True, False, False]


@pytest.mark.parametrize("window", [1, 1 << 20])
@pytest.mark.parametrize(("path", "holds_s"), [(None, 10), ([1], 1800)])
def test_a_node_is_what_it_said_for_a_while(path: list[int] | None, holds_s: int, window: int) -> None:
    """Later another node may have that LID, or be at the end of that route; its next NodeInfo tells."""
    way = {"path": path} if path else {"slid": 5, "dlid": 1}
    bodies = (0x11, switch(5)), (0x15, port_info(5)), (0x15, port_info(5)), (0x15, port_info(5)), (0x11, switch(5)), (0x15, port_info(5))
    times = [SECOND * second for second in (1, 1, 1 + holds_s, 2 + holds_s, 2 + holds_s, 2 + holds_s)]
    frames = [smp(ANSWER, attribute, body, **way) for attribute, body in bodies]
    found = followed(FabricFollower(), erf_pcap([smp(ANSWER, 0x11, node(9), path=[9]), *frames], times=[SECOND, *times]), window)
    assert found == [CA, SWITCH if path else 0, SWITCH, SWITCH, -SWITCH, SWITCH, SWITCH], "a LID is known from the first answer on"


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_the_kinds_of_ports_that_answers_are_about(window: int) -> None:
    """From the first NodeInfo on; a Set and an answer that failed say nothing of a port."""
    shown: list[Any] = [{}, {"modifier": 1}, {"method": SET}, {"header": {"status": 0x1C}}]
    infos = [smp(one.pop("method", ANSWER), 0x15, port_info(5), path=[1], **one) for one in shown]
    kinds, found = KindsOfPorts(), list[int]()
    for table in tables_of(erf_pcap([infos[0], smp(ANSWER, 0x11, switch(5), path=[1]), *infos]), window):
        told, starts = kinds.feed(table), table.occurrences(PortInfo).at.tolist()
        assert {*told} <= {*starts}
        found += [told[start] for start in starts if start in told]
    assert found == [ALL_PORTS & ~EXTERNAL_PORT, PORT_ZERO, EXTERNAL_PORT]


def test_a_record_of_port_0_is_a_switchs() -> None:
    body = (5).to_bytes(2, "big") + b"\0\0" + port_info(5)
    (table,) = tables_of(erf_pcap([ud(sa_mad(0x81, 0x12, body))]), 1 << 20)
    assert KindsOfPorts().feed(table) == {int(table.occurrences(PortInfo).at[0]): PORT_ZERO}


def test_what_a_subnet_file_lists_holds() -> None:
    follower = FabricFollower()
    listed = follower.subnet.node(7, -1)[0]
    listed.kind = SWITCH
    follower.subnet.assign(follower.subnet.port(listed, 0, -1), 5, 0, -1)
    assert followed(follower, erf_pcap([smp(ANSWER, 0x15, port_info(5), slid=5, dlid=1)]), 1) == [SWITCH]


def followed(follower: FabricFollower, capture: bytes, window: int) -> list[int]:
    """What `kinds_by_then` says of each SMP."""
    events = (event for table in tables_of(capture, window) for event in follower.feed(table))
    return [kind for event in events if isinstance(event, ChunkFollowed) for kind in kinds_by_then(event.smps).tolist()]
