"""A queue pair that was made again is told from a requester that uses PSNs again."""

from __future__ import annotations

from tests.cases import every
from tests.diagnosis.lab import MS, READ, SEC, SEND_FIRST, SEND_LAST, SEND_MIDDLE, US, Lab


def again(pause: int, msn: int, psn: int = 102, count: int = 3) -> Lab:
    """Six messages, then `count` others from a PSN on, whose first one looks as before."""
    lab = Lab()
    for i in range(6):
        lab.ask(i * MS, 100 + i, fill=1)
        lab.answer(i * MS + 5 * US, 100 + i, msn=i + 1)
    start = 5 * MS + 5 * US + pause
    for i in range(count):
        lab.ask(start + i * 10 * US, psn + i, fill=i + 1)
    lab.answer(start + SEC // 1000, psn + count - 1, msn=msn)
    return lab


@every(("pause", "msn", "reused"), [
    (MS - 1, 6, True), (MS, 6, True),  # the responder acknowledges them with the MSN of all messages before, as repetitions
    (MS - 1, 5, True), (MS, 5, False), (MS, 7, False), (MS, 3, False),  # it counts from the start, or takes them for new ones
])  # fmt: skip
def test_after_a_silence_the_responder_tells(pause: int, msn: int, reused: bool) -> None:
    """A connection that begins anew has MSNs from 1 on."""
    assert ("psn-reused" in [one.cause for one in again(pause, msn).diagnosis().connections]) is reused


def test_as_many_messages_as_before_tell_nothing() -> None:
    lab = again(MS, 6, psn=100, count=6)
    assert "psn-reused" not in [one.cause for one in lab.diagnosis().connections]


@every(("far", "lives"), [(1 << 16, 1), ((1 << 16) + 1, 2)])
@every("back", [False, True])
def test_far_psns_are_another_connection(far: int, lives: int, back: bool) -> None:
    lab = Lab()
    lab.good(0, 200_000, 3)
    lab.good(20 * MS, 200_003 + (-far if back else far), 3)
    assert len(lab.diagnosis().connections) == lives


def test_behind_a_long_read_psns_are_far() -> None:
    """Its responses take the PSNs between."""
    lab = Lab()
    lab.good(0, 100, 3)
    lab.ask(10 * MS, 103, 0, READ, dma=1 << 26)
    lab.good(20 * MS, 103 + (1 << 18), 3)
    assert len(lab.diagnosis().connections) == 1


@every("order", [(0, 1, 2, 3, 4, 5, 6, 7), (1, 0, 2, 3, 4, 5, 6, 7), (0, 1, 3, 2, 4, 6, 5, 7), (1, 0, 3, 2, 6, 4, 5, 7)])
@every("begins", [(0, 1), (1, 0)])
def test_packets_that_overtake_each_other_tell_nothing(order: tuple[int, ...], begins: tuple[int, int]) -> None:
    """A queue pair made again begins with the PSN that it began with before, over a network that lets packets overtake each other."""
    lab = Lab()
    for i, psn in enumerate((*begins, 2, 3, 4, 5)):  # one message of six packets: MSNs do not fall when it is made again
        lab.ask(i * US, psn, 1024, (SEND_FIRST, SEND_MIDDLE, SEND_MIDDLE, SEND_MIDDLE, SEND_MIDDLE, SEND_LAST)[psn], fill=psn)
    lab.answer(10 * US, 5, msn=1)
    for i, psn in enumerate(order):
        lab.ask(SEC + i * US, psn, fill=100 + psn)
    for i, psn in enumerate((1, 4, 7)):
        lab.answer(SEC + (10 + i) * US, psn, msn=psn + 1)
    assert "psn-reused" not in [one.cause for one in lab.diagnosis().connections]


@every("order", [(102, 103, 104), (103, 102, 104), (102, 104, 103), (104, 103, 102)])
def test_used_again_in_another_order(order: tuple[int, ...]) -> None:
    lab = again(MS, 6, count=0)
    lab.frames.pop()
    for i, psn in enumerate(order):
        lab.ask(7 * MS + i * US, psn, fill=100 + psn)
    lab.answer(8 * MS, 104, msn=6)
    assert "psn-reused" in [one.cause for one in lab.diagnosis().connections]
