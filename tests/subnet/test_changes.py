"""Changes of the subnet are reported in order, without the discovery, bounded and without keys."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.subnet import FabricFollower, changes
from ibdissect.subnet.changes import ChangeLog, FabricChange
from ibdissect.wire.notice import Notice
from tests import craft
from tests.decode.made import tables_of
from tests.subnet.made import REPRESS, answer, ask, node, p_keys, port_info

NODE_INFO, PORT_INFO, P_KEY_TABLE, NOTICE = 0x11, 0x15, 0x16, 0x02
KNOWN = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
BODY = craft.build(Notice, 64, is_generic=1, trap_number=144)
TRAP = craft.smp(0x05, NOTICE, BODY, slid=5, dlid=1, header={"transaction_id": 9})


def repress(transaction: int) -> bytes:
    """The manager acknowledges a trap."""
    return ask(5, NOTICE, method=REPRESS, body=BODY, header={"transaction_id": transaction})


def changes_of(frames: Sequence[bytes]) -> list[FabricChange]:
    """What happened in a capture of these frames."""
    follower, kept = FabricFollower(), ChangeLog()
    for table in tables_of(craft.erf_pcap(frames)):
        for event in follower.feed(table):
            kept.take(event)
    return kept.happened


def test_discovery_is_no_news() -> None:
    assert changes_of(KNOWN) == []


def test_a_repress_belongs_to_the_trap_of_its_transaction() -> None:
    assert [(one.kind, one.frame, one.repressed) for one in changes_of([*KNOWN, TRAP, repress(8), repress(9)])] == [("trap", 4, 6)]
    assert [one.repressed for one in changes_of([*KNOWN, TRAP, repress(8)])] == [None]


def test_changes_are_shown_without_keys() -> None:
    key = 0x4142434445464748
    frames = [
        *KNOWN, answer(5, PORT_INFO, port_info(5, m_key=key)), answer(5, PORT_INFO, port_info(5, m_key=key + 1)),
        answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x8001)),
    ]  # fmt: skip
    found = changes_of(frames)
    assert [(one.kind, one.frame) for one in found] == [("m-key", 5), ("p-keys", 6)]
    assert all("4142" not in one.text for one in found)


def test_a_lid_that_moves() -> None:
    shown = [(NODE_INFO, node(5)), (PORT_INFO, port_info(5)), (PORT_INFO, port_info(7)), (PORT_INFO, port_info(7))]
    found = changes_of([craft.smp(0x81, attribute, body, path=[1, 2]) for attribute, body in shown])
    assert [(one.kind, one.frame, one.text[-9:]) for one in found] == [("lid", 3, "LID was 5")]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_KEPT", 3)
    kept = ChangeLog()
    follower = FabricFollower()
    for table in tables_of(craft.erf_pcap([*KNOWN, *[TRAP] * 5])):
        for event in follower.feed(table):
            kept.take(event)
    assert len(kept.happened) == 3 and kept.happened.dropped.count == 2
