"""Skipped positions, gaps and episodes are told as they are, within their bounds."""

from __future__ import annotations

import pytest

from tests.cases import every
from tests.diagnosis.lab import MS, START, US, Lab

NAK, RNR_NAK = 0x60, 0x2E


def reordered(*psns: int) -> tuple[list[tuple[str, int]], int]:
    """Episodes with packets sent again, and how many were, of a requester that sends these PSNs, which are all acknowledged."""
    lab = Lab()
    for i, psn in enumerate(psns):
        lab.ask(i * US, 100 + psn)
    lab.answer((len(psns) + 5) * US, 100 + max(psns), msn=8)
    lab.good(MS, 101 + max(psns), 3)
    found = lab.only()
    return [(one.kind, one.packets_sent_again) for one in found.episodes], found.counts.packets_sent_again


@every("late", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 1, 4, 3), (3, 2, 1, 4)])
def test_a_hole_is_filled_from_any_side(late: tuple[int, ...]) -> None:
    """What comes late was not sent again; what comes once more was."""
    assert reordered(0, 5, 6, *late, 7) == ([], 0)
    for again in (2, 5):
        assert reordered(0, 5, 6, *late, again, 7) == ([("loss", 1)], 1)


def test_holes_before_the_first_packet_are_filled_as_those_behind_it() -> None:
    assert reordered(5, 10, 2, 7, 3, 4, 6, 9, 8, 11) == ([], 0)


@pytest.mark.parametrize(("holes", "known"), [(256, True), (257, False)])
def test_holes_are_bounded(holes: int, known: bool) -> None:
    """The oldest is forgotten: a packet of it that comes late seems to be sent again."""
    assert reordered(*range(0, 2 * holes + 1, 2), 1) == (([], 0) if known else ([("loss", 1)], 1))


def test_episodes_end_when_another_begins() -> None:
    """A loss ends with the time-out that follows it, that with what is sent again, and waiting for a buffer with the next try."""
    lab = Lab()
    time = lab.good(0, 100, 5)
    lab.ask(time, 105)
    lab.ask(time + 10 * US, 106)
    lab.answer(time + 20 * US, 105, NAK, msn=5)
    for at in (time + 30 * US, time + 40 * MS):
        lab.ask(at, 105)
        lab.ask(at + US, 106)
    later = time + 40 * MS
    lab.answer(later + 10 * US, 106, msn=7)
    lab.ask(later + MS, 107)
    lab.answer(later + MS + 5 * US, 107, RNR_NAK, msn=7)
    lab.ask(later + 3 * MS, 107)
    lab.answer(later + 3 * MS + 5 * US, 107, msn=8)
    lab.good(later + 5 * MS, 108, 3)
    found = [(one.kind, one.start_ns - START, one.end_ns - START, one.packets_sent_again) for one in lab.only().episodes]
    assert found == [
        ("loss", time + 20 * US, time + 31 * US, 2), ("timeout", time + 31 * US, later, 2),
        ("rnr", later + MS + 5 * US, later + 3 * MS, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("losses", "kept"), [(128, 128), (129, 128)])
def test_episodes_are_bounded(losses: int, kept: int) -> None:
    """What is left out of the list is counted and said."""
    lab = Lab()
    for number in range(losses):
        time, psn = number * MS, 100 + 2 * number
        lab.ask(time, psn)
        lab.ask(time + 10 * US, psn + 1)
        lab.answer(time + 20 * US, psn, NAK, msn=number)
        lab.ask(time + 30 * US, psn)
        lab.ask(time + 31 * US, psn + 1)
        lab.answer(time + 40 * US, psn + 1, msn=number)
    whole = lab.diagnosis()
    (found,) = whole.connections
    assert (len(found.episodes), found.counts.naks, found.counts.packets_sent_again) == (kept, losses, 2 * losses)
    assert any("more episodes than are kept" in note for note in whole.notes) == (losses > kept)
