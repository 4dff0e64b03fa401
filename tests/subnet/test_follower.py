"""The subnet learnt from a capture is correct."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import craft
from tests.cases import every
from tests.standard import CA, SWITCH

from .made import ANSWER, GET, GUID, SET, answer, ask, node, p_keys, port_info, switch
from .taught import Taught, taught

MAX_ASKED = 4096

NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x15, 0x16


def mads(path: Path) -> Iterator[bytes]:
    """MADs of an ERF capture whose frames all are LRH, BTH, DETH and a MAD: a reader of its own, as a second opinion."""
    data = path.read_bytes()
    at = 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16 + 16 + 28 : at + 16 + 16 + 28 + 256]
        at += 16 + size


@pytest.mark.parametrize(("name", "switches", "adapters", "cables"), [("01-sweep-net1", 1, 2, 2), ("03-sweep-ft36", 36, 324, 648)])
def test_known_subnets(shared: Path, name: str, switches: int, adapters: int, cables: int) -> None:
    path = shared / f"captures/opensm/{name}.pcap"
    found = Taught().read(path)
    follower, subnet = found.follower, found.subnet
    kinds = [one.kind for one in subnet.slots.values()]
    assert (kinds.count(SWITCH), kinds.count(CA), len(kinds)) == (switches, adapters, switches + adapters)
    assert len(found.told("NodeFound")) == len(kinds) and not found.told("WrongMKey", "StateEvicted")
    assert len(found.cables) == cables and all(a.peer is b and b.peer is a for a, b in found.cables)
    lids: dict[int, int] = {}
    routes: dict[tuple[int, bytes], tuple[int, int]] = {}
    for mad in mads(path):
        method, attribute = mad[3], int.from_bytes(mad[16:18], "big")
        if mad[1] == 0x81 and method == ANSWER and attribute == NODE_INFO:
            high, info = int.from_bytes(mad[8:12], "big"), mad[64:128]
            routes[high, mad[129 : 129 + mad[7]]] = (int.from_bytes(info[12:20], "big"), info[36])
    for (high, way), (guid, number) in routes.items():
        hop = follower.routes.directed(follower.routes.origin(high), way)
        assert hop is not None and (hop.node.guid, hop.entered) == (guid, number)
        assert follower.routes.sure(follower.routes.origin(high), way, hop)
        manager = hop.node.manager(hop.entered)
        assert manager is not None and manager.lid
        assert lids.setdefault(manager.lid, guid) == guid, "every port has a LID of its own"
        assert subnet.by_lid(manager.lid) is manager
    assert len(lids) == switches + adapters


def test_moved_adapter_and_changed_lid(shared: Path) -> None:
    found = Taught().read(shared / "captures/opensm/13-link-flaps.pcap")
    assert found.told("LinkLost")
    assert not [event for event in found.told("LidAssigned") if event.taken_from is not None], "nobody holds a LID of another"
    for port in found.subnet.ports():
        if port.lid:
            assert found.subnet.by_lid(port.lid) is port


@pytest.mark.parametrize("level", [1, 2])
def test_refused_requests_got_no_answer(shared: Path, level: int) -> None:
    path = shared / f"captures/opensm/33-mkey-enforced-prot{level}.pcap"
    refused = [e for e in Taught().read(path).told("WrongMKey") if e.method == SET or (e.method == GET and e.held.protect >= 2)]
    answered = {(mad[8:16], mad[16:18], mad[20:24]) for mad in mads(path) if mad[3] == ANSWER}
    sent = dict(enumerate(mads(path), 1))
    assert len(refused) == {1: 9, 2: 95}[level]
    for event in refused:
        mad = sent[event.frame]
        if mad[8:16] == bytes.fromhex("0001000000000123"):
            continue  # smpdump uses one transaction id for all it asks
        assert (mad[8:16], mad[16:18], mad[20:24]) not in answered


def test_without_node_info() -> None:
    """A capture that starts late still teaches the keys of who answers."""
    found = taught(answer(5, PORT_INFO, port_info(5, m_key=7)), ask(5, P_KEY_TABLE, method=SET, m_key=1))
    (event,) = found.told("WrongMKey")
    assert (event.frame, event.shown, event.held.key, event.presented) == (2, 1, 7, 1)
    found = taught(answer(5, PORT_INFO, port_info(5, m_key=7)), answer(5, NODE_INFO, node(5)))
    assert [one.guid for one in found.subnet.slots.values()] == [GUID + 0x50]


def test_only_good_answers_teach() -> None:
    found = taught(
        answer(5, NODE_INFO, node(5), header={"status": 0x1C}), ask(5, PORT_INFO, method=SET, body=port_info(5, m_key=7)),
        answer(5, P_KEY_TABLE, p_keys(0xFFFF), header={"status": 4}),
    )  # fmt: skip
    assert not found.subnet.slots


def test_hidden_key_is_not_forgotten() -> None:
    known = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=1), m_key=7)
    hidden = answer(5, PORT_INFO, port_info(5, m_key=0, m_key_protect_bits=1))
    found = taught(known, ask(5, PORT_INFO), hidden, ask(5, P_KEY_TABLE, method=SET))
    assert [event.held.key for event in found.told("WrongMKey")] == [7, 7], "the Get is told too: rules decide what it means"
    found = taught(known, answer(5, PORT_INFO, port_info(5)), ask(5, P_KEY_TABLE, method=SET))
    assert not found.told("WrongMKey"), "protect bits 0: the key is gone"


def test_unanswered_set_leaves_both_keys_possible() -> None:
    known = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=1), m_key=7)
    change = ask(5, PORT_INFO, method=SET, body=port_info(5, m_key=8), m_key=7)
    found = taught(known, change, ask(5, P_KEY_TABLE, method=SET, m_key=8), ask(5, P_KEY_TABLE, method=SET, m_key=9))
    assert [event.frame for event in found.told("WrongMKey")] == [4]


def test_key_shown_to_who_does_not_know_it() -> None:
    shown = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=1), modifier=1)
    found = taught(ask(5, PORT_INFO, modifier=1), shown, shown)
    (event,) = found.told("MKeyShown")
    assert (event.frame, event.asked, event.held.key) == (2, 1, 7), "an answer without a request proves nothing"


def test_restarted_adapter() -> None:
    """Active, then Initialize: what the port held before is unknown until it is read again."""
    frames = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5)), answer(5, P_KEY_TABLE, p_keys(0x1234))]
    found = taught(*frames, answer(5, PORT_INFO, port_info(5, port_state=2)))
    port = found.port(5)
    assert port.p_keys is not None
    assert port.p_keys.keys(3)[0] == {0x1234, 0} and port.p_keys.keys(4)[0] == set()


def test_frequent_events_are_emitted_only_for_handlers() -> None:
    frames = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5)), answer(5, 0x16, p_keys(0xFFFF))]
    emitted = []
    for handled in (None, (), ("PortStateChanged",)):
        found = Taught(handled).read(frames)
        emitted.append({type(event).__name__ for event in found.events})
        assert found.port(5).lid == 5
    assert emitted[0] - emitted[1] == {"PortStateChanged", "PKeysLearnt"} and emitted[2] - emitted[1] == {"PortStateChanged"}


def test_route_that_starts_behind_lids() -> None:
    """DrSLID names the sender: the route counts from the switch that the LIDs lead to."""
    sweep = [
        craft.smp(ANSWER, NODE_INFO, node(1), path=[]), craft.smp(ANSWER, NODE_INFO, switch(2, local_port_num=3), path=[1]),
        craft.smp(ANSWER, PORT_INFO, port_info(2), path=[1], modifier=0),
        craft.smp(ANSWER, NODE_INFO, node(5), path=[1, 4]), craft.smp(ANSWER, PORT_INFO, port_info(5, m_key=7), path=[1, 4], m_key=7),
    ]  # fmt: skip
    way = craft.smp(SET, P_KEY_TABLE, path=[4], dr={"dr_slid": 1}, slid=1, dlid=2, m_key=9)
    found = taught(*sweep, way)
    (event,) = found.told("WrongMKey")
    assert event.port is found.port(5)


@pytest.mark.slow
def test_open_requests_are_bounded() -> None:
    frames = [ask(5, PORT_INFO, header={"transaction_id": i + 1}, crc=False) for i in range(MAX_ASKED + 5)]
    found = taught(answer(6, PORT_INFO, port_info(6, m_key=7)), *frames)
    assert [(e.what, e.count) for e in found.told("StateEvicted")] == [("requests", 1)] * 5


def test_requests_of_a_chunk() -> None:
    found = taught(answer(5, NODE_INFO, node(5)), ask(5, 0x19, modifier=3), ask(6, 0x19), craft.native(0x04, bytes(8)))
    (event,) = found.told("ChunkFollowed")
    requests = event.requests
    assert requests.rows.tolist() == [1, 2] and requests.modifier.tolist() == [3, 0]
    assert [requests.nodes[i].guid for i in requests.which.tolist()] == [GUID + 0x50, 0]
    assert event is found.events[-1] and event.frame == 4


def test_a_bad_key_trap_shows_where_a_route_led() -> None:
    """A wrong key on a route that nobody knows: the port's own trap 256 repeats the request."""
    known = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=1), m_key=7)

    def request(m_key: int, block: int) -> bytes:
        return craft.smp(SET, P_KEY_TABLE, path=[1, 4], m_key=m_key, modifier=block)

    def trap(lid: int, m_key: int = 9, block: int = 0) -> bytes:
        details = struct.pack(">HHHBBHIQBB", 0, 0xFFFF, 0xFFFF, SET, 0, P_KEY_TABLE, block, m_key, 0, 0x82)
        return craft.smp(0x05, 0x02, struct.pack(">IHHH", 0x82000001, 256, 5, 0) + details, slid=lid, dlid=1)

    for block in (0, 7):  # 7 is also the key that the port holds
        found = taught(known, request(9, block), trap(5, 9, block))
        (event,) = found.told("WrongMKey")
        assert (event.frame, event.trap, event.presented, event.port.lid) == (2, 3, 9, 5)
        assert (event.attribute, event.method, event.shown, event.local) == (P_KEY_TABLE, SET, 1, False)
    assert not taught(known, request(7, 0), trap(5, 7)).told("WrongMKey"), "the key that the port holds"
    assert not taught(known, request(9, 0), trap(6)).told("WrongMKey"), "a port whose key is not known"
    assert not taught(known, craft.smp(SET, P_KEY_TABLE, path=[1], m_key=9), trap(5)).told("WrongMKey"), "another hop count"


@every(
    ("named", "elsewhere", "may"),
    [
        (True, [], True), (True, [PORT_INFO], True), (True, [NODE_INFO, PORT_INFO], False), (False, [], True), (False, [PORT_INFO], True),
        (False, [NODE_INFO, PORT_INFO], True),
    ],
)  # fmt: skip
def test_a_set_elsewhere_may_have_given_a_port_its_key(named: bool, elsewhere: list[int], may: bool) -> None:
    """If it went to a port whose node is unknown, or if this port is known by its LID only; and after what was known of the key."""
    bodies = {NODE_INFO: node(6), PORT_INFO: port_info(6)}
    others = [answer(6, attribute, bodies[attribute]) for attribute in elsewhere]
    written = ask(6, PORT_INFO, method=SET, body=port_info(6, m_key=0x77))
    known = [*[answer(5, NODE_INFO, node(5))] * named, answer(5, PORT_INFO, port_info(5, m_key=7))]
    asks = [ask(5, P_KEY_TABLE, method=SET, m_key=key) for key in (0x77, 0x78)]
    told = [[one.presented for one in taught(*frames, *asks).told("WrongMKey")] for frames in (
        [*others, *known, written], [*others, written, *known],
    )]  # fmt: skip
    assert told == [[0x78] if may else [0x77, 0x78], [0x77, 0x78]]


def keyed(*frames: bytes) -> list[Any]:
    """Requests with a wrong M_Key to an adapter that holds 7 and shows a table of two blocks."""
    known = [answer(5, NODE_INFO, node(5, partition_cap=64)), answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=2), m_key=7)]
    return taught(*known, *frames).told("WrongMKey")


def test_only_a_set_that_the_port_takes_changes_its_key() -> None:
    """Either key may be valid after it; one with a wrong key, a Get, and a Set of another attribute change nothing."""
    after = [ask(5, P_KEY_TABLE, method=SET, m_key=key) for key in (7, 8, 9)]
    change = port_info(5, m_key=8)
    assert [one.presented for one in keyed(*after)] == [8, 9]
    assert [one.presented for one in keyed(ask(5, PORT_INFO, method=SET, body=change, m_key=7), *after)] == [9]
    assert [one.presented for one in keyed(ask(5, PORT_INFO, method=SET, body=change, m_key=6), *after)] == [6, 8, 9]
    assert [one.presented for one in keyed(ask(5, PORT_INFO, method=GET, body=change, m_key=7), *after)] == [8, 9]
    assert [one.presented for one in keyed(ask(5, 0x36, method=SET, body=change, m_key=7), *after)] == [8, 9]


@every(
    ("method", "key", "modifier", "known"),
    [(SET, 7, 0, {1}), (SET, 7, 1, {0}), (SET, 7, 0x30001, {0}), (SET, 7, 2, {0, 1}), (SET, 9, 1, {0, 1}), (GET, 7, 1, {0, 1})],
)
def test_a_set_of_a_block_makes_that_block_unknown(method: int, key: int, modifier: int, known: set[int]) -> None:
    """Unless the port refuses it. An adapter ignores the number of a port above the block."""
    frames = [answer(5, NODE_INFO, node(5, partition_cap=64)), answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=2), m_key=7)]
    frames += [answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x8001 + block), modifier=block) for block in (0, 1)]
    found = taught(*frames, ask(5, P_KEY_TABLE, method=method, m_key=key, modifier=modifier))
    port = found.port(5)
    assert port.p_keys is not None
    assert port.p_keys.keys(4)[1] == {0, 1} and port.p_keys.keys(5)[1] == known


def test_requests_to_unknown_ports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.subnet.follower.MAX_UNPLACED", 2)
    known = answer(5, PORT_INFO, port_info(5, m_key=7), m_key=7)
    found = taught(known, *(craft.smp(SET, P_KEY_TABLE, path=[1, 4], modifier=block) for block in range(4)))
    assert [(one.what, one.count, one.frame) for one in found.told("StateEvicted")] == [
        ("requests to unknown ports", 1, at) for at in (4, 5)
    ]


@every(("apart_ns", "waits"), [(0, 0), (499_999, 0), (500_000, 1), (1_000_000, 1)])
def test_a_request_right_after_its_answer_is_no_new_one(apart_ns: int, waits: int) -> None:
    shown = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=1))
    found = Taught().read(craft.erf_pcap([shown, ask(5, PORT_INFO), shown], step_ns=apart_ns))
    assert len(found.told("MKeyShown")) == waits, "only a request that waits is one to which the key was shown"


def test_a_chunk_ends_at_its_last_frame() -> None:
    (event,) = Taught().read(craft.erf_pcap([ask(5, 0x19), craft.native(), craft.native()], start_ns=0)).told("ChunkFollowed")
    assert (event.frame, event.time_ns) == (3, 2_000_000)


def test_the_size_of_a_node_is_that_of_each_frame() -> None:
    """Also of several nodes, of which one grows in the chunk. Where a NodeInfo comes from is known only after it."""
    sizes = [(5, 1), (6, 3), (5, 2), (5, 2), (6, 3)]
    found = taught(*(frame for lid, size in sizes for frame in (answer(lid, NODE_INFO, node(lid, num_ports=size)), ask(lid, 0x19))))
    (event,) = found.told("ChunkFollowed")
    assert event.smps.ports.tolist() == [0, 1, 0, 3, 2, 2, 2, 2, 3, 3]


def test_a_port_without_a_link_that_shows_itself_down_cuts_no_routes() -> None:
    """Nothing was lost: it was down before, or nobody knows what it was."""
    known, down, up = answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5, port_state=1)), answer(5, PORT_INFO, port_info(5))
    cuts = [((), 0), ((up,), 0), ((down,), 0), ((down, down), 0), ((up, down), 3), ((down, up, down), 4)]
    for shown, last in cuts:
        assert taught(known, *shown).follower.routes.last_cut == last
