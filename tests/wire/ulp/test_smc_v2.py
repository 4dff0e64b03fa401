"""Handshakes of SMC version 2 and of SMC-D; cut or lying ones say nothing wrong."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ibdissect
from ibdissect.dissect.frame_trees import dissect_rows
from ibdissect.wire.ulp import smc_v2
from tests import smc
from tests.cases import few
from tests.craft import ethernet_pcap
from tests.decode.test_smc_pairs import shown

STRUCTS = [one for one in vars(smc_v2).values() if isinstance(one, type) and one.__module__ == smc_v2.__name__]


def values(tmp_path: Path, data: bytes, *names: str) -> list[list[object]]:
    path = tmp_path / "one.pcap"
    path.write_bytes(ethernet_pcap([smc.segment(data)]))
    with ibdissect.open(str(path), show_keys=True) as capture:
        nodes = list(capture.dissect(1).walk())
    return [[node.value for node in nodes if node.name == name] for name in names]


def titles(tmp_path: Path, data: bytes) -> set[str]:
    path = tmp_path / "one.pcap"
    path.write_bytes(ethernet_pcap([smc.segment(data)]))
    with ibdissect.open(str(path)) as capture:
        (table,) = capture.tables()
        return {struct.title for struct in STRUCTS if len(table.occurrences(struct))}


def test_a_proposal(tmp_path: Path) -> None:
    eids, devices, prefixes, types = values(
        tmp_path, smc.PROPOSAL_V2, "smc.proposal.eid", "smc.proposal.ism.gid", "smc.proposal.ipv6.prefix.value", "smc.proposal.smcv2.type"
    )
    assert (eids, devices, prefixes, types) == (["GROUP1", "GROUP2"], [9, 0x1234], ["::1", "::2"], [3])
    assert titles(tmp_path, smc.PROPOSAL) == set()


@pytest.mark.slow
def test_accept_and_confirm(tmp_path: Path) -> None:
    of_r = {"SMC Accept or Confirm, Version 2", "First Contact Extension", "Sender", "Features"}
    assert titles(tmp_path, smc.ACCEPT_V2) == of_r and titles(tmp_path, smc.CONFIRM_V2) == of_r | {"GID List", "GID List Entry"}
    assert titles(tmp_path, smc.ACCEPT_D) == {"SMC-D Accept or Confirm"}
    of_d = {"SMC-D Accept or Confirm", "SMC-D Accept or Confirm, Version 2", "First Contact Extension", "Sender", "Features"}
    assert titles(tmp_path, smc.CONFIRM_D) == of_d
    host, eid, gids = values(tmp_path, smc.CONFIRM_V2, "smc.first.contact.host", "smc.accept.v2.eid",
                             "smc.confirm.gid.list.entry")  # fmt: skip
    assert (host, eid, gids) == (["host1"], ["GROUP1"], ["::ffff:10.0.0.1"] * 2)
    assert titles(tmp_path, smc.clc(2, smc.ACCEPT_V2[8:-4], flags=0x20)) == {"SMC Accept or Confirm, Version 2"}, "no first contact"
    assert titles(tmp_path, smc.ACCEPT) == set()
    assert 2 in shown(tmp_path, [smc.segment(smc.ACCEPT_V2, answer=True), smc.message(7, b"")]), "its queue pair is known, too"


def test_the_key_of_smc_d_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(ethernet_pcap([smc.segment(smc.ACCEPT_D)]))
    with ibdissect.open(str(path)) as capture:
        (token,) = (node for node in capture.dissect(1).walk() if node.label == "DMB Token")
    assert (token.value, token.text) == (None, "DMB Token#1")


@few("kind", ["PROPOSAL_V2", "ACCEPT_V2", "CONFIRM_V2", "ACCEPT_D", "CONFIRM_D"], fast=(3, 4))
def test_whatever_is_cut_or_wrong(tmp_path: Path, kind: str, recwarn: pytest.WarningsRecorder) -> None:
    whole, chance, frames = getattr(smc, kind), random.Random(5), []
    for at in range(0, len(whole), 7):
        frames.append(smc.segment(whole[:at]))
        frames.append(smc.segment(whole[:at] + bytes([chance.choice([0xFF, 1, 40])]) + whole[at + 1 :]))
    path = tmp_path / "many.pcap"
    path.write_bytes(ethernet_pcap(frames))
    with ibdissect.open(str(path)) as capture:
        trees = [tree for table in capture.tables() for _, tree in dissect_rows(table, capture.presenter())]
    assert len(trees) == len(frames)
    assert all(node.offset + node.length <= len(tree.data) for tree in trees for node in tree.walk())
    assert not [warning for warning in recwarn if "plugin function" in str(warning.message)]
