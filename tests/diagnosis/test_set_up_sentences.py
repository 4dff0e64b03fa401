"""The sentences about connections that were not set up say who, which service, and why."""

from __future__ import annotations

import pytest

from ibdissect.wire import cm
from tests.diagnosis.lab import SEC, Lab
from tests.diagnosis.test_causes import CAUSES

SERVICE = "service 0x0000000001061144 (RDMA IP CM, TCP port 4420, NVMe)"
WORDS = {
    "refused": f"10.0.0.2 refused the connection to {SERVICE} that 10.0.0.1 asked for: reason 12, primary remote port GID rejected",
    "unanswered": f"10.0.0.1 sent its REQ four times in 300 ms to {SERVICE} and got no answer from 10.0.0.2; "
    "its Max CM Retries of 3 allow no more; 10.0.0.2 is up, as it sends other packets (frame 11), but answers no REQ",
}


@pytest.mark.parametrize("name", WORDS)
def test_what_is_said(name: str) -> None:
    lab = Lab()
    CAUSES[name][2](lab)
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert WORDS[name] in found.why


@pytest.mark.parametrize(("tries", "cause"), [(3, "connect-unanswered"), (1, "refused")])
def test_a_rej_of_the_asker_whose_reason_is_cut_off(tries: int, cause: str) -> None:
    """One direction is captured. Who asked several times got no answer; else the asker may have refused a REP."""
    lab = Lab()
    lab.req(0, tries)
    lab.short(SEC, cm.REJ_ID, cm.REJ, reason=4)
    found = lab.only(snap=96)
    assert (found.cause, found.blamed) == (cause, 1 if tries > 1 else 0)
    said = "10.0.0.1 then gave up (REJ, a reason that is cut off, frame 4)" if tries > 1 else (
        "10.0.0.1 asked 10.0.0.2 for a connection, and ended it itself before it was set up (REJ): a reason that is cut off"
    )  # fmt: skip
    assert said in found.why
