"""The fabric view lists what is known - managers, switches, links, partitions, keys without their values - with its frames."""

from __future__ import annotations

import io
from typing import Any  # a view of the fabric and its lines

import pytest

from ibdissect import Capture
from ibdissect.screen_model.fabric_view import view_of
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.files import learn
from ibdissect.wire.sm import SMInfo
from tests import craft
from tests.decode.made import native_table
from tests.subnet.files.made_files import parsed
from tests.subnet.made import ANSWER, GUID, SET, node, p_keys, port_info, switch, switch_info
from tests.subnet.test_separate_subnets import HERE, THERE, mixed

KEY = 0x4142434445464748
PORT = GUID + 0x11
"""The port GUID of `node(1)`."""


def routed(attribute: int, body: bytes, *path: int, **kw: Any) -> bytes:
    return craft.smp(ANSWER, attribute, body, path=list(path), **kw)


def edit(block: bytes, *path: int) -> tuple[bytes, bytes]:
    """A Set of a block of a P_Key table, and its answer."""
    return craft.smp(SET, 0x16, block, path=list(path), m_key=KEY), routed(0x16, block, *path)


def manager(state: int) -> bytes:
    return routed(0x20, craft.build(SMInfo, 64, guid=0xABCD, sm_state=state, priority=7))


FRAMES = [
    routed(0x11, node(1)), routed(0x15, port_info(1), modifier=1), routed(0x10, b"manager host".ljust(64, b"\0")), manager(3),
    routed(0x11, switch(2, 4, local_port_num=1), 1), routed(0x12, switch_info(linear_fdb_top=33, enhanced_port_zero=1), 1),
    routed(0x11, node(5), 1, 3), routed(0x15, port_info(5, m_key=KEY, m_key_protect_bits=1, m_key_lease_period=60), 1, 3, modifier=1),
    routed(0x16, p_keys(0xFFFF, 0x1234), 1, 3), routed(0x15, port_info(0, port_state=1, port_physical_state=2), 1, modifier=4),
]  # fmt: skip


def view(*frames: bytes) -> Any:
    follower = FabricFollower()
    list(follower.feed(native_table(frames)))
    return view_of(follower.subnet)


def entry_of(found: Any, kind: str, text: str = "") -> Any:
    every = [*found.entries, *(child for entry in found.entries for child in entry.children)]
    return next(entry for entry in every if entry.kind == kind and text in entry.text)


def facts(entry: Any) -> dict[str, tuple[str, int]]:
    return {label: (text, frame) for label, text, frame in entry.details}


def test_managers_have_the_name_of_their_node() -> None:
    found = view(*FRAMES)
    (one,) = entry_of(found, "sm", "Subnet managers (1)").children
    assert (one.text, one.note) == ("manager host", "master, priority 7, LID 1")
    assert facts(one)["GUID"] == ("0x000000000000abcd", 4)
    alone = view(routed(0x11, node(1)), manager(2))
    assert entry_of(alone, "sm", "Subnet managers").children[0].text == "0x000000000000abcd", "without LID, without name: its GUID"


def test_a_handover_is_a_history_and_one_manager_is_master() -> None:
    def other(state: int) -> bytes:
        return routed(0x20, craft.build(SMInfo, 64, guid=0xBEEF, sm_state=state, priority=9), 1, 3)

    found = view(*FRAMES, other(2), manager(2), other(3))
    first, second = entry_of(found, "sm", "Subnet managers (2)").children
    assert first.note.startswith("master, priority 9") and second.note.startswith("standby")
    assert [text for label, text, _ in second.details if label == "From here on"] == ["master, priority 7", "standby, priority 7"]
    still = view(*FRAMES, other(3))
    assert [entry.note.split(",")[0] for entry in entry_of(still, "sm", "Subnet managers (2)").children] == [
        "master", "was master until frame 4 at least",
    ]  # fmt: skip


def test_the_manager_that_port_info_names_counts() -> None:
    found = view(routed(0x11, node(1)), routed(0x15, port_info(1, master_sm_lid=7), modifier=1))
    (one,) = entry_of(found, "sm", "Subnet managers (1)").children
    assert found.sms == 1 and (one.text, one.note) == ("LID 7", "LID 7, as PortInfo says")


def test_edits_of_a_p_key_table_are_listed_and_nodes_without_node_info_have_their_lid() -> None:
    written = p_keys(0xFFFF, 0x4321)
    found = view(*FRAMES, craft.smp(SET, 0x16, written, path=[1, 3], m_key=KEY), routed(0x16, written, 1, 3))
    port = next(child for entry in found.entries for child in entry.children if any("+0x4321" in text for _, text, _ in child.details))
    assert ("P_Keys", "+0x4321 -0x1234", 12) in port.details
    unknown = FabricFollower().subnet
    bare, _ = unknown.node(0, 1)
    unknown.assign(unknown.port(bare, 1, 1), 9, 0, 1)
    entry = view_of(unknown, packets={9: 1200}).entries[0]
    assert entry.text == "LID 9, no NodeInfo" and ("Sent from LID 9", "1,200 packets", 0) in entry.details


def test_a_switch_says_what_it_forwards() -> None:
    known = facts(entry_of(view(*FRAMES), "switch"))
    assert known["Linear FDB"] == ("1024 entries, top 33", 6) and known["Enhanced port 0"] == ("yes", 6)


def test_a_link_is_shown_at_both_ends() -> None:
    found = view(*FRAMES)
    leaf = entry_of(found, "switch")
    (uplink,) = (port for port in leaf.children if port.text == "Port 3")
    assert facts(uplink)["Link to"][0].endswith("port 1") and facts(uplink)["Link to"][1] == 7
    assert entry_of(found, "down").text == "Port 4" and "Link to" not in facts(entry_of(found, "down"))


def test_keys_are_reported_without_values() -> None:
    port = entry_of(view(*FRAMES), "port", "LID 5")
    assert facts(port)["M_Key"] == ("set, protect bits 1, lease 60 s", 8)
    assert all("4142" not in f"{text}{entry.note}" for entry in view(*FRAMES).entries for _, text, _ in entry.details)
    shown = [text for label, text, _ in port.details if label == "P_Key"]
    assert shown == ["0x1234 limited", "0xffff full"]
    partitions = entry_of(view(*FRAMES), "partition", "Partitions (2)").children
    assert partitions[0].text.startswith("0x1234") and len(partitions) == 2


def test_partitions_conf_counts_until_a_table_is_shown() -> None:
    conf = f"storage=0x10 : {PORT:#x}=full ;"
    follower = FabricFollower()
    files = [parsed(kind, text)[0] for kind, text in (("guid2lid", f"{PORT:#x} 0x1 0x1"), ("partitions.conf", conf))]
    learn(follower.subnet, files)
    list(follower.feed(native_table(FRAMES[:3])))
    found = view_of(follower.subnet, [file.known for file in files])
    assert [entry.text[:6] for entry in entry_of(found, "partition").children] == ["0x0010", "0x7fff"]
    keys = [text for entry in entry_of(found, "ca").children for label, text, _ in entry.details if label == "P_Key"]
    assert keys == ["0x7fff limited  (partitions.conf)", "0x8010 full  (partitions.conf:1)"]


def test_lids_that_a_port_had() -> None:
    port = entry_of(view(*FRAMES, routed(0x15, port_info(6), 1, 3, modifier=1)), "port", "LID 6")
    assert [(text, frame) for label, text, frame in port.details if label == "LID"] == [("5 (LMC 0) → 6 (LMC 0)", 11)]


@pytest.mark.slow
def test_a_large_fabric_says_how_many_nodes_are_left_out() -> None:
    subnet = FabricFollower().subnet
    for guid in range(1, 5002):
        subnet.node(guid, 1)
    found = view_of(subnet)
    assert found.nodes == 5001 and found.entries[-1].text == "1 further node not shown"


def test_a_capture_of_two_subnets_is_reported() -> None:
    for other, said in ((THERE, True), (HERE, False)):
        follower = FabricFollower()
        with Capture(io.BytesIO(mixed(HERE, other, interfaces=True))) as opened:
            for table in opened.tables():
                list(follower.feed(table))
        first = view_of(follower.subnet).entries[0]
        assert (first.text == "Two subnets") == said
        assert not said or (first.frame > 0 and "mixes packets of two subnets" in first.details[0][1] and first.details[1][2] > 0)
