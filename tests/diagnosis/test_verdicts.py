"""Set-up, end and notes are told as they were."""

from __future__ import annotations

import pytest

from ibdissect.diagnosis.connection_follower import ConnectionFollower
from ibdissect.wire import cm
from tests.diagnosis.lab import MS, SEC, US, Lab, diagnosis


@pytest.mark.slow
def test_states_of_the_set_up() -> None:
    lab = Lab()
    lab.req(0, 2)
    assert (lab.only().set_up.state, lab.only().set_up.tries) == ("partly", 2)
    lab.rep(150 * MS)
    assert lab.only().set_up.state == "partly"
    lab.short(151 * MS, cm.RTU_ID, cm.RTU)
    assert lab.only().set_up.state == "complete"
    lab = Lab()
    lab.good(0, 100, 3)
    assert (lab.only().set_up.state, lab.only().transport) == ("not-captured", "RC")


@pytest.mark.parametrize(("more", "state"), [((), "open"), (("dreq",), "open"), (("dreq", "drep"), "closed")])
def test_states_of_the_end(more: tuple[str, ...], state: str) -> None:
    lab = Lab()
    time = lab.good(lab.up(), 100, 3)
    if "dreq" in more:
        lab.down(time, answered="drep" in more)
    assert lab.only().end_state == state


def test_a_refusal_with_its_reason_and_status() -> None:
    lab = Lab()
    lab.req(0)
    lab.short(
        200 * US, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, reason=28, private_data=bytes([0, 0, 6, 0]).ljust(148, b"\0")
    )
    found = lab.only()
    assert (found.set_up.reason, found.set_up.nvme_status, found.end_state) == (28, 6, "refused")
    assert "NVMe status 6, no resources" in found.why


def test_a_rej_for_timeout_by_the_asker_means_that_nobody_answered() -> None:
    lab = Lab()
    lab.req(0, 2)
    lab.short(300 * MS, cm.REJ_ID, cm.REJ, remote_communication_id=0, reason=4)
    found = lab.only()
    assert (found.cause, found.set_up.state, found.end_state) == ("connect-unanswered", "unanswered", "never-established")


def test_a_bound_that_is_reached_makes_times_unknown() -> None:
    """Where more ranges and READs would have to be remembered than there is room for."""
    lab = Lab()
    lab.good(lab.up(), 100, 5)
    for psn in (110, 120, 130):
        lab.ask(5 * MS + psn * US, psn)
    lab.answer(6 * MS, 130)
    follower = ConnectionFollower()
    follower.lanes.room.entries = 0
    whole, found = lab.diagnosis(), diagnosis(lab.pcap(), follower)
    assert whole.connections[0].times is not None and not whole.notes
    assert found.connections[0].times is None and found.connections[0].cause == "cannot-tell"
    assert found.connections[0].counts == whole.connections[0].counts
    assert "than are remembered, on 1 connection:" in found.notes[0] and "than are remembered" in found.connections[0].why


def test_answers_that_are_cut_off_tell_nothing() -> None:
    """At 54 bytes the AETH of RoCE v2 is missing: neither the trouble nor the times of the connection are known."""
    lab = Lab()
    for psn in range(100, 104):
        lab.ask(psn * MS, psn)
        lab.answer(psn * MS + 5 * US, psn, 0x20 | 20)
        lab.ask(psn * MS + 700 * US, psn)
        lab.answer(psn * MS + 705 * US, psn)
    assert lab.only().cause == "rnr-timer-ignored" and lab.only(58).cause == "rnr-timer-ignored"
    found = lab.only(54)
    assert (found.cause, found.times, found.counts.rnr_naks, found.counts.unread_answers) == ("cannot-tell", None, 0, 8)
    assert "8 answers of 10.0.0.2 are cut off" in found.why


def test_a_reason_or_limit_that_is_cut_off_is_not_known() -> None:
    """The asker's own REJ without a REP is a timeout, whatever is cut off; without Max CM Retries, nobody exceeded it."""
    lab = Lab()
    lab.req(0, 2)
    lab.short(300 * MS, cm.REJ_ID, cm.REJ, remote_communication_id=0, reason=4)
    lab.put(SEC, lab.b, lab.a, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    assert lab.only(96).cause == "connect-unanswered" and lab.only(96).set_up.reason is None
    lab = Lab()
    lab.req(0, 6, max_cm_retries=3)
    lab.put(9 * SEC, lab.b, lab.a, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    assert [lab.only(snap).severity for snap in (65535, 100)] == ["error", "warning"]
