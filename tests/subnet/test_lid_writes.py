"""Certainty about a port's LID, and changes where the capture shows no Set."""

from __future__ import annotations

import pytest

from ibdissect.subnet import FabricFollower, lid_writes
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Port
from ibdissect.wire.sm_port import PortInfo
from tests import craft
from tests.cases import every
from tests.decode.made import tables_of
from tests.subnet.made import SET, answer, ask, history, node, port_info, switch


def moved() -> tuple[LidWrites, Port]:
    """A port that has LID 5 from frame 10 on and LID 6 from frame 20 on."""
    subnet = Subnet()
    port = subnet.port(subnet.node(1, 1)[0], 1, 1)
    subnet.assign(port, 5, 0, 10)
    subnet.assign(port, 6, 0, 20)
    return LidWrites(history(PortInfo)), port


@every(
    ("written", "unseen"),
    [(None, True), ((6, 9), True), ((6, 10), False), ((6, 15), False), ((6, 20), False), ((6, 21), True), ((5, 15), True), ((7, 15), True)],
)
def test_a_change_is_seen_if_a_set_of_that_lid_stands_before_it(written: tuple[int, int] | None, unseen: bool) -> None:
    writes, port = moved()
    if written is not None:
        writes.latest[port.key] = (8, 1), written
    for frame in (10, 15, 19):
        assert writes.changed_unseen(port, frame) is unseen
    assert not writes.changed_unseen(port, 20) and not writes.changed_unseen(port, 99), "nothing changed later"


@every(("written", "certain"), [(None, False), (14, True), (15, False), (16, False)])
def test_an_earlier_lid_is_certain_once_sets_of_the_port_are_captured(written: int | None, certain: bool) -> None:
    writes, port = moved()
    if written is not None:
        writes.written[port.key] = written
    assert writes.is_certain(port, 15) is certain
    assert not writes.is_certain(port, 10), "that frame itself shows it"
    assert not writes.is_certain(port, 9), "it had none"
    if written is not None:
        assert writes.change_frames(port) == {written + 1}


def test_what_a_file_says_holds() -> None:
    subnet = Subnet()
    port = subnet.port(subnet.node(1, -2)[0], 1, -2)
    subnet.assign(port, 5, 0, -2)
    assert LidWrites(history(PortInfo)).is_certain(port, 1)


@pytest.mark.parametrize(("bound", "known", "dropped"), [(3, 3, 0), (2, 2, 1), (1, 1, 2)])
def test_ports_beyond_the_bound_are_counted(bound: int, known: int, dropped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Set in a chunk of its own; what is known goes on, and only new ports are dropped."""
    monkeypatch.setattr(lid_writes, "MAX_PORTS", bound)
    frames = [answer(lid, 0x11, node(lid)) for lid in (5, 6, 7)]
    frames += [ask(lid, 0x15, method=SET, body=port_info(lid + add)) for add in (0, 1) for lid in (5, 6, 7)]
    follower, writes = FabricFollower(), LidWrites(history(PortInfo))
    for table in tables_of(craft.erf_pcap(frames), window=16):
        for event in follower.feed(table):
            if isinstance(event, ChunkFollowed):
                writes.take(event)
    assert len(writes.written) == len(writes.latest) == known and writes.dropped.count == 2 * dropped
    assert sorted(writes.written.values()) == [4, 5, 6][:known]
    assert sorted(writes.latest.values()) == [((5 + i, 4 + i), (6 + i, 7 + i)) for i in range(known)]


@every(
    ("written", "until", "certain"),
    [(None, None, False), (None, 30, False), (99, 30, True), (99, None, False), (14, 30, True), (14, None, True)],
)
def test_a_lid_is_certain_if_a_set_of_the_port_is_captured_at_all(written: int | None, until: int | None, certain: bool) -> None:
    writes, port = moved()
    if written is not None:
        writes.written[port.key] = written
    assert writes.is_certain(port, 15, until) is certain


@pytest.mark.parametrize("since", [0, 5, -2])
def test_a_port_without_a_lid_is_never_certain(since: int) -> None:
    subnet = Subnet()
    port = subnet.port(subnet.node(1, 1)[0], 1, 1)
    writes = LidWrites(history(PortInfo))
    assert not writes.is_certain(port, 9)
    if since:
        subnet.assign(port, 5, 0, since)
        writes.written[port.key] = 1
        assert writes.is_certain(port, 9) and writes.is_certain(port, 6) and writes.is_certain(port, 5) is (since < 0)
        subnet.assign(port, 0, 0, 7)
        assert not writes.is_certain(port, 9)


def test_a_later_answer_shows_the_lid_again() -> None:
    """External ports of a switch have no LIDs: their Sets say nothing."""
    infos, follower = history(PortInfo), FabricFollower()
    writes = LidWrites(infos)
    frames = [
        answer(5, 0x11, node(5)),
        answer(5, 0x15, port_info(5)),
        craft.native(),
        answer(5, 0x15, port_info(5)),
        answer(7, 0x11, switch(7)),
    ]
    frames += [ask(7, 0x15, method=SET, modifier=number, body=port_info(7)) for number in (0, 1)]
    for table in tables_of(craft.erf_pcap(frames)):
        for event in follower.feed(table):
            if isinstance(event, ChunkFollowed):
                writes.take(event)
    (port,) = [one for one in follower.subnet.ports() if one.lid == 5]
    assert [writes.last_shown(port, frame) for frame in (2, 3, 4, 5, 99)] == [0, 2, 2, 4, 4]
    assert [writes.is_certain(port, 3, until) for until in (3, 4, 5)] == [False, False, True] and writes.change_frames(port) == {2, 4}
    assert [key & 0xFF for key in writes.written] == [0] and [*writes.latest] == [*writes.written]


def test_when_ports_began_to_be_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first SMP about a port in the chunk."""
    monkeypatch.setattr(lid_writes, "MAX_PORTS", 0)
    follower, writes = FabricFollower(), LidWrites(history(PortInfo))
    frames = [answer(5, 0x11, node(5)), craft.native(), *[ask(5, 0x15, method=SET, body=port_info(lid)) for lid in (5, 6)]]
    for table in tables_of(craft.erf_pcap(frames)):
        for event in follower.feed(table):
            if isinstance(event, ChunkFollowed):
                writes.take(event)
    assert (writes.dropped.count, writes.dropped.frame, writes.dropped.time_ns % 1_000_000_000) == (1, 3, 2_000_000)
    assert not writes.latest and not writes.written


@pytest.mark.parametrize(("after", "gained"), [(9, True), (10, False), (11, False)])
def test_the_first_lid_of_a_port_may_have_been_written_just_then(after: int, gained: bool) -> None:
    """Frame 10 shows it: whether the port had another one before is open if it was written by then, or nobody knows the port."""
    writes, port = moved()
    assert not writes.gained(port, after)
    writes.written[port.key] = 11
    assert not writes.gained(port, after)
    writes.written[port.key] = 10
    assert writes.gained(port, after) is gained
    writes.written.clear()
    writes.dropped.add(3, 0)
    assert writes.gained(port, after) is gained
    writes.dropped.count, port.node.guid = 0, 0
    assert writes.gained(port, after) is gained
