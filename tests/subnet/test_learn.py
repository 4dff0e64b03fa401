"""All that an answer tells is learnt, by whom it may be told, and only news is an event."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.wire.sm import SMInfo
from tests.cases import every
from tests.craft import build, smp

from .made import ANSWER, GET, SET, answer, ask, node, port_info, switch, switch_info
from .taught import taught

KEPT_PAGES, KIND = 16, "the type of a node"

SWITCH_INFO, LINEAR, RANDOM, MULTICAST, SM_INFO, DIAG = 0x12, 0x19, 0x1A, 0x1B, 0x20, 0x30


def test_a_node_is_found_once() -> None:
    found = taught(answer(5, 0x11, node(5)), answer(6, 0x11, node(6)), answer(5, 0x11, node(5))).told("NodeFound")
    assert [(one.frame, one.node.guid & 0xFF) for one in found] == [(1, 0x50), (2, 0x60)]


@every("change", [0, 1])
@every("multicast_top", [0, 0xC001])
def test_what_a_switch_says_of_itself(change: int, multicast_top: int) -> None:
    """A change of some link makes those learnt before it unsure; a multicast top of 0 means nothing."""
    info = switch_info(linear_fdb_top=77, multicast_fdb_top=multicast_top, port_state_change=change)
    found = taught(answer(5, 0x11, switch(5)), answer(5, SWITCH_INFO, info)).node
    assert (found.linear_top.now, found.linear_top.since, found.multicast_top.now) == (77, 2, multicast_top or None)
    assert (found.port_state_change, found.unsure) == (change, 2 * change)
    assert found.switch.now is not None and found.switch.now.linear_fdb_cap == 1024


def test_an_adapter_has_no_tables_of_a_switch() -> None:
    subnet = taught(answer(5, 0x11, node(5)), answer(5, SWITCH_INFO, switch_info()), answer(5, LINEAR, bytes(64))).subnet
    assert subnet.contradictions.unexplained == {KIND}
    adapter, other = subnet.slots.values()
    assert adapter.forwarding is None and adapter.switch.now is None and other.forwarding is not None
    (before, _), (since, _) = subnet.owner(5, 1), subnet.owner(5, 3)
    assert before is not None and before.node is adapter and since is not None and since.node is other, "a switch has its LID by now"
    subnet = taught(answer(5, 0x11, switch(5)), answer(5, SWITCH_INFO, switch_info())).subnet
    assert not subnet.contradictions.unexplained


@every(("attribute", "blocks", "weight"), [(LINEAR, (0, 2), 3), (RANDOM, (0, 2), 8), (MULTICAST, (0, 2), 8), (LINEAR, (768,), 0)])
def test_tables_of_a_switch(attribute: int, blocks: tuple[int, ...], weight: int) -> None:
    found = taught(answer(5, 0x11, switch(5)), *(answer(5, attribute, bytes(64), modifier=block) for block in blocks))
    tables = found.node.forwarding
    assert tables is not None and found.subnet.weight == found.node.weight == weight and not found.told("StateEvicted")
    shown = {LINEAR: [i for i, frame in enumerate(tables.linear.frames) if frame], RANDOM: [*tables.random], MULTICAST: [*tables.multicast]}
    assert shown[attribute] == ([*blocks] if weight else []) and sum(map(len, shown.values())) == len(shown[attribute])


def test_subnet_managers_and_what_is_news_of_them() -> None:
    """Another state, another priority, or a counter that went back."""

    def told(state: int, priority: int, count: int, guid: int = 9) -> bytes:
        return answer(5, SM_INFO, build(SMInfo, 64, guid=guid, sm_state=state, priority=priority, act_count=count))

    says = ((3, 1, 5), (3, 1, 5), (3, 1, 6), (3, 2, 6), (2, 2, 7), (2, 2, 6), (2, 2, 6))
    found = taught(answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5)), *(told(*one) for one in says), told(2, 0, 0, guid=8))
    seen = [(one.frame, one.before, one.priority_before, one.sm.guid) for one in found.told("SmSeen")]
    subnet = found.subnet
    assert seen == [(3, None, 0, 9), (6, 3, 1, 9), (7, 3, 2, 9), (8, 2, 2, 9), (10, None, 0, 8)]
    assert (subnet.sms[9].frame, subnet.sms[9].count, subnet.sms[9].now.lid, subnet.sms[9].now.state) == (9, 6, 5, 2)


@every(
    ("frame", "lid"),
    [(answer(5, 0x10, b"name" + bytes(60)), 5), (answer(0xBFFF, 0x10, bytes(64)), 0xBFFF), (answer(0xC000, 0x10, bytes(64)), None),
     (answer(0, 0x10, bytes(64)), None), (smp(ANSWER, 0x10, bytes(64), path=[1]), 0)],
)  # fmt: skip
def test_a_node_without_node_info_is_known_by_its_address(frame: bytes, lid: int | None) -> None:
    subnet = taught(frame).subnet
    assert [one.guid for one in subnet.slots.values()] == ([] if lid is None else [0])
    assert [*subnet.lids] == ([lid] if lid else [])


def test_a_page_of_diagnostics_is_kept_with_its_first_frame() -> None:
    """Of many pages the first stay."""
    known = answer(5, 0x11, node(5))
    pages = [answer(5, DIAG, page.to_bytes(2, "big") + bytes(62), modifier=1) for page in range(KEPT_PAGES + 3)]
    found = taught(known, pages[7], pages[7], *pages)
    ((page, *others),) = ([*port.pages.items()] for port in found.subnet.ports() if port.pages)
    assert page == (7, 2) and len(others) == KEPT_PAGES - 1 and dict(others)[0] == 4


def test_lids_are_news_and_none_is_not() -> None:
    """Neither of a port that lost its LID nor of one that never had any."""
    infos = ((8, [1]), (0, [1]), (0, [1, 2]))
    found = taught(answer(5, 0x11, node(5)), *(smp(ANSWER, 0x15, port_info(lid, lmc=1), path=path) for lid, path in infos))
    assert [(one.frame, one.lid, one.lmc, one.taken_from) for one in found.told("LidAssigned")] == [(2, 8, 1, None)]


@every("kind", [node, switch])
@every("modifier", [0, 1, 0x0102, 0x10000, 0x20002])
def test_lanes_of_an_adapter_are_those_of_its_port(kind: Any, modifier: int) -> None:
    """Whatever the modifier; a switch has a table for each output port that is known."""
    table = bytes(range(8))
    subnet = taught(answer(5, 0x11, kind(5, local_port_num=1)), answer(5, 0x17, table + bytes(56), modifier=modifier)).subnet
    held = {port.number: (port.qos.first, port.qos.inputs, port.qos.frame) for port in subnet.ports() if port.qos is not None}
    every = (1 << 9) - 1
    numbers = range(9) if modifier >> 16 & 1 else (modifier & 0xFF,)
    inputs = every if modifier >> 17 & 1 else 1 << (modifier >> 8 & 0xFF)
    assert held == ({1: (table, 1, 2)} if kind is node else {number: (table, inputs, 2) for number in numbers})


@pytest.mark.parametrize(("kind", "attribute"), [(node, 0x17), (switch, 0x17), (switch, 0x18)])
def test_tables_of_ports_that_are_not_there(kind: Any, attribute: int) -> None:
    """A switch of eight ports has no ninth."""
    modifier = 9 if attribute == 0x17 else 1 << 16 | 9
    subnet = taught(answer(5, 0x11, kind(5)), answer(5, attribute, bytes(64), modifier=modifier)).subnet
    assert {port.number for port in subnet.ports() if port.qos is not None} == ({1} if kind is node else set())


@pytest.mark.parametrize("number", [0, 3])
def test_a_manager_behind_a_switch_whose_own_port_nobody_showed_has_no_lid(number: int) -> None:
    """Port 0 of a switch has its LID, whichever port the SMP entered by."""
    said = ((0x11, switch(9, local_port_num=3), 0), (0x15, port_info(9), number),
            (SM_INFO, build(SMInfo, 64, guid=5, sm_state=3, priority=2), 0), (DIAG, (7).to_bytes(2, "big") + bytes(62), 0))  # fmt: skip
    found = taught(*(smp(ANSWER, attribute, body, path=[1], modifier=modifier) for attribute, body, modifier in said))
    (manager,) = found.subnet.sms.values()
    assert (manager.now.state, manager.now.priority, manager.now.lid, manager.frame) == (3, 2, 0 if number else 9, 3)
    assert {port.number: port.pages for port in found.subnet.ports() if port.pages} == {0: {7: 4}}
    (one,) = found.told("SmSeen")
    assert (one.before, one.priority_before, one.frame) == (None, 0, 3)


@every(
    ("protect", "key", "presented", "method", "shown"),
    [(1, 7, 0, GET, True), (1, 7, 8, GET, True), (1, 7, 7, GET, False), (0, 7, 0, GET, False), (2, 7, 0, GET, False), (1, 0, 0, GET, False),
     (1, 7, 0, SET, False)],
)  # fmt: skip
def test_a_key_that_is_shown_to_who_does_not_know_it(protect: int, key: int, presented: int, method: int, shown: bool) -> None:
    """With protect bits 1 a port hides its key from a Get without it."""
    body = port_info(5, m_key=key, m_key_protect_bits=protect)
    first = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, m_key=key or 9), m_key=key or 9)]
    asks = {"header": {"transaction_id": 77}}
    asked = ask(5, 0x15, method=method, body=body if method == SET else b"", m_key=presented, **asks)
    shown_to = taught(*first, asked, answer(5, 0x15, body, **asks)).told("MKeyShown")
    told = [(one.frame, one.asked, one.presented) for one in shown_to]
    assert told == ([(4, 3, presented)] if shown else [])
