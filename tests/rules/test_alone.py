"""Does every rule find its fault alone, as with --select, and do rules about conversations find it in chunks of any size?"""

from __future__ import annotations

import pytest

from ibdissect.capture.opening import WINDOW
from tests.rules.cases import Case
from tests.rules.findings import rules
from tests.rules.test_rules import CASES, lint

CONVERSATIONS = ("TXN", "SA", "CM", "PM", "CC", "RC", "MCG", "ROC")


@pytest.mark.parametrize("proof", [case for cases in CASES.values() for case in cases], ids=lambda case: case.code)
def test_alone(proof: Case) -> None:
    def found(window: int = WINDOW) -> list[tuple[str, int, int]]:
        findings = lint(proof.bad, proof.policy, proof.known, proof.damage, [rules()[proof.code]], window)
        return [(finding.code, finding.frame, finding.count) for finding in findings]

    whole = found()
    assert {code for code, *_ in whole} == {proof.code}
    if proof.code.startswith(CONVERSATIONS):
        assert whole == found(window=1000), "chunks make a difference"
