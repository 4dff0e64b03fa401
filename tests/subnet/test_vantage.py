"""Does a capture show the manager that may change a node, and does that end with a handover?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.subnet import FabricFollower, Node
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.vantage import MAX_ASTRAY, Vantage
from ibdissect.wire.numbers import P_KEY_TABLE, PORT_INFO
from ibdissect.wire.sm import SMInfo
from tests import craft
from tests.craft import build, smp
from tests.decode.made import tables_of
from tests.subnet.made import ANSWER, GET, SET, answer, ask, node, p_keys, port_info


def seen(frames: Sequence[bytes], window: int = 1 << 20) -> tuple[Vantage, Node]:
    """What the capture shows, and node 5."""
    follower = FabricFollower()
    vantage = Vantage(follower)
    for table in tables_of(craft.erf_pcap(frames), window):
        for event in follower.feed(table):
            if isinstance(event, ChunkFollowed):
                event.once(vantage.take)
    found = follower.subnet.by_lid(5)
    assert found is not None
    return vantage, found.node


NODE = [answer(5, 0x11, node(5))]
WRITE = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF))
TOOL = ask(5, PORT_INFO, method=SET, body=port_info(5))
BY_ROUTE = [smp(ANSWER, 0x11, node(5), path=[1]), smp(SET, PORT_INFO, port_info(5), path=[1])]
HANDOVER = ask(9, 0x20, method=SET, modifier=1, body=build(SMInfo, guid=1, sm_state=3))


@pytest.mark.parametrize("window", [1, 1 << 20])
@pytest.mark.parametrize(("frames", "managed"), [([], False), ([WRITE], True), ([TOOL], False), (BY_ROUTE, True)])
def test_a_manager_writes_what_tools_do_not(frames: list[bytes], managed: bool, window: int) -> None:
    vantage, five = seen([*NODE, *frames], window)
    assert vantage.manages([five], 99) is managed
    assert vantage.manages(None, 99) is managed
    assert not vantage.manages([], 99), "nobody knows whose facts these are"


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_a_handover_ends_it(window: int) -> None:
    vantage, five = seen([*NODE, WRITE, HANDOVER, *NODE], window)
    assert vantage.manages([five], 2) and not vantage.manages([five], 3)
    assert vantage.handed_over(1, 4, [five]) and not vantage.handed_over(3, 4, [five])
    vantage, five = seen([*NODE, WRITE, HANDOVER, WRITE], window)
    assert not vantage.handed_over(1, 5, [five]), "the new manager writes where the capture sees it"


def test_another_master_is_a_handover() -> None:
    told = (9, 1, 3), (8, 2, 2), (8, 2, 3), (8, 2, 3)
    masters = [answer(at, 0x20, build(SMInfo, guid=guid, sm_state=state)) for at, guid, state in told]
    vantage, _ = seen([*NODE, *masters])
    assert vantage.handovers == [4]


def test_a_set_along_an_unknown_route() -> None:
    """It may have written any node that its sender reaches by no other route."""
    lost = smp(SET, P_KEY_TABLE, p_keys(1), path=[1, 9])
    vantage, five = seen([*NODE, lost, *NODE])
    assert vantage.astray(P_KEY_TABLE, 1, 3, [five]) and vantage.astray(P_KEY_TABLE, 1, 3, None)
    assert not vantage.astray(P_KEY_TABLE, 2, 3, [five]) and not vantage.astray(P_KEY_TABLE, 1, 2, [five])
    assert not vantage.astray(PORT_INFO, 1, 3, [five])
    vantage, five = seen([*BY_ROUTE[:1], *NODE, lost, *NODE])
    assert not vantage.astray(P_KEY_TABLE, 1, 4, [five])


def test_a_bound_that_is_reached_makes_facts_unknown() -> None:
    lost = [smp(SET, P_KEY_TABLE, p_keys(1), path=[1, 9])] * (MAX_ASTRAY + 1)
    vantage, five = seen([*NODE, *lost, *NODE])
    assert vantage.dropped.count == 1
    assert vantage.astray(PORT_INFO, 1, MAX_ASTRAY + 3, [five]) and not vantage.astray(PORT_INFO, 1, MAX_ASTRAY + 2, [five])


def test_two_hosts_with_one_number() -> None:
    """The route without hops led to two nodes: what either asks or is answered may be the other's."""
    here, there = (smp(ANSWER, 0x11, node(lid), path=[]) for lid in (1, 2))
    answered = smp(ANSWER, P_KEY_TABLE, p_keys(1), path=[3])
    write = smp(SET, P_KEY_TABLE, p_keys(1), path=[3])
    known = smp(ANSWER, 0x11, node(5), path=[3])
    vantage, five = seen([known, answer(5, 0x11, node(5)), here, answered, write, there, answered, write, here])
    assert vantage.ambiguous == {6, 7, 9}
    assert not vantage.astray(P_KEY_TABLE, 4, 6, [five]) and vantage.astray(P_KEY_TABLE, 6, 9, [five])


@pytest.mark.parametrize(
    ("method", "modifier", "moved"),
    [(SET, 1, True), (SET, 2, True), (SET, 0, False), (SET, 3, False), (SET, 4, False), (GET, 1, False), (GET, 2, False)],
)
def test_only_a_handover_and_its_acknowledgement_move_the_master(method: int, modifier: int, moved: bool) -> None:
    vantage, _ = seen([*NODE, ask(9, 0x20, method=method, modifier=modifier, body=build(SMInfo, guid=1, sm_state=3))])
    assert vantage.handovers == ([2] if moved else [])


@pytest.mark.parametrize("lids", [[5], [6], [7], [5, 7], [5, 6, 7]])
@pytest.mark.parametrize("handovers", [0, 1, 2])
def test_each_node_that_is_written_is_managed(lids: list[int], handovers: int) -> None:
    """By the manager of that time, and no other node."""
    frames = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)] + [HANDOVER] * handovers
    vantage, _ = seen([*frames, *(ask(lid, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF)) for lid in lids)])
    nodes = {lid: port.node for lid in (5, 6, 7) if (port := vantage.follower.subnet.by_lid(lid)) is not None}
    assert [lid for lid, one in nodes.items() if vantage.manages([one], 99)] == lids and vantage.manages([nodes[lid] for lid in lids], 99)
    assert not handovers or not vantage.manages([nodes[lids[0]]], 3)
