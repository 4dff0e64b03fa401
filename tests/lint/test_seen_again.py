"""Packets that say nothing new are left out, and the findings are those of judging all of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from ibdissect.lint import compared_with_answers, stateless_rules
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.rules import load
from ibdissect.rules.shared.attribute_rule import ANSWERED, AttributeRule
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.words import Rule
from tests.cases import few
from tests.craft import erf_pcap, mad, smp, ud
from tests.decode.made import tables_of
from tests.rules.made.subnets import sweep
from tests.subnet.made import ANSWER, GET, SET, answer, ask, node, port_info, switch, switch_info

NODE_INFO, SWITCH_INFO, PORT_INFO = 0x11, 0x12, 0x15


def longer(**values: int) -> bytes:
    """A PortInfo with four bytes behind its MAD: what it holds has no number."""
    body = mad(0x01, ANSWER, PORT_INFO, port_info(5, **values), at=64) + bytes(4)
    return ud(body, dest_qp=0, src_qp=0, q_key=0, slid=5, dlid=1, lrh={"vl": 15})


AGAIN = [
    longer(), longer(link_width_active=1), longer(neighbor_mtu=9), longer(p_key_violations=7),
    *sweep(), answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5)),
    answer(5, PORT_INFO, port_info(5, link_width_active=1)), answer(5, PORT_INFO, port_info(5, neighbor_mtu=9)),
    answer(5, PORT_INFO, port_info(5, p_key_violations=4)), answer(5, PORT_INFO, port_info(5, capability_mask=1, diag_code=4)),
    ask(5, PORT_INFO, method=SET, body=port_info(5, neighbor_mtu=5, mtu_cap=3), modifier=1),
    ask(5, PORT_INFO, method=SET, body=port_info(5, neighbor_mtu=2, operational_vls=5), modifier=1),
    answer(5, PORT_INFO, port_info(5, mtu_cap=2)), ask(2, PORT_INFO, method=GET, modifier=9),
    answer(2, SWITCH_INFO, switch_info(linear_fdb_top=900, linear_fdb_cap=64)), ask(2, 0x19, method=SET, body=bytes(64), modifier=4),
    answer(2, NODE_INFO, switch(2, 2)), answer(2, NODE_INFO, switch(2, 3)), ask(5, 0x16, method=SET, body=bytes(64), modifier=3),
    answer(5, NODE_INFO, node(5, partition_cap=64)), answer(5, PORT_INFO, port_info(5, lmc=1)),
    smp(ANSWER, PORT_INFO, port_info(0, port_state=1), path=[1], modifier=2), smp(ANSWER, PORT_INFO, port_info(0), path=[1], modifier=2),
]  # fmt: skip


ASKED = [ask(2, 0x19, method=GET, modifier=4)] * 2
LINEAR, SMALLER, RANDOM_ONLY = (
    [answer(2, NODE_INFO, switch(2, 2)), answer(2, SWITCH_INFO, switch_info(**values))]
    for values in ({"linear_fdb_cap": 1024}, {"linear_fdb_cap": 64}, {"linear_fdb_cap": 0, "linear_fdb_top": 0, "random_fdb_cap": 512})
)


def apart(frames: Iterable[bytes]) -> list[bytes]:
    """Each with a PSN and transaction id of its own, so that none is a copy of another; their CRCs stay as they were."""
    return [one[:17] + n.to_bytes(3, "big") + one[20:40] + n.to_bytes(4, "big") + one[44:] for n, one in enumerate(frames, 1)]


def judged(frames: list[bytes], rules: list[type[Rule]], few: int, window: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The findings, where as few SMPs of a window as `few` are compared with those before."""
    for module in (compared_with_answers, stateless_rules):
        monkeypatch.setattr(module, "SMALL", few)
    linter = Linter(rules, max_findings=None)
    for table in tables_of(erf_pcap(frames), window):
        linter.feed(table)
    return [(one.code, one.frame, one.count, one.severity, one.message, one.spans, one.related) for one in linter.finish()]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "window"), [(1, 2500), (2, 6000), (3, 12000), (4, 1 << 20)])
def test_nothing_is_overlooked(seed: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a subnet that come again and again in any order: what a rule says of a packet depends on what came before."""
    frames = apart(random.Random(seed).choices(AGAIN, k=120))
    rules = [rule for rule in load() if rule.code[:3] in ("SEM", "LNK", "SMP", "PKY", "OPA") and not rule.needs_crc]
    usual = judged(frames, rules, 1 << 30, window, monkeypatch)
    assert len({one[0] for one in usual}) > 5
    assert judged(frames, rules, 1, window, monkeypatch) == usual


@pytest.mark.parametrize("few", [1, 1 << 30])
@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([*RANDOM_ONLY, *ASKED], [("AM019", 3, 2)]),  # nothing to find for those about linear tables alone
        ([*LINEAR, *ASKED, *SMALLER, *ASKED], [("AM017", 7, 2)]),
        ([*LINEAR, *ASKED, *RANDOM_ONLY, *ASKED, *LINEAR, *ASKED], [("AM019", 7, 2)]),
    ],
)  # fmt: skip
def test_a_request_is_new_to_other_rules_and_where_its_node_shows_something_else(
    few: int, frames: list[bytes], expected: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of two packets."""
    found = judged(apart(frames), [rule for rule in load() if rule.code in ("AM017", "AM019")], few, 800, monkeypatch)
    assert [(code, frame, count) for code, frame, count, *_ in found] == expected


class OfPacket(Rule):
    """What one packet says is enough."""

    code, name, message, when = "ZYB001", "of-packet", "one", NodeInfo.revision == 7


class OfPort(Rule):
    """It depends on the kind of port."""

    code, name, message, when = "ZYB002", "of-port", "two", (PortInfo.neighbor_mtu == 9) & (PortInfo.mtu_cap > 1)


class OfTransaction(AttributeRule):
    """It depends on what makes no packet new."""

    code, name, example, message, why = "ZYB003", "of-transaction", "any", "{port}", "shown"
    at = PortInfo.neighbor_mtu
    when = ANSWERED & ((MAD.transaction_id & 0xFFFFFFFF) == 9)


for made in (OfPacket, OfPort, OfTransaction):
    REGISTRY.pop(made.code)


@few("few", [1, 1 << 30], fast=(1,))
def test_a_rule_that_asks_for_the_transaction_id_sees_every_packet(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [answer(5, NODE_INFO, node(5)), *[answer(5, PORT_INFO, port_info(5))] * 11]
    assert [one[1] for one in judged(apart(frames), [OfTransaction], few, 800, monkeypatch)] == [9]


@pytest.mark.parametrize(("revision", "mtu", "again", "found"), [(1, 5, 0, []), (7, 5, 1, [3, 8, 13]), (1, 9, 0, [5, 10, 15])])
def test_what_said_nothing_wrong_is_not_judged_again(
    revision: int, mtu: int, again: int, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a later window those are news of which a rule found something that asks nothing of the subnet; others have news of their own."""
    monkeypatch.setattr(stateless_rules, "SMALL", 5)
    of_nodes = [answer(5, NODE_INFO, node(5, **values)) for values in ({}, {}, {"revision": revision})]
    frames = [*of_nodes, *[answer(5, PORT_INFO, port_info(5, neighbor_mtu=value)) for value in (5, mtu)]]
    linter, news = Linter([OfPacket, OfPort], max_findings=None), []
    for table in tables_of(erf_pcap(apart(frames * 3)), len(erf_pcap(frames))):
        linter.feed(table)
        news.append(None if table.news is None else len(table.news.occurrences(NodeInfo)))
    assert news == [None, again, again] and [one.frame for one in linter.finish()] == found
