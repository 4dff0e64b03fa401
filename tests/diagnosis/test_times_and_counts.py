"""The parts of a connection's time add up, and its packets are counted once."""

from __future__ import annotations

import pytest

from tests.diagnosis.lab import MS, TIMEOUT, US, Lab
from tests.diagnosis.test_causes import lossy, slow_rnr, slow_timeout


def test_the_parts_of_clean_traffic() -> None:
    lab = Lab()
    lab.good(0, 100, 10)
    times = lab.only().times
    assert times is not None
    assert (times.span, times.transferring, times.idle_by_application) == (905 * US, 50 * US, 855 * US)


def test_a_late_ack_is_waited_for_beyond_a_round_trip() -> None:
    lab = Lab()
    lab.good(0, 100, 3)
    lab.ask(MS, 103)
    lab.answer(3 * MS, 103)
    times = lab.only().times
    assert times is not None and times.ack_wait == pytest.approx(2 * MS - 5 * US, rel=0.05)


@pytest.mark.parametrize(("make", "part", "lasts"), [
    (slow_rnr, "rnr_wait", 4 * 695 * US), (slow_timeout, "timeout", 4 * TIMEOUT), (lossy, "loss_recovery", 6 * 207 * US),
])  # fmt: skip
def test_trouble_takes_its_time(make: object, part: str, lasts: int) -> None:
    lab = Lab()
    make(lab)  # type: ignore[operator]
    times = lab.only().times
    assert times is not None and getattr(times, part) == pytest.approx(lasts, rel=0.01)
    parts = (times.transferring, times.ack_wait, times.rnr_wait, times.loss_recovery, times.timeout, times.idle_by_application)
    assert sum(parts) == times.span


OVERTAKEN = (104, 102, 103, 100, 101, 105)
"""PSNs as they are recorded where the packets of a connection take several paths, and the capture begins with them."""


@pytest.mark.parametrize(("before", "after", "again"), [
    ((), 100 * US, 0), ((104, 31), 100 * US, 4), ((100, 0x60), 100 * US, 4), ((), TIMEOUT, 4),
], ids=["overtaken", "acknowledged", "asked for", "timed out"])  # fmt: skip
def test_the_first_packets_of_a_capture_in_another_order_are_not_sent_again(before: tuple[int, ...], after: int, again: int) -> None:
    lab = Lab()
    lab.ask(0, OVERTAKEN[0])
    if before:
        lab.answer(5 * US, *before)
    for i, psn in enumerate(OVERTAKEN[1:]):
        lab.ask(after + i * 100 * US, psn)
    lab.answer(after + 500 * US, 105, msn=6)
    assert (lab.only().counts.packets_sent_again, lab.only().episodes == ()) == (again, not again)


@pytest.mark.slow
def test_two_episodes_do_not_make_it_slow_and_three_do() -> None:
    for number, cause in ((2, "healthy"), (3, "slow-by-loss")):
        lab = Lab()
        lossy(lab, number)
        assert lab.only().cause == cause
        assert [one.kind for one in lab.only().episodes] == ["loss"] * number
        assert lab.only().counts.naks == number


def test_a_fifth_of_the_time_is_the_border() -> None:
    for busy, cause in ((10 * MS, "slow-by-rnr"), (12 * MS, "healthy")):
        lab = Lab()
        slow_rnr(lab)  # 2.8 ms
        lab.ask(4 * MS, 104)
        lab.ask(4 * MS + busy, 105)
        lab.answer(4 * MS + busy + 5 * US, 105)
        assert lab.only().cause == cause


@pytest.mark.parametrize(("made_anew", "why"), [(True, "nothing is wrong"), (False, "10.0.0.1 waited four times until its timer ran out")])
def test_a_queue_pair_that_is_made_anew_does_not_wait_for_its_timer(made_anew: bool, why: str) -> None:
    """Programs that begin each of their queue pairs with PSN 0; the capture begins when the first one has sent a while."""
    lab = Lab()
    lab.good(0, 16, 5, fill=1)
    for use in range(1, 5):
        for psn in range(21):
            lab.ask(use * TIMEOUT + psn * US, psn, fill=use if made_anew else 1)
            lab.answer(use * TIMEOUT + psn * US + 500, psn, msn=psn + 1 if made_anew else 21)
    one = lab.only()
    assert one.why.startswith(why)
    assert [episode.kind for episode in one.episodes if episode.kind != "idle"] == ([] if made_anew else ["timeout"] * 4)
