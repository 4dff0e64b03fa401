"""Changes of the subnet are reported in order, without the discovery, bounded and without keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.subnet import changes
from ibdissect.wire.notice import Notice
from tests import craft
from tests.cases import every
from tests.subnet.made import ANSWER, REPRESS, answer, ask, node, p_keys, port_info, switch
from tests.subnet.taught import taught

NODE_INFO, PORT_INFO, P_KEY_TABLE, NOTICE = 0x11, 0x15, 0x16, 0x02
KNOWN = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
BODY = craft.build(Notice, 64, is_generic=1, trap_number=144)
HOSTS = range(11, 17)


def trap(lid: int = 5, body: bytes = BODY) -> bytes:
    return craft.smp(0x05, NOTICE, body, slid=lid, dlid=1, header={"transaction_id": 9})


TRAP = trap()


def repress(transaction: int, lid: int = 5) -> bytes:
    """The manager acknowledges a trap."""
    return ask(lid, NOTICE, method=REPRESS, body=BODY, header={"transaction_id": transaction})


def changes_of(frames: Sequence[bytes]) -> list[Any]:
    """What happened in a capture of these frames."""
    return taught(*frames).changes


def behind(hop: int, attribute: int, body: bytes) -> bytes:
    """An answer of who is behind a port of the first switch."""
    return craft.smp(ANSWER, attribute, body, path=[1, hop])


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
    found = taught(*KNOWN, *[TRAP] * 5)
    assert len(found.changes) == 3 and found.forgotten == 2


@every(
    ("before", "after", "text"),
    [
        (None, 7, None), (7, 7, None), (0, 0, None), (0, 7, "has an M_Key"), (7, 0, "has no M_Key any more"), (7, 8, "has another M_Key"),
    ],
)  # fmt: skip
def test_what_became_of_an_m_key(before: int | None, after: int, text: str | None) -> None:
    """Other protect bits or another lease are no change; nor is the first sight of a port."""
    earlier = [] if before is None else [port_info(5, m_key=before, m_key_lease_period=5)]
    later = port_info(5, m_key=after, m_key_lease_period=6, m_key_protect_bits=int(after > 0))
    found = changes_of([KNOWN[0], *(answer(5, PORT_INFO, body) for body in [*earlier, later])])
    assert [one.text for one in found] == ([f"0x{0x0002C90300001050:016x} port 1 (LID 5) {text}"] if text else [])


def test_a_lid_that_somebody_took_over() -> None:
    """Who has it for a while and who takes it back; the same LID again is no news."""
    nodes = [behind(hop, NODE_INFO, node(hop)) for hop in (3, 4)]
    lids = ((3, 5), (3, 5), (4, 5), (3, 6), (3, 6), (3, 5))
    found = changes_of([*nodes, *(behind(hop, PORT_INFO, port_info(lid)) for hop, lid in lids)])
    assert [(one.kind, one.frame) for one in found] == [("lid", 5), ("lid", 6), ("lid", 8)]


def known_hosts() -> list[bytes]:
    """Each behind a port of the switch, with a LID and a table of its own."""
    first = [craft.smp(ANSWER, NODE_INFO, node(1), path=[]), craft.smp(ANSWER, NODE_INFO, switch(2, 20, local_port_num=1), path=[1])]
    told = ((NODE_INFO, node), (PORT_INFO, port_info), (P_KEY_TABLE, lambda _: p_keys(0xFFFF)))
    return first + [behind(lid, attribute, body(lid)) for attribute, body in told for lid in HOSTS]


def test_as_many_ports_are_remembered_as_the_bounds_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that came first stay; of others only what an event itself tells is reported."""
    monkeypatch.setattr(changes, "MAX_KNOWN", 2)
    table = p_keys(0xFFFF, 0x8001)
    again = [[answer(lid, P_KEY_TABLE, table), *(behind(lid, PORT_INFO, port_info(lid + more)) for more in (20, 40))] for lid in HOSTS]
    start = known_hosts()
    found = changes_of([*start, *(frame for frames in again for frame in frames)])
    at = len(start) + 1
    assert [(one.kind, one.frame) for one in found] == [
        ("p-keys", at), ("lid", at + 1), ("lid", at + 2), ("p-keys", at + 3), ("lid", at + 4), ("lid", at + 5),
    ]  # fmt: skip


def test_as_many_lost_links_and_traps_wait_as_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, a restored link is no news, and a trap finds no TrapRepress; traps of unknown ports wait for none."""
    monkeypatch.setattr(changes, "MAX_WAITING", 2)
    one, other, third, *_ = HOSTS
    gone = [craft.smp(ANSWER, PORT_INFO, port_info(0, port_state=1), path=[1], modifier=lid) for lid in (one, other)]
    back = [behind(lid, NODE_INFO, node(lid)) for lid in (one, other)]
    start = known_hosts()
    at = len(start) + 1
    found = changes_of([*start, *gone, *back])
    assert [(each.kind, each.frame) for each in found] == [("link-lost", at), ("link-lost", at + 1), ("link-found", at + 2)]
    lids = (99, one, other, third)
    found = changes_of([*start, *map(trap, lids), *(repress(9, lid) for lid in lids)])
    assert [each.repressed for each in found] == [None, at + 5, at + 6, None]


@pytest.mark.parametrize(
    ("notice", "text"), [({"is_generic": 1, "trap_number": 0}, "trap 0 of LID 5"), ({"is_generic": 1, "trap_number": 1}, "trap 1 of LID 5"),
                         ({"trap_number": 1}, "trap of a vendor of LID 5")])  # fmt: skip
def test_which_trap_it_was(notice: dict[str, int], text: str) -> None:
    assert [one.text for one in changes_of([trap(5, craft.build(Notice, 64, **notice))])] == [text]
