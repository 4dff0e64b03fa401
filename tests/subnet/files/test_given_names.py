"""Names of addresses in columns, in sentences and in filters."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from ibdissect.dfilter.compile import compile_filter
from ibdissect.subnet.files import read_files
from ibdissect.subnet.files.given_names import names_of
from ibdissect.subnet.node_names import NodeNames
from ibdissect.subnet.nodes_of_packets import Ends
from tests.craft import native, roce2
from tests.decode.made import ethernet_table, native_table
from tests.subnet.files.samples import SAMPLES

HOST_A = 'host A, "fast" lid 99'


@pytest.fixture
def names(tmp_path: Path) -> NodeNames:
    (tmp_path / "topology").write_text(SAMPLES["ibnetdiscover"])
    return names_of(read_files([str(tmp_path)]))


def test_columns_and_sentences(names: NodeNames) -> None:
    addresses = ["LID 2", "LID 3", "LID 9", "LID x", "fe80::2:c903:0:b1", "fe80::1", "10.0.0.1", "00:11:22:33:44:55"]
    assert [names.address(one) for one in addresses] == [
        "edge 1", f"{HOST_A} port 1", "LID 9", "LID x", "host B port 1", "fe80::1", "10.0.0.1", "00:11:22:33:44:55"
    ]  # fmt: skip
    text = "from LID 3 to QP 0x48 of 0x0002c903000000b0 port 1 (LID 4), 0x0002c90200400010 and LID 9"
    assert names.sentence(text) == f"from LID 3 ({HOST_A} port 1) to QP 0x48 of host B port 1 (LID 4), edge 1 and LID 9"


def test_the_administrator_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "topology").write_text(SAMPLES["ibnetdiscover"])
    (tmp_path / "map").write_text('0x0002c90200400010 "door"\n0x99 "gone"\n')
    os.utime(tmp_path / "map", (1e9, 1e9))
    assert sorted(names_of(read_files([str(tmp_path)])).node_by_guid.values()) == ["door", 'host A, "fast" lid 99', "host B"]


def test_hosts_of_roce(tmp_path: Path) -> None:
    (tmp_path / "roce.toml").write_text(SAMPLES["roce"])
    names = names_of(read_files([str(tmp_path)]))
    assert {names.address(one) for one in ("192.168.0.1", "::ffff:192.168.0.1", "fd00::1")} == {"node01"}
    assert names.address("192.168.0.9") == "192.168.0.9"
    assert names.sentence("192.168.0.1 sends to 192.168.0.9") == "192.168.0.1 (node01) sends to 192.168.0.9"
    table = ethernet_table([roce2(), roce2(ip={"source": bytes(4)})])
    assert compile_filter('ibdissect.src.node == "node01"', ends=Ends(names)).rows(table).tolist() == [True, False]
    assert compile_filter('ibdissect.node == "node02"', ends=Ends(names)).rows(table).all()


def test_filters(names: NodeNames) -> None:
    frames = [native(0x04, bytes(8), slid=slid, dlid=4, bth={"p_key": 0xFFFF, "destqp": 0x48}) for slid in (3, 9, 3)]
    table = native_table(frames)
    for text, rows in (
        ('ibdissect.src.node contains "host A"', [True, False, True]),
        ('ibdissect.dst.node == "host B"', [True, True, True]),
        ('not ibdissect.src.node', [False, True, False]),
    ):  # fmt: skip
        matcher = compile_filter(text, ends=Ends(names))
        assert matcher.nodes
        assert pickle.loads(pickle.dumps(matcher)).rows(table).tolist() == matcher.rows(table).tolist() == rows
    assert not compile_filter('ibdissect.src.node == "host B"').rows(table).any()
