"""A capture shows the manager that may change a node, and that ends with a handover."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.nodes import Node
from ibdissect.subnet.visible_managers import Vantage
from ibdissect.wire.sm import SMInfo
from tests import craft
from tests.cases import every
from tests.craft import build, smp
from tests.decode.made import tables_of
from tests.standard import P_KEY_TABLE, PORT_INFO
from tests.subnet.made import ANSWER, GET, SET, answer, ask, node, p_keys, port_info, switch


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
REGISTER, LED = (ask(5, attribute, method=SET) for attribute in (0xFF52, 0x31))
REGISTER_BY_ROUTE = [smp(ANSWER, 0x11, node(5), path=[1]), smp(SET, 0xFF52, path=[1])]
HANDOVER = ask(9, 0x20, method=SET, modifier=1, body=build(SMInfo, guid=1, sm_state=3))


@every("window", [1, 1 << 20])
@every(
    ("frames", "managed"),
    [([], False), ([WRITE], True), ([TOOL], False), (BY_ROUTE, True), ([REGISTER], False), ([LED], False), (REGISTER_BY_ROUTE, False)],
)
def test_a_manager_writes_what_tools_do_not(frames: list[bytes], managed: bool, window: int) -> None:
    vantage, five = seen([*NODE, *frames], window)
    assert vantage.manages([five], 99) is managed
    assert vantage.manages(None, 99) is managed
    assert not vantage.manages([], 99), "nobody knows whose facts these are"


@pytest.mark.parametrize(("attribute", "managed"), [(0x11, False), (PORT_INFO, True)])
def test_a_manager_asks_for_node_info_along_every_link(attribute: int, managed: bool) -> None:
    """Of nodes that it knows, too, and of its own: its Sets take another way."""
    writes = [smp(ANSWER, 0x11, node(6), path=[2]), smp(SET, P_KEY_TABLE, p_keys(1), path=[2])]
    vantage, five = seen([*NODE, BY_ROUTE[0], *writes, smp(GET, attribute, path=[1])])
    assert vantage.manages([five], 99) is managed


@pytest.mark.parametrize(("lid", "home", "managed"), [(1, [], True), (5, [], False), (5, [smp(ANSWER, 0x11, node(5), path=[])], True)])
def test_what_a_manager_writes_to_its_own_port_passes_no_link(lid: int, home: list[bytes], managed: bool) -> None:
    """Unless the capture was made on that host, and shows the route without hops."""
    shown = answer(5, PORT_INFO, port_info(5, master_sm_lid=lid))
    written = smp(SET, P_KEY_TABLE, p_keys(1), path=[1])
    vantage, five = seen([*NODE, *home, BY_ROUTE[0], written, shown])
    assert vantage.manages([five], 99) is managed


def test_the_set_that_shows_a_handover_is_the_new_managers() -> None:
    """What it asked before was no business of the old manager."""
    asks = [BY_ROUTE[0], smp(GET, PORT_INFO, path=[1])]
    old = ask(6, PORT_INFO, method=SET, body=port_info(6, master_sm_lid=7))
    new = smp(SET, PORT_INFO, port_info(5, master_sm_lid=8), path=[1])
    vantage, five = seen([*NODE, answer(6, 0x11, node(6)), old, *asks, new])
    assert vantage.handovers == [6]
    assert not vantage.manages([five], 5) and vantage.manages([five], 6)


@pytest.mark.parametrize(("last", "managed"), [(8, False), (5, True)])
def test_facts_about_all_nodes_need_a_manager_of_each(last: int, managed: bool) -> None:
    vantage, _ = seen([*NODE, answer(last, 0x11, node(last)), WRITE])
    assert vantage.manages(None, 3) is managed
    assert vantage.manages(None, 1), "the other node was not known then"


@every("window", [1, 1 << 20])
@every(("own", "named", "managed"), [([6], 1, False), ([6], 6, True), ([6], 0, True), ([], 1, True), ([6, 1], 1, True), ([1, 6], 1, True)])
def test_a_tool_writes_back_what_it_read(own: list[int], named: int, managed: bool, window: int) -> None:
    """The port from which it sends has another LID than the manager that the port named; `own`: the LIDs that it shows, in this order."""
    home = [smp(ANSWER, 0x11, node(6), path=[]), *(smp(ANSWER, PORT_INFO, port_info(lid), path=[]) for lid in own)]
    written = smp(SET, PORT_INFO, port_info(5, master_sm_lid=named), path=[1])
    vantage, five = seen([*NODE, *home, BY_ROUTE[0], written], window)
    assert vantage.manages([five], 99) is managed


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_a_port_that_gets_the_lid_of_the_manager_writes_as_a_manager_from_then_on(window: int) -> None:
    home = [smp(ANSWER, 0x11, node(6), path=[]), smp(ANSWER, PORT_INFO, port_info(6), path=[])]
    written = smp(SET, PORT_INFO, port_info(5, master_sm_lid=1), path=[1])
    frames = [*NODE, *home, BY_ROUTE[0], written, smp(ANSWER, PORT_INFO, port_info(1), path=[])]
    for later, managed in (([], False), ([written], True)):
        vantage, five = seen([*frames, *later], window)
        assert vantage.manages([five], 99) is managed


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_a_manager_gives_itself_its_lid(window: int) -> None:
    home = [smp(ANSWER, 0x11, node(6), path=[]), smp(ANSWER, PORT_INFO, port_info(7), path=[])]
    first = smp(SET, PORT_INFO, port_info(6, master_sm_lid=6), path=[])
    shown = smp(ANSWER, PORT_INFO, port_info(6, master_sm_lid=6), path=[])
    vantage, five = seen([*NODE, *home, first, shown, BY_ROUTE[0], smp(SET, PORT_INFO, port_info(5, master_sm_lid=6), path=[1])], window)
    six = vantage.follower.subnet.by_lid(6)
    assert six is not None and vantage.manages([five, six.node], 99)


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


@pytest.mark.parametrize("window", [1, 1 << 20])
@pytest.mark.parametrize(
    ("named", "moved"), [((1, 1), []), ((1, 9), [5]), ((1, 9, 9), [5]), ((1, 0, 1), []), ((1, 0, 9), [6]), ((1, 9, 1), [5, 6]), ((9,), [])]
)
def test_a_set_that_names_another_manager_is_a_handover(named: tuple[int, ...], moved: list[int], window: int) -> None:
    """A standby that takes over from a dead master sends no HANDOVER; 0 names nobody, and an answer may be from before."""
    sets = [ask(5, PORT_INFO, method=SET, body=port_info(5, master_sm_lid=lid), modifier=1) for lid in named]
    old = answer(5, PORT_INFO, port_info(5, master_sm_lid=7))
    outside = ask(2, PORT_INFO, method=SET, body=port_info(0, master_sm_lid=8), modifier=1)
    vantage, five = seen([*NODE, answer(2, 0x11, switch(2)), WRITE, *sets, old, outside], window)
    assert vantage.handovers == moved
    assert vantage.manages([five], 99) is (not moved), "until it is seen to write the node"
    router = answer(5, 0x11, node(5, node_type=3))
    assert seen([router, answer(2, 0x11, switch(2)), WRITE, *sets, old, outside], window)[0].handovers == moved


def test_a_set_along_an_unknown_route() -> None:
    """It may have written any node that its sender reaches by no other route."""
    lost = smp(SET, P_KEY_TABLE, p_keys(1), path=[1, 9])
    vantage, five = seen([*NODE, lost, *NODE])
    assert vantage.astray(P_KEY_TABLE, 1, 3, [five]) and vantage.astray(P_KEY_TABLE, 1, 3, None)
    assert not vantage.astray(P_KEY_TABLE, 2, 3, [five]) and not vantage.astray(P_KEY_TABLE, 1, 2, [five])
    assert not vantage.astray(PORT_INFO, 1, 3, [five])
    vantage, five = seen([*BY_ROUTE[:1], *NODE, lost, *NODE])
    assert not vantage.astray(P_KEY_TABLE, 1, 4, [five])


def test_a_set_along_a_route_of_which_no_node_info_is_known() -> None:
    """Its end may be a node that somebody else asked by another route, until a NodeInfo comes back along it."""
    end, write = answer_to([1, 9]), smp(SET, P_KEY_TABLE, p_keys(1), path=[1, 9])
    vantage, five = seen([*NODE, end, write, *NODE])
    assert vantage.astray(P_KEY_TABLE, 1, 4, [five]) and not vantage.astray(P_KEY_TABLE, 3, 4, [five])
    (nameless,) = (hop.node for origin in vantage.follower.routes.origins.values() for hop in origin.hops.values())
    assert not nameless.guid and not vantage.astray(P_KEY_TABLE, 1, 4, [nameless]), "what was written is known of that end"
    vantage, five = seen([*NODE, smp(ANSWER, 0x11, node(6), path=[1, 9]), write, *NODE])
    assert not vantage.astray(P_KEY_TABLE, 1, 4, [five])


def answer_to(path: list[int]) -> bytes:
    """A port along a route shows its table, which makes an end of the route."""
    return smp(ANSWER, PORT_INFO, port_info(7), path=path)


def test_a_bound_that_is_reached_makes_facts_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.subnet.visible_managers.MAX_ASTRAY", 64)
    lost = [smp(SET, P_KEY_TABLE, p_keys(1), path=[1, 9])] * 65
    vantage, five = seen([*NODE, *lost, *NODE])
    assert vantage.dropped.count == 1
    assert vantage.astray(PORT_INFO, 1, 67, [five]) and not vantage.astray(PORT_INFO, 1, 66, [five])


def test_two_hosts_with_one_number() -> None:
    """The route without hops led to two nodes: what either asks or is answered may be the other's."""
    here, there = (smp(ANSWER, 0x11, node(lid), path=[]) for lid in (1, 2))
    answered = smp(ANSWER, P_KEY_TABLE, p_keys(1), path=[3])
    write = smp(SET, P_KEY_TABLE, p_keys(1), path=[3])
    known = smp(ANSWER, 0x11, node(5), path=[3])
    vantage, five = seen([known, answer(5, 0x11, node(5)), here, answered, write, there, answered, write, here])
    assert vantage.ambiguous == {6, 7, 9}
    assert not vantage.astray(P_KEY_TABLE, 4, 6, [five]) and vantage.astray(P_KEY_TABLE, 6, 9, [five])
    vantage, five = seen([known, answer(5, 0x11, node(5)), here, there, known, write, here])
    assert vantage.astray(P_KEY_TABLE, 5, 7, [five]), "a NodeInfo along the route may have been the other's, too"


@every(
    ("method", "modifier", "moved"),
    [(SET, 1, True), (SET, 2, True), (SET, 0, False), (SET, 3, False), (SET, 4, False), (GET, 1, False), (GET, 2, False)],
)
def test_only_a_handover_and_its_acknowledgement_move_the_master(method: int, modifier: int, moved: bool) -> None:
    vantage, _ = seen([*NODE, ask(9, 0x20, method=method, modifier=modifier, body=build(SMInfo, guid=1, sm_state=3))])
    assert vantage.handovers == ([2] if moved else [])


@every("lids", [[5], [6], [7], [5, 7], [5, 6, 7]])
@every("handovers", [0, 1, 2])
def test_each_node_that_is_written_is_managed(lids: list[int], handovers: int) -> None:
    """By the manager of that time, and no other node."""
    frames = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)] + [HANDOVER] * handovers
    vantage, _ = seen([*frames, *(ask(lid, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF)) for lid in lids)])
    nodes = {lid: port.node for lid in (5, 6, 7) if (port := vantage.follower.subnet.by_lid(lid)) is not None}
    assert [lid for lid, one in nodes.items() if vantage.manages([one], 99)] == lids and vantage.manages([nodes[lid] for lid in lids], 99)
    assert not handovers or not vantage.manages([nodes[lids[0]]], 3)


@pytest.mark.parametrize("window", [1, 1 << 20])
@pytest.mark.parametrize(
    ("after", "before", "wrote"),
    [(0, 2, False), (0, 3, True), (1, 3, True), (2, 3, False), (1, 2, False), (2, 4, False), (2, 5, True), (3, 9, True), (4, 9, False)],
)
def test_a_table_of_partitions_is_written_between_two_frames(after: int, before: int, wrote: bool, window: int) -> None:
    """Of whichever node; neither of the two frames counts, and other attributes do not."""
    other = ask(6, P_KEY_TABLE, method=SET, body=p_keys(1))
    vantage, _ = seen([*NODE, WRITE, TOOL, other, ask(5, P_KEY_TABLE), answer(5, P_KEY_TABLE, p_keys(1))], window)
    assert vantage.repartitions(after, before) is wrote


@pytest.mark.parametrize("name", ["MAX_NODES", "MAX_ASTRAY", "MAX_HANDOVERS", "MAX_AMBIGUOUS"])
def test_from_the_first_thing_that_was_forgotten_on_nothing_is_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"ibdissect.subnet.visible_managers.{name}", 1)
    lost = smp(SET, P_KEY_TABLE, p_keys(1), path=[1, 9])
    here, there = (smp(ANSWER, 0x11, node(lid), path=[]) for lid in (1, 2))
    answered = smp(ANSWER, P_KEY_TABLE, p_keys(1), path=[3])
    frames = {
        "MAX_NODES": [WRITE, WRITE, WRITE], "MAX_ASTRAY": [lost, lost, lost], "MAX_HANDOVERS": [HANDOVER, HANDOVER, HANDOVER],
        "MAX_AMBIGUOUS": [here, there, answered, answered, answered],
    }[name]  # fmt: skip
    vantage, five = seen([*NODE, *frames])
    first, count = {"MAX_AMBIGUOUS": (4, 3)}.get(name, (3, 2))
    assert (vantage.dropped.frame, vantage.dropped.count) == (first, count)
    for before in (first, first + 1):
        assert vantage.repartitions(99, before) is vantage.astray(PORT_INFO, 99, before, [five]) is (before > first)


@every("method", [GET, ANSWER, SET])
@every("window", [1, 1 << 20])
def test_whom_a_writer_asks_it_manages(method: int, window: int) -> None:
    """Along directed routes, before the next handover; by LID anybody may ask."""
    other = smp(ANSWER, 0x11, node(6), path=[2])
    asks = smp(method, P_KEY_TABLE, p_keys(1), path=[2])
    vantage, five = seen([*NODE, *BY_ROUTE, other, asks, HANDOVER, *NODE], window)
    six = vantage.follower.routes.origins[0].hops[b"\2"].node
    assert six is not five
    assert vantage.manages([five], 5) and vantage.manages([six], 5) and vantage.manages([five, six], 5)
    assert not vantage.manages([six], 7) and not vantage.manages([five, six], 6)
    vantage, five = seen([*NODE, smp(ANSWER, 0x11, node(5), path=[1]), smp(GET, PORT_INFO, port_info(5), path=[1])], window)
    assert not vantage.manages([five], 9), "who only asks need not be a manager"


def test_which_unknown_routes_may_lead_to_a_node() -> None:
    vantage, five = seen([*NODE, *BY_ROUTE, smp(ANSWER, 0x11, node(6), path=[2])])
    (sender,) = vantage.follower.routes.origins
    six, seven = vantage.follower.routes.origins[sender].hops[b"\2"].node, vantage.follower.subnet.node(77, 5)[0]
    assert not vantage.may_lead(sender, [five]) and not vantage.may_lead(sender, [five, six]) and not vantage.may_lead(sender, [])
    assert vantage.may_lead(sender, [seven]) and vantage.may_lead(sender, [five, seven]) and vantage.may_lead(sender + 1, [five])
    vantage.follower.routes.origins[sender].shared = 3
    assert vantage.may_lead(sender, [five])


@pytest.mark.parametrize(("path", "may"), [([1], False), ([1, 2], True)])
def test_a_set_along_an_unknown_route_that_is_shorter_than_the_known_one(path: list[int], may: bool) -> None:
    """Managers write along the shortest route, and ask for NodeInfo along the others, too."""
    lost = smp(SET, P_KEY_TABLE, p_keys(1), path=[3])
    vantage, five = seen([smp(ANSWER, 0x11, node(5), path=path), *NODE, lost, *NODE])
    assert vantage.astray(P_KEY_TABLE, 1, 4, [five]) is may
