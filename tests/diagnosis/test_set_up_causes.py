"""A connection that was never set up: who asked in vain, and who was sent elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import MS, SEC, US, A, C, Lab
from tests.diagnosis.test_causes import alive


def test_a_timeout_of_the_asker_says_that_nobody_answered() -> None:
    """Its REQs may be missing: who refuses without knowing the other's number has asked."""
    lab = Lab()
    lab.short(0, cm.REJ_ID, cm.REJ, remote_communication_id=0, reason=4)
    found = lab.only()
    assert (found.cause, found.set_up.state, found.set_up.tries) == ("connect-unanswered", "unanswered", 0)
    assert "10.0.0.1 gave up connecting to 10.0.0.2" in found.why
    lab = Lab()
    lab.req(0)
    lab.rep(MS)
    lab.short(SEC, cm.REJ_ID, cm.REJ, back=True, reason=4)
    found = lab.only()
    assert (found.cause, found.detail, found.blamed) == ("refused", {"reason": 4}, 1)
    assert "waited in vain for its RTU" in found.why and "connection management are lost" in found.advice


@pytest.mark.parametrize(("tries", "cause"), [(5, "cannot-tell"), (6, "connect-unanswered")])
def test_six_requests_without_an_answer_are_a_warning(tries: int, cause: str) -> None:
    """Even if the asker may ask 16 times."""
    lab = Lab()
    lab.req(0, tries, max_cm_retries=15, remote_cm_response_timeout=20)
    lab.frames += alive(SEC).frames
    lab.put(SEC, C, A, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert (found.cause, found.severity) == (cause, "warning" if tries > 5 else "none")
    assert f"sent its REQ {'six' if tries > 5 else 'five'} times" in found.why


@pytest.mark.parametrize(("tries", "cause"), [(3, "cannot-tell"), (4, "connect-unanswered")])
def test_without_a_captured_answer_the_retries_must_be_used_up(tries: int, cause: str) -> None:
    """Nothing that goes to the asker is captured: Max CM Retries of 3 allow four REQs."""
    lab = Lab()
    lab.req(0, tries)
    lab.frames += alive(5 * SEC).frames
    assert [one.cause for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"] == [cause]


@pytest.mark.parametrize(("tries", "said"), [(3, False), (4, True)])
def test_retries_of_a_req_that_are_used_up_are_said(tries: int, said: bool) -> None:
    lab = Lab()
    lab.req(0, tries)
    lab.frames += alive(5 * SEC).frames
    lab.put(5 * SEC, C, A, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert found.cause == "connect-unanswered" and ("its Max CM Retries of 3 allow no more" in found.why) is said


@every(("attribute", "kind", "said"), [
    (cm.RTU_ID, cm.RTU, {}), (cm.DREQ_ID, cm.DREQ, {}), (cm.DREP_ID, cm.DREP, {}), (cm.MRA_ID, cm.MRA, {"message_mraed": 1}),
])  # fmt: skip
def test_what_follows_a_rep_shows_that_there_was_one(attribute: int, kind: Any, said: dict[str, Any]) -> None:
    lab = Lab()
    lab.req(0, 4)
    lab.short(4 * SEC, attribute, kind, **said)
    lab.frames += alive(9 * SEC).frames
    assert "connect-unanswered" not in [one.cause for one in lab.diagnosis().connections]


@every(("reason", "severity"), [(23, "error"), (24, "info"), (25, "info"), (26, "error")])
def test_who_is_sent_elsewhere_was_not_refused(reason: int, severity: str) -> None:
    lab = Lab()
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, reason=reason)
    found = lab.only()
    assert (found.cause, found.detail, found.set_up.state) == ("refused", {"reason": reason}, "refused")
    assert found.severity == severity and found.redirected == (reason in (24, 25)) == ("to ask another port" in found.why)
