"""Every event names the follower that emits it, so that the engine feeds it, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.wire.notice import Notice
from tests.craft import build, smp
from tests.subnet.made import REPRESS, SET, answer, ask, node, port_info
from tests.subnet.taught import EVENTS, Taught, taught

KNOWN = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, m_key=7), m_key=7)]


def test_every_event_has_its_source() -> None:
    assert len(EVENTS) > 10 and {kind.source for kind in EVENTS.values()} == {type(Taught().follower)}


def test_whose_trap_it_is() -> None:
    """The port's, if it is known, else the LID's: of a trap where it comes from, of a TrapRepress where it goes to."""
    frames = [smp(0x05, 0x02, build(Notice, 64, is_generic=bit, trap_number=144), slid=5, dlid=1) for bit in (0, 1)]
    frames += [ask(lid, 0x02, method=REPRESS, body=build(Notice, 64)) for lid in (5, 6)]
    for known in (KNOWN, []):
        traps = taught(*known, *frames).told("TrapSeen")
        assert [one.number for one in traps] == [-1, 144]
        assert {one.sender for one in traps} == {"0x0002c90300001050 port 1 (LID 5)" if known else "LID 5"}
        to_it, elsewhere = taught(*known, *frames).told("RepressSeen")
        assert to_it.target == traps[0].origin == traps[1].origin != elsewhere.target
        assert elsewhere.target.lid == 6


def askers(*frames: bytes) -> list[Any]:
    """Who presents a wrong M_Key."""
    return [one.asker for one in taught(*KNOWN, *frames).told("WrongMKey")]


@pytest.mark.parametrize("number", [5, 0xFFFF])
def test_the_sender_of_a_directed_route_is_no_lid(number: int) -> None:
    """Although it is known by a number, too: the high half of its transaction ids."""
    sweep = smp(0x81, 0x11, node(5), path=[1], header={"transaction_id": number << 32})
    by_lid = [ask(5, 0x16, method=SET, m_key=9, slid=number), ask(5, 0x16, method=SET, m_key=9, slid=number + 1)]
    directed = smp(SET, 0x16, path=[1], m_key=9, header={"transaction_id": number << 32 | 1})
    one, other, route, again = askers(sweep, *by_lid, directed, by_lid[0])
    assert one == again and type(one) is type(again) is type(other) and one != other
    assert type(route) is not type(one)
