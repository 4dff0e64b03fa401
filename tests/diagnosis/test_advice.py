"""The advice fits what happened."""

from __future__ import annotations

import pytest

from ibdissect.diagnosis.advice import ADVICE, REFUSALS, advice, shared_advice
from ibdissect.diagnosis.cause_found import CauseFound
from ibdissect.diagnosis.connection import ConnectionEnd
from ibdissect.wire.cm_names import REJ_REASONS
from tests.diagnosis.lab import Lab
from tests.diagnosis.test_causes import CAUSES

ENDS = ConnectionEnd("hosta", 1), ConnectionEnd("hostb", 2)


def test_every_cause_has_advice() -> None:
    causes = {cause for cause, _, _ in CAUSES.values()} | {"duplicate-qp-after-restart"}
    assert causes - ADVICE.keys() == {"slow-by-application"} and ADVICE.keys() <= causes


def test_reasons_of_refusals_have_their_own() -> None:
    assert REFUSALS.keys() <= REJ_REASONS.keys()
    told = {
        reason: advice(CauseFound("refused", detail={"reason": reason}, blamed=1), ENDS, 0) for reason in (3, 8, 12, 24, 28, 29, 31, 35)
    }
    assert "run out of" in told[3] and told[8].startswith("On hostb: start the service") and "remote GID that hosta names" in told[12]
    assert told[24].startswith("Nothing") and "application" in told[28] and "RNR retry count" in told[29]
    assert told[31] == told[35] == advice(CauseFound("refused"), ENDS, 0) == "Look into the log of the service on hostb."


@pytest.mark.parametrize(("found", "said"), [
    (CauseFound("connect-unanswered", facts={"asked_for_time": True}), "the REQ arrived"),
    (CauseFound("connect-unanswered", facts={"asked_for_time": False}), "filtered"),
    (CauseFound("retries-exhausted", detail={"scope": "qp"}), "On hostb: see whether the process"),
    (CauseFound("retries-exhausted", detail={"scope": "host"}), "See whether hostb is up"),
    (CauseFound("remote-invalid-request", facts={"reads": 3}), "On hosta: keep max_rd_atomic"),
    (CauseFound("remote-invalid-request"), "Compare that request"),
    (CauseFound("healthy"), ""),
])  # fmt: skip
def test_it_depends_on_what_was_seen(found: CauseFound, said: str) -> None:
    told = advice(found, ENDS, 0)
    assert said in told and (said or not told)


def test_it_is_told() -> None:
    lab = Lab()
    CAUSES["refused"][2](lab)
    assert "remote GID that 10.0.0.1 names" in lab.only().advice


def test_who_must_act_is_named_from_both_sides() -> None:
    assert advice(CauseFound("slow-by-rnr"), ENDS, 0).startswith("On hostb: post")
    assert advice(CauseFound("slow-by-rnr"), ENDS, 1).startswith("On hosta")


def test_only_a_subnet_manager_moves_p_keys() -> None:
    found = CauseFound("wrong-partition", blamed=0)
    for address, said in (("LID 5", "of both, whose entries the subnet manager may have moved."), ("10.0.0.1", "of both.")):
        assert advice(found, (ConnectionEnd(address, 1), ConnectionEnd(address, 2)), 0).endswith(said)


def test_what_several_connections_need_is_said_once() -> None:
    lab = Lab()
    CAUSES["RNR exhausted"][2](lab)
    one = lab.only()
    assert shared_advice(one.cause, "10.0.0.2", [one, one]) == one.advice
    assert "link of 10.0.0.9" in shared_advice("slow-by-loss", "10.0.0.9", [one])
