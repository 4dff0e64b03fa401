"""Times are counted in their classes, within the room that all directions share."""

from __future__ import annotations

import random
from typing import Any

from tests.engine.plain import plain


def made() -> tuple[Any, Any]:
    return plain("answer_times").Gaps(), plain("waiting_packets").Room()


def test_a_class_is_a_sixteenth_of_an_octave() -> None:
    gaps, room = made()
    for gap in (0, 15, 31, 32, 33, 34, 1 << 52):
        assert gaps.add(room, gap, 1 << 53) == 0
    found = {what: (number, total) for what, number, total in gaps.classes()}
    assert found[1 << 5 | 16] == (2, 65) and found[1 << 5 | 17] == (1, 34)  # 32 and 33 are one class, 34 is the next
    assert {what: found[what] for what in (0, 15, 31)} == {0: (1, 0), 15: (1, 15), 31: (1, 31)} and gaps.count == len(found) == 6


def test_nothing_is_lost_while_the_table_grows() -> None:
    gaps, room = made()
    r = random.Random(5)
    times = [r.randrange(1 << r.randrange(1, 40)) for _ in range(3000)]
    whole = room.entries
    assert not any(gaps.add(room, gap, 1 << 50) for gap in times)
    found = gaps.classes()
    assert sum(number for _, number, _ in found) == 3000 and sum(total for _, _, total in found) == sum(times)
    assert len({what for what, _, _ in found}) == len(found) == gaps.count == whole - room.entries > 100


def test_without_room_known_classes_go_on() -> None:
    gaps, room = made()
    room.entries = 1
    assert [gaps.add(room, gap, 1 << 50) for gap in (10, 20, 10)] == [0, 1, 0]
    assert gaps.classes() == [(10, 2, 20)] and room.entries == 0


def test_times_from_a_round_trip_on_need_no_class() -> None:
    gaps, room = made()
    assert [gaps.add(room, gap, 100) for gap in (99, 100, 101)] == [0, 0, 0]
    assert (gaps.count, gaps.long_count, gaps.long_sum) == (1, 2, 201)
