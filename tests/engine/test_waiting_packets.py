"""Packets that wait are kept in order, and within their bound."""

from __future__ import annotations

from ibdissect.engine import packet_kinds
from tests.engine.plain import plain


def test_the_ring_goes_round_and_grows() -> None:
    waits, room = plain("waiting_packets").Waits(), plain("waiting_packets").Room()
    assert waits.first() is None
    seen = []
    for i in range(100):
        assert waits.add(room, i, i + 1, 10 * i, 100 + i, 7, 8) == 0
        if i % 3 == 2:
            seen.append(waits.value(0, 0))
            waits.drop()
    while waits.count:
        assert waits.first() == (waits.value(0, 0), 100 + waits.value(0, 0), 7)
        seen.append(waits.value(0, 0))
        waits.drop()
    assert seen == list(range(100))


def test_it_is_bounded() -> None:
    waits, room = plain("waiting_packets").Waits(), plain("waiting_packets").Room()
    assert [waits.add(room, i, i + 1, 0, 0, 0, 0) for i in range(packet_kinds.MAX_WAITING + 2)] == [0] * packet_kinds.MAX_WAITING + [1, 1]


def test_all_directions_share_their_room() -> None:
    room = plain("waiting_packets").Room()
    room.waiting = 8
    one, other = plain("waiting_packets").Waits(), plain("waiting_packets").Waits()
    assert [waits.add(room, i, i + 1, 0, 0, 0, 0) for i in range(5) for waits in (one, other)] == [0] * 8 + [1, 1]
    one.drop()
    assert one.add(room, 5, 6, 0, 0, 0, 0) == 0 and room.waiting == 0


def test_the_newest_request_may_end_later_or_sooner() -> None:
    waits, room = plain("waiting_packets").Waits(), plain("waiting_packets").Room()
    waits.ends(1, 5)
    for pos in (1, 2):
        waits.add(room, pos, pos + 1, 0, 0, 0, 0)
    waits.ends(1, 9)
    waits.ends(2, 7)
    assert (waits.value(0, 1), waits.value(1, 1)) == (2, 7)


def test_a_path_knows_its_pauses() -> None:
    second, path = packet_kinds.APART_NS, plain("waiting_packets").Path(plain("waiting_packets").Room())
    assert path.passed_around(5) == (-second, 0)
    for time in (10, 10 + second - 1, 20 + 2 * second, 20 + 5 * second):
        if time - path.passed >= second:
            path.resumes(time)
        path.passed = time
    assert path.pauses == [(9 + second, 20 + 2 * second), (20 + 2 * second, 20 + 5 * second)]
    assert [path.passed_around(time) for time in (9, 11, 9 + second, 19 + 2 * second, 20 + 5 * second)] == [
        (0, 10), (11, 11), path.pauses[0], path.pauses[0], (20 + 5 * second, 0),
    ]  # fmt: skip


def test_without_room_a_path_knows_only_since_its_last_pause() -> None:
    """What it forgets gives room to others; the lists of directions have theirs."""
    path = plain("waiting_packets").Path(plain("waiting_packets").Room())
    whole, path.room.pauses = path.room.entries, 1
    for time in (10, 20, 30):
        path.resumes(time)
        path.passed = time
    assert (path.began, path.pauses, path.passed_around(15)) == (30, [], (0, 30))
    assert (path.room.pauses, path.room.entries) == (1, whole)
