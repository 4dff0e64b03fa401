"""Nodes that have to register again between two frames: a restart is told by two of them, not by one. Senders with an outdated record."""

from __future__ import annotations

import random

import pytest

from ibdissect.decode.identity import NodeId
from ibdissect.rules.shared.group_rule import Administrators
from tests.cases import every
from tests.craft import erf_pcap
from tests.rules.made.subnets import member, sent
from tests.rules.test_rules import BY_CODE, lint


@every("seed", range(20))
def test_a_restart_is_told_by_two_nodes(seed: int) -> None:
    rnd = random.Random(seed)
    sets = [(NodeId(rnd.randrange(3)), frame) for frame in sorted(rnd.sample(range(1, 60), rnd.randrange(12)))]
    known = Administrators()
    for node, frame in sets:
        known.anew.keep((node, frame), None, frame, 0)
    for after in range(62):
        for before in range(62):
            wanted = len({node for node, frame in sets if after < frame < before}) > 1
            assert known.restarted(after, before) == wanted, (sets, after, before)


@pytest.mark.parametrize(("bound", "told"), [(2, ["error", "error"]), (1, ["error", "info"])])
def test_of_a_sender_that_is_not_remembered_nobody_knows_whether_it_was_right_soon(
    bound: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibdissect.rules.shared.group_rule.MAX_OUTDATED", bound)
    found = lint(erf_pcap([member(), sent(dlid=0xC002), sent(dlid=0xC003, src_qp=0x35)]), rules=[BY_CODE["GRH009"]])
    assert [str(one.severity) for one in found] == told


@pytest.mark.parametrize(("right", "told"), [((0x34, 0x35), "info"), ((0x34,), "error"), ((0x35,), "error")])
def test_all_senders_are_right_soon(right: tuple[int, ...], told: str) -> None:
    """They are one finding, since they are wrong in the same way."""
    wrong = [sent(dlid=0xC002, src_qp=qp) for qp in (0x34, 0x35)]
    found = lint(erf_pcap([member(), *wrong, *(sent(src_qp=qp) for qp in right)]), rules=[BY_CODE["GRH009"]])
    assert [(str(one.severity), one.count) for one in found] == [(told, 2)]
