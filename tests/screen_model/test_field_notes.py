"""The tree says whose LID, GID, P_Key or queue pair that is, and which frame showed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ibdissect.dissect.tree import Tree
from ibdissect.screen_model.field_notes import FieldNotes
from ibdissect.screen_model.related_frames import filter_for_frame
from ibdissect.tui.screens.conversations import ConversationTable
from ibdissect.wire.sm_port import PortInfo
from tests import craft
from tests.cases import every
from tests.conftest import REPO
from tests.decode.test_addresses import DATA, SETUP
from tests.screen_model.made import opened, selected, studied
from tests.subnet.made import GUID, answer, node, p_keys

PORT_GUID = (GUID + (5 << 4) + 1).to_bytes(8, "big")
GID = bytes.fromhex("fe80000000000000") + PORT_GUID
FRAMES = [
    answer(5, 0x11, node(5)), answer(5, 0x10, b"host05 HCA-1".ljust(64, b"\0")),
    answer(5, 0x15, craft.build(PortInfo, 64, lid=5, port_state=4, local_port_num=1)), answer(5, 0x16, p_keys(0xFFFF, 0x1234)),
    craft.native(0x04, bytes(8), slid=5, dlid=3, bth={"p_key": 0x1234, "destqp": 0x12}, grh={"sgid": GID, "dgid": bytes(16)}),
    craft.native(0x04, bytes(8), slid=5, dlid=3, bth={"p_key": 0x4321, "destqp": 0x12}),
]  # fmt: skip


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[FieldNotes, list[Tree]]:
    path = tmp_path_factory.mktemp("knowledge") / "x.pcap"
    path.write_bytes(craft.erf_pcap(FRAMES))
    model = opened(path)
    trees = [model.tree(frame) for frame in range(1, len(FRAMES) + 1)]
    study, _ = studied(model)
    return FieldNotes(lambda: study.subnet, lambda: study.connections), trees


def said(shown: tuple[FieldNotes, list[Tree]], frame: int, name: str) -> str:
    knowledge, trees = shown
    tree = trees[frame - 1]
    return knowledge.of(next(one for one in tree.walk() if one.name == name), tree)


@every(
    ("frame", "name", "wanted"),
    [
        (5, "infiniband.lrh.slid", "host05 HCA-1 port 1, learnt in frame 1"), (5, "infiniband.lrh.dlid", ""),
        (5, "infiniband.grh.sgid", "host05 HCA-1 port 1, learnt in frame 1"), (5, "infiniband.grh.dgid", ""),
        (5, "infiniband.bth.p_key", "index 1 of host05 HCA-1 port 1, learnt in frame 4"), (6, "infiniband.bth.p_key", ""),
        (1, "infiniband.nodeinfo.nodeguid", "host05 HCA-1, learnt in frame 1"),
        (1, "infiniband.nodeinfo.portguid", "host05 HCA-1 port 1, learnt in frame 1"),
        (3, "infiniband.portinfo.lid", "host05 HCA-1 port 1, learnt in frame 1"),
        (5, "infiniband.bth.destqp", ""), (5, "infiniband.bth.psn", ""), (3, "infiniband.portinfo.m_key", ""),
    ],
)  # fmt: skip
def test_addresses_and_partitions(shown: tuple[FieldNotes, list[Tree]], frame: int, name: str, wanted: str) -> None:
    found = said(shown, frame, name)
    assert found.startswith(wanted) and bool(found) == bool(wanted)


def test_nothing_is_known_before_it_is_shown(shown: tuple[FieldNotes, list[Tree]]) -> None:
    knowledge, trees = shown
    earlier = replace(trees[4], frame=0)
    nodes = {one.name: one for one in earlier.walk()}
    assert knowledge.of(nodes["infiniband.lrh.slid"], earlier) == knowledge.of(nodes["infiniband.bth.p_key"], earlier) == ""


@pytest.mark.slow
def test_queue_pairs_of_a_connection() -> None:
    path = REPO / "captures" / "rxe-rping.pcap"
    model = opened(Path(path))
    table = model.table(range(1, model.index.frames + 1))
    sent = [frame for frame, mad, bth in zip(
        range(1, model.index.frames + 1), table.located.at("mad").tolist(), table.located.at("bth").tolist(), strict=True
    ) if bth >= 0 > mad]  # fmt: skip
    trees = [model.tree(frame) for frame in sent[:4]]
    study, _ = studied(model)
    one = study.connections.all[0]
    knowledge = FieldNotes(lambda: study.subnet, lambda: study.connections)
    texts = {knowledge.of(next(n for n in tree.walk() if n.name == "infiniband.bth.destqp"), tree) for tree in trees}
    there = f"connected with {one.active} QP 0x{one.active_qpn:06x}, learnt in frame {one.rep_frame}"
    back = f"connected with {one.passive} QP 0x{one.passive_qpn:06x}, learnt in frame {one.req_frame}"
    assert texts == {there, back}


@pytest.mark.slow
def test_the_connection_of_a_packet_with_a_grh(tmp_path: Path) -> None:
    path = tmp_path / "grh.pcap"
    path.write_bytes(craft.erf_pcap([*SETUP, *DATA]))
    model = opened(path)
    trees = [model.tree(frame) for frame in (3, 6)]  # a request with a GRH, an acknowledgement without
    study, shot = studied(model)
    knowledge = FieldNotes(lambda: study.subnet, lambda: study.connections)
    found = [knowledge.of(next(one for one in tree.walk() if one.name == "infiniband.bth.destqp"), tree) for tree in trees]
    assert found == ["connected with LID 3 QP 0x000060, learnt in frame 2", "connected with LID 4 QP 0x000050, learnt in frame 1"]
    (one,) = [one for one in shot.conversations if one.service == "RC"]
    assert (str(one.near), str(one.far), one.packets, one.known_by) == ("fe80::3", "fe80::4", (3, 3), "CM")
    model = opened(path)
    text = ConversationTable([one]).answer(one)
    assert filter_for_frame(model, 4, shot.conversations, study.connections.all) == text
    assert selected(model, text) == list(range(3, 9))
    model.close()
