"""Every rule finds its fault alone, as with --select, and rules about conversations find it in chunks of any size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.lint.finding import Finding
from ibdissect.words import Rule
from tests.rules.cases import Case
from tests.rules.findings import rules
from tests.rules.test_rules import CASES, RULES, WINDOW, lint

pytestmark = pytest.mark.slow
CONVERSATIONS = ("TXN", "SA", "CM", "PM", "CC", "RC", "MCG", "ROC")


def alone(proof: Case, window: int = WINDOW) -> list[tuple[str, int, int]]:
    findings = lint(proof.bad, proof.policy, proof.known, proof.damage, [rules()[proof.code]], window)
    return [(finding.code, finding.frame, finding.count) for finding in findings]


@pytest.mark.parametrize("code", [code for code in CASES if code.startswith(CONVERSATIONS)])
def test_chunks_make_no_difference(code: str) -> None:
    for proof in CASES[code]:
        assert alone(proof) == alone(proof, window=1000), proof


@pytest.mark.parametrize("proof", [case for cases in CASES.values() for case in cases], ids=lambda case: case.code)
def test_alone_as_among_all(proof: Case) -> None:
    """`--select CODE` says of a rule what a check with all rules says of it: frame, count, severity, and what proves it.

    Among all, a finding also names frames at which it explains what other rules found.
    """

    def found(chosen: Sequence[type[Rule]]) -> list[Finding]:
        return [one for one in lint(proof.bad, proof.policy, proof.known, proof.damage, chosen) if one.code == proof.code]

    alone, among = found([rules()[proof.code]]), found(RULES)
    assert alone and [(one.frame, one.count, one.severity) for one in alone] == [(one.frame, one.count, one.severity) for one in among]
    for one, other in zip(alone, among, strict=True):
        assert one.related == other.related[: len(one.related)]
