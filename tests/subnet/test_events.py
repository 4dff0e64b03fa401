"""Every event names the follower that emits it, so that the engine feeds it."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.decode.identity import LidId, SenderId
from ibdissect.subnet import FabricFollower, events
from ibdissect.subnet.events import FabricEvent, RepressSeen, TrapSeen, WrongMKey
from ibdissect.subnet.m_keys import MKey
from ibdissect.subnet.model import Subnet
from ibdissect.wire.notice import Notice
from tests.craft import build

DIRECTED_SENDER = 1 << 16


def test_every_event_has_its_source() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, FabricEvent)]
    assert len(kinds) > 10 and {kind.source for kind in kinds} == {FabricFollower}


def test_whose_trap_it_is() -> None:
    """The port's, if it is known, else the LID's: of a trap where it comes from, of a TrapRepress where it goes to."""
    subnet = Subnet()
    port = subnet.port(subnet.node(7, 1)[0], 1, 1)
    subnet.assign(port, 5, 0, 1)
    for known in (port, None):
        trap = TrapSeen(3, 0, known, bytes(64), 9, 5, 1, 0, False, 0)
        repress = RepressSeen(4, 0, known, 1, 6, 9, bytes(64))
        assert (trap.origin, repress.target) == ((port.id, port.id) if known else (LidId(5), LidId(6)))
        assert trap.sender == (f"0x{7:016x} port 1 (LID 5)" if known else "LID 5")
    generic = [TrapSeen(3, 0, None, build(Notice, 64, is_generic=bit, trap_number=144), 9, 5, 1, 0, False, 0).number for bit in (0, 1)]
    assert generic == [-1, 144]


@pytest.mark.parametrize(("sender", "asker"), [(5, LidId(5)), (0xFFFF, LidId(0xFFFF)), (DIRECTED_SENDER + 5, SenderId(5))])
def test_the_sender_of_a_directed_route_is_no_lid(sender: int, asker: LidId | SenderId) -> None:
    port: Any = None
    event = WrongMKey(1, 0, port, MKey(1, 2, 0), 1, 1, 0, sender, False, 0, 0x15)
    assert event.asker == asker and type(event.asker) is type(asker)
