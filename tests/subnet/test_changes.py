"""Changes of the subnet are reported in order, without the discovery, bounded and without keys."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.subnet import FabricFollower, changes
from ibdissect.subnet.changes import ChangeLog, FabricChange
from ibdissect.subnet.events import FabricEvent, LidAssigned, LinkFound, LinkLost, MKeyLearnt, PKeysLearnt, RepressSeen, SmSeen, TrapSeen
from ibdissect.subnet.m_keys import MKey
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Port, SmFacts
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


class Made:
    """Ports of a subnet, and the changes that events about them leave."""

    def __init__(self) -> None:
        self.subnet, self.log = Subnet(), ChangeLog()

    def port(self, guid: int) -> Port:
        return self.subnet.port(self.subnet.node(guid, 1)[0], 1, 1)

    def take(self, *events: FabricEvent) -> list[tuple[str, int]]:
        """The kind and frame of what each of them adds."""
        known = len(self.log.happened)
        for event in events:
            self.log.take(event)
        return [(one.kind, one.frame) for one in self.log.happened[known:]]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, 7, None), (7, 7, None), (0, 0, None), (0, 7, "has an M_Key"), (7, 0, "has no M_Key any more"), (7, 8, "has another M_Key"),
    ],
)  # fmt: skip
def test_what_became_of_an_m_key(before: int | None, after: int, text: str | None) -> None:
    """Other protect bits or another lease are no change; nor is the first sight of a port."""
    made = Made()
    port = made.port(7)
    made.take(MKeyLearnt(3, 0, port, None if before is None else MKey(before, 0, 5), MKey(after, 1, 6)))
    assert [one.text for one in made.log.happened] == ([f"0x{7:016x} port 1 {text}"] if text else [])


def test_a_link_is_restored_once() -> None:
    """A cable that is found first, or found again without a loss, is no news; either end of a lost one may come back elsewhere."""
    made = Made()
    one, two, three, four = map(made.port, (1, 2, 3, 4))
    assert made.take(LinkFound(1, 0, one, two), LinkLost(2, 0, one, two)) == [("link-lost", 2)]
    assert made.take(LinkFound(3, 0, two, one), LinkFound(4, 0, one, two)) == [("link-found", 3)]
    assert made.take(LinkLost(5, 0, one, two), LinkFound(6, 0, three, four)) == [("link-lost", 5)]
    assert made.take(LinkFound(7, 0, one, three), LinkFound(8, 0, four, two)) == [("link-found", 7), ("link-found", 8)]


def test_a_lid_that_somebody_took_over() -> None:
    made = Made()
    one, two = made.port(1), made.port(2)
    assert made.take(LidAssigned(1, 0, one, 5, 0, None), LidAssigned(2, 0, one, 5, 0, None)) == []
    assert made.take(LidAssigned(3, 0, two, 5, 0, one), LidAssigned(4, 0, one, 6, 0, None)) == [("lid", 3), ("lid", 4)]
    assert made.take(LidAssigned(5, 0, one, 6, 0, None), LidAssigned(6, 0, one, 5, 0, two)) == [("lid", 6)]


def test_as_many_ports_are_remembered_as_the_bounds_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that came first stay; of others only what an event itself tells is reported."""
    monkeypatch.setattr(changes, "MAX_KNOWN", 2)
    monkeypatch.setattr(changes, "MAX_WAITING", 2)
    made = Made()
    ports = [made.port(guid) for guid in range(1, 7)]
    made.take(*(LidAssigned(1, 0, port, 5, 0, None) for port in ports), *(PKeysLearnt(1, 0, port, 0) for port in ports))
    again = [
        made.take(LidAssigned(2, 0, port, 6, 0, None), LidAssigned(3, 0, port, 7, 0, None), PKeysLearnt(4, 0, port, 0)) for port in ports
    ]
    assert again == [[("lid", 2), ("lid", 3), ("p-keys", 4)]] * 2 + [[]] * 4
    made.take(*(LinkLost(5, 0, near, far) for near, far in zip(ports[::2], ports[1::2], strict=True)))
    assert [made.take(LinkFound(6, 0, port, made.port(9))) for port in ports[:3]] == [[("link-found", 6)]] * 2 + [[]]
    traps = [TrapSeen(7, 0, port, BODY, 9, 5, 1, 0, False, 0) for port in (None, *ports[:3])]
    made.take(*traps, *(RepressSeen(8, 0, port, 1, 5, 9, BODY) for port in (None, *ports[:3])))
    assert [one.repressed for one in made.log.happened if one.kind == "trap"] == [None, 8, 8, None]


@pytest.mark.parametrize(
    ("notice", "text"), [({"is_generic": 1, "trap_number": 0}, "trap 0 of LID 5"), ({"is_generic": 1, "trap_number": 1}, "trap 1 of LID 5"),
                         ({"trap_number": 1}, "trap of a vendor of LID 5")])  # fmt: skip
def test_which_trap_it_was(notice: dict[str, int], text: str) -> None:
    made = Made()
    made.take(TrapSeen(7, 0, None, craft.build(Notice, 64, **notice), 9, 5, 1, 0, False, 0))
    assert [one.text for one in made.log.happened] == [text]


@pytest.mark.parametrize(
    ("before", "now", "priority", "text"),
    [
        (None, SmFacts(3, 4, 0), 0, "subnet manager 0x0000000000000017 is master, priority 4"),
        (0, SmFacts(9, 4, 1), 4, "subnet manager 0x0000000000000017 (LID 1) was not active, is 9, priority 4"),
        (9, SmFacts(0, 4, 1), 4, "subnet manager 0x0000000000000017 (LID 1) was 9, is not active, priority 4"),
        (3, SmFacts(3, 4, 1), 5, "subnet manager 0x0000000000000017 (LID 1) has priority 4, had 5"), (3, SmFacts(3, 4, 1), 4, None),
    ],
)  # fmt: skip
def test_what_a_manager_became(before: int | None, now: SmFacts, priority: int, text: str | None) -> None:
    made = Made()
    sm = made.subnet.sm(0x17)
    sm.facts.learn(now, 1)
    made.take(SmSeen(7, 0, sm, before, priority, 0))
    assert [one.text for one in made.log.happened] == [text] * (text is not None)
