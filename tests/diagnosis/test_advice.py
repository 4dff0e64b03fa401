"""The advice fits what happened."""

from __future__ import annotations

import re

from ibdissect.wire import cm
from tests.cases import every
from tests.conftest import REPO
from tests.diagnosis.lab import US, A, B, Lab, joined
from tests.diagnosis.test_causes import CAUSES


def test_every_cause_of_the_documentation_has_a_capture() -> None:
    """Of each, tests/diagnosis/test_causes.py asks for a sentence and advice."""
    section = (REPO / "docs/diagnose.md").read_text(encoding="utf-8").partition("## Causes")[2].partition("###")[0]
    documented = {name for line in section.splitlines() for name in re.findall("`([a-z-]+)`", line.partition(" | ")[0])}
    assert documented == {cause for cause, _, _ in CAUSES.values()} | {"duplicate-qp-after-restart"}


@every(("reason", "said"), [
    (3, "run out of"), (8, "On 10.0.0.2: start the service"), (12, "remote GID that 10.0.0.1 names"), (24, "Nothing"), (28, "application"),
    (29, "RNR retry count"), (31, "Look into the log of the service on 10.0.0.2."), (35, "Look into the log of the service on 10.0.0.2."),
])  # fmt: skip
def test_reasons_of_refusals_have_their_own(reason: int, said: str) -> None:
    lab = Lab()
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=reason)
    assert said in lab.only().advice


def test_who_must_act_is_named_from_both_sides() -> None:
    for ends, said in (((A, B), "On 10.0.0.2: post"), ((B, A), "On 10.0.0.1: post")):
        lab = Lab(*ends)
        CAUSES["RNR"][2](lab)
        assert lab.only().advice.startswith(said)


def test_what_several_connections_need_is_said_once() -> None:
    labs = [Lab(qa=0x100 + n, qb=0x200 + n) for n in range(2)]
    for lab in labs:
        CAUSES["RNR exhausted"][2](lab)
    found = joined(*labs).diagnosis()
    assert {one.advice for one in found.shared} == {one.advice for one in found.connections}
    for lab in (labs := [Lab(b=bytes([10, 0, 0, 9]), qa=0x100 + n, qb=0x200 + n) for n in range(2)]):
        CAUSES["loss"][2](lab)
    assert "link of 10.0.0.9" in next(one.advice for one in joined(*labs).diagnosis().shared if one.host == "10.0.0.9")
