"""Are set-up, end and notes told as they were?"""

from __future__ import annotations

import pytest

from ibdissect.wire import cm
from tests.diagnosis.lab import MS, US, Lab


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
