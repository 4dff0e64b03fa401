"""Does the advice fit what happened?"""

from __future__ import annotations

import pytest

from ibdissect.diagnosis.advice import ADVICE, REFUSALS, advice
from ibdissect.diagnosis.causes import Found
from ibdissect.wire.cm_names import REJ_REASONS
from tests.diagnosis.lab import Lab
from tests.diagnosis.test_causes import CAUSES


def test_every_cause_has_advice() -> None:
    causes = {cause for cause, _, _ in CAUSES.values()} | {"duplicate-qp-after-restart"}
    assert causes - ADVICE.keys() == {"slow-by-application"} and ADVICE.keys() <= causes


def test_reasons_of_refusals_have_their_own() -> None:
    assert REFUSALS.keys() <= REJ_REASONS.keys()
    told = {reason: advice(Found("refused", detail={"reason": reason})) for reason in (3, 8, 12, 24, 28, 29, 31, 35)}
    assert "run out of" in told[3] and "Start the service" in told[8] and "path that the asker names" in told[12]
    assert told[24].startswith("Nothing") and "application" in told[28] and "RNR retry count" in told[29]
    assert told[31] == told[35] == ADVICE["refused"] == advice(Found("refused"))


@pytest.mark.parametrize(("found", "said"), [
    (Found("connect-unanswered", facts={"asked_for_time": True}), "the REQ arrived"),
    (Found("connect-unanswered", facts={"asked_for_time": False}), "filtered"),
    (Found("retries-exhausted", detail={"scope": "qp"}), "That host is alive"),
    (Found("retries-exhausted", detail={"scope": "host"}), "still runs, then whether the network"),
    (Found("remote-invalid-request", facts={"reads": 3}), "max_rd_atomic"), (Found("remote-invalid-request"), "Compare the request"),
    (Found("healthy"), ""),
])  # fmt: skip
def test_it_depends_on_what_was_seen(found: Found, said: str) -> None:
    assert said in advice(found) and (said or not advice(found))


def test_it_is_told() -> None:
    lab = Lab()
    CAUSES["refused"][2](lab)
    assert "path that the asker names" in lab.only().advice
