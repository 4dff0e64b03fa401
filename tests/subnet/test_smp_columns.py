"""Exactly the relevant management packets are selected, and each has the same place whatever the windows are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.describe import describe
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.nodes import NodeFacts
from ibdissect.subnet.smp_columns import Smps
from ibdissect.wire.sm import NodeInfo
from tests import craft
from tests.cases import every
from tests.decode.made import ethernet_table, native_table, table_of

from .made import ANSWER, GET, REPRESS, SET, answer, ask, node, port_info, switch

FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST = 0, 2, 1


def smps(*frames: bytes, keyed: bool = False) -> Smps:
    table = native_table(frames)
    return Smps(table, keyed=keyed)


def test_smps_of_both_classes_and_nothing_else() -> None:
    found = smps(
        answer(5, 0x11, node(5)),
        answer(5, 0x31, bytes(64)),  # an answer that teaches nothing here: it has a sender all the same
        ask(5, 0x19, modifier=3, m_key=7),
        answer(5, 0x11, node(5), header={"status": 0x0C}),
        craft.smp(ANSWER, 0x15, port_info(9, m_key=1 << 63), path=[1, 2, 3]),  # status 0x8000: the D bit
        craft.smp(GET, 0x15, dest_qp=1),  # nobody takes it for an SMP
        craft.smp(GET, 0x15, header={"base_version": 0x80}),
        craft.gmp(4, GET, 0x12),
        craft.native(0x04, bytes(300)),
    )
    assert found.rows.tolist() == [0, 1, 2, 4] and found.kind.tolist() == [HANDLE_ANSWER, FIND_PLACE, FIND_PLACE, HANDLE_ANSWER]
    assert found.directed.tolist() == found.pure.tolist() == [False, False, False, True]
    assert found.path(3) == bytes([1, 2, 3])
    assert (found.slid[0], found.dlid[2], found.m_key(2)) == (5, 5, 7)
    assert found.bodies[3].tobytes()[:8] == (1 << 63).to_bytes(8, "big")
    assert found.bodies[0].tobytes() == node(5)


def test_requests_are_skipped_without_any_key() -> None:
    frames = [ask(5, 0x15), answer(5, 0x15, port_info(5)), ask(5, 0x16, method=SET), ask(5, 0x02, method=REPRESS)]
    assert smps(*frames).kind.tolist() == [FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST, HANDLE_REQUEST]
    keyed = smps(*frames, ask(5, 0x15, method=SET, body=port_info(5, m_key=9)))
    assert keyed.kind.tolist() == [FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST, HANDLE_REQUEST, HANDLE_REQUEST]
    assert smps(*frames, keyed=True).kind[0] == HANDLE_REQUEST


def test_hop_count_beyond_the_path() -> None:
    found = smps(craft.smp(GET, 0x11, path=[1], dr={"hop_count": 255, "initial_path": bytes(range(64))}))
    assert found.path(0) == bytes(range(1, 64))


ONE_BY_ONE, AT_ONCE = 16, 16 << 20
"""Windows: a chunk for each SMP; all in one chunk."""


def placed(source: Any, window: int) -> tuple[list[tuple[int, int, int]], dict[str, Any], list[tuple[type, int]]]:
    """Frame, slot and port of each SMP, what was learnt, and the other events."""
    follower, places = FabricFollower(), list[tuple[int, int, int]]()
    events: list[tuple[type, int]] = []
    for chunk in open_capture(source, window=window).chunks():
        for event in follower.feed(ChunkTable(chunk)):
            if not isinstance(event, ChunkFollowed):
                events.append((type(event), event.frame))
                continue
            for smps in (event.requests, event.answers):
                frames = (smps.rows + chunk.first).tolist()
                places += zip(frames, smps.slot.tolist(), smps.entered.tolist(), strict=True)
    return sorted(places), describe(follower.subnet, lambda kind, value: f"{kind} {value:x}"), events


@pytest.mark.parametrize("name", ["12-two-sms", "13-link-flaps", "20b-qos-optimized-slvl", "33-mkey-enforced-prot1"])
def test_chunks_make_no_difference(shared: Path, name: str) -> None:
    path = str(shared / f"captures/opensm/{name}.pcap")
    many, one = placed(path, 20_000), placed(path, AT_ONCE)
    assert many[0] == one[0] and many[1] == one[1] and len(one[0]) > 1000
    # Entries of groups are looked at behind each chunk, so evictions are the only events that chunks may move.
    assert many[2] == one[2]


PATHS = st.sampled_from([[], [1], [1, 2], [1, 3], [1, 2, 4]])
LIDS = st.sampled_from([2, 5, 6])
BODIES = st.sampled_from([
    (0x11, switch(2)), (0x11, node(5)), (0x11, node(6)), (0x11, node(5, num_ports=2, local_port_num=2)), (0x11, node(7, node_guid=0)),
    (0x15, port_info(5)), (0x15, port_info(6)),
])  # fmt: skip
SMPS = st.one_of(
    st.builds(lambda path, method: craft.smp(method, 0x15, path=path), PATHS, st.sampled_from([GET, SET])),
    st.builds(lambda path, body: craft.smp(ANSWER, body[0], body[1], path=path), PATHS, BODIES),
    st.builds(lambda path, entry: craft.smp(ANSWER, 0x17, bytes([entry]) * 8, path=path, modifier=0x0102), PATHS, st.integers(0, 2)),
    st.builds(ask, LIDS, st.just(0x11)), st.builds(lambda lid, body: answer(lid, *body), LIDS, BODIES),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(SMPS, min_size=1, max_size=30))
def test_windows_make_no_difference(frames: list[bytes]) -> None:
    capture = craft.erf_pcap(frames)
    assert placed(io.BytesIO(capture), AT_ONCE) == placed(io.BytesIO(capture), ONE_BY_ONE)


def test_a_lid_leads_to_the_port_that_had_it_before() -> None:
    moved = [node(5), node(6)]
    frames = [ask(5, 0x11), *(smp for body in [*moved, moved[1], moved[0]] for smp in (answer(5, 0x11, body), ask(5, 0x15)))]
    places, _, _ = placed(io.BytesIO(craft.erf_pcap(frames)), AT_ONCE)
    assert [slot for _, slot, _ in places] == [-1, -1, 0, 0, 1, 1, 1, 1, 0]


@every("values", [
    {"num_ports": 2}, {"partition_cap": 64}, {"system_image_guid": 9}, {"device_id": 9}, {"vendor_id": 9}, {"node_type": 3},
    {"port_guid": 9}, {"num_ports": 2, "local_port_num": 2}, {"node_guid": 9},
])  # fmt: skip
def test_a_node_info_that_differs_from_what_is_known_is_learnt(values: dict[str, int]) -> None:
    follower = FabricFollower()
    for _ in follower.feed(native_table([answer(5, 0x11, node(5)), answer(5, 0x11, node(5)), answer(5, 0x11, node(5, **values))])):
        pass
    port = follower.subnet.by_lid(5)
    assert port is not None
    of, wanted = port.node, NodeInfo(node(5, **values))
    assert (of.guid, of.kind, of.system_guid, of.device_id, of.vendor_id) == (
        wanted.node_guid, wanted.node_type, wanted.system_image_guid, wanted.device_id, wanted.vendor_id,
    )  # fmt: skip
    assert of.facts.now == NodeFacts(wanted.num_ports, wanted.partition_cap)
    assert (port.number, port.guid) == (wanted.local_port_num, wanted.port_guid)


def test_a_route_leads_somewhere_behind_its_node_info() -> None:
    frames = [craft.smp(GET, 0x11, path=[1]), craft.smp(ANSWER, 0x11, switch(2), path=[1]), craft.smp(GET, 0x15, path=[1])]
    places, _, _ = placed(io.BytesIO(craft.erf_pcap([*frames, craft.smp(GET, 0x15, path=[2]), frames[0]])), AT_ONCE)
    assert [slot for _, slot, _ in places] == [-1, 0, 0, -1, 0]


@every("mgmt_class", [0x01, 0x81, 0x03, 0x04, 0x07, 0x02, 0x80, 0x82])
def test_only_subnet_management_to_queue_pair_0_is_selected(mgmt_class: int) -> None:
    """Whatever looks like it in another class."""
    frame = craft.ud(craft.mad(mgmt_class, GET, 0x15), dest_qp=0, src_qp=0, q_key=0)
    assert smps(frame).rows.tolist() == ([0] if mgmt_class in (0x01, 0x81) else [])


@pytest.mark.parametrize("keyed", [False, True])
def test_whether_a_key_was_seen_is_remembered(keyed: bool) -> None:
    """From the frame that showed or wrote the first one; without any, requests are not followed one by one."""
    follower, told = FabricFollower(), []
    key = 9 if keyed else 0
    frames = [answer(5, 0x11, node(5)), ask(5, 0x15), answer(5, 0x15, port_info(5, m_key=key)), answer(5, 0x15, port_info(5, m_key=key))]
    for _ in range(2):
        for _ in follower.feed(native_table(frames)):
            pass
        told.append((follower.subnet.keyed_since, len(follower.asked), len(follower.early)))
    assert told == ([(3, 0, 0), (3, 0, 0)] if keyed else [(0, 0, 1), (0, 0, 1)])


@every("bit", range(16))
def test_only_answers_with_status_0_are_selected(bit: int) -> None:
    """The highest bit of a directed one is its direction; requests have no status."""
    header = {"status": 1 << bit}
    by_lid, directed = answer(5, 0x11, node(5), header=header), craft.smp(ANSWER, 0x11, node(5), path=[1], header=header)
    assert smps(by_lid, directed, ask(5, 0x11, header=header), answer(5, 0x11, node(5))).rows.tolist() == [1] * (bit == 15) + [2, 3]


@every(("missing", "kept"), [(0, True), (1, True), (2, True), (6, True), (7, False), (70, False)])
def test_only_whole_packets_are_selected(missing: int, kept: bool) -> None:
    """Of a capture that cuts frames off, or of a packet that ends too early: six bytes of CRCs may be missing."""
    whole = answer(5, 0x11, node(5))
    data = bytearray(craft.erf_pcap([whole, whole[: len(whole) - missing]]))
    if missing:
        at = len(data) - (len(whole) - missing) - 16
        data[at + 14 : at + 16] = len(whole).to_bytes(2, "big")
    assert Smps(table_of(data), keyed=False).rows.tolist() == [0] + [1] * kept


def test_no_subnet_management_without_a_link_header() -> None:
    """RoCE has none."""
    mad = craft.mad(0x01, GET, 0x11)
    frame = craft.roce2(0x64, mad, ext={"DETH": {"q_key": 0, "srcqp": 0}}, bth={"destqp": 0})
    table = ethernet_table([frame])
    assert not len(Smps(table, keyed=False).rows)
