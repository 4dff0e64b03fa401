"""Every rule finds its fault alone, as with --select, and rules about conversations find it in chunks of any size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.lint.finding import Finding
from ibdissect.words import Rule
from tests.rules.cases import Case
from tests.rules.findings import rules
from tests.rules.test_rules import CASES, RULES, WINDOW, lint

CONVERSATIONS = ("TXN", "SA", "CM", "PM", "CC", "RC", "MCG", "ROC")


def alone(proof: Case, window: int = WINDOW) -> list[tuple[str, int, int]]:
    findings = lint(proof.bad, proof.policy, proof.known, proof.damage, [rules()[proof.code]], window)
    return [(finding.code, finding.frame, finding.count) for finding in findings]


@pytest.mark.parametrize("code", [code for code, cases in CASES.items() if len(cases) > 1])
def test_alone(code: str) -> None:
    """Every second of its proofs, which `test_proof` does not ask in the fast lane; of rules about conversations in small chunks."""
    some = dict(list(enumerate(CASES[code]))[1::2])
    windows = {i: 1000 if code.startswith(CONVERSATIONS) and len(proof.bad) < 20_000 else WINDOW for i, proof in some.items()}
    silent = [i for i, proof in some.items() if {name for name, *_ in alone(proof, windows[i])} != {code}]
    assert silent == [], "numbers of proofs that are silent"


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in CASES if code.startswith(CONVERSATIONS)])
def test_chunks_make_no_difference(code: str) -> None:
    for proof in CASES[code]:
        assert alone(proof) == alone(proof, window=1000), proof


@pytest.mark.slow
@pytest.mark.parametrize("proof", [case for cases in CASES.values() for case in cases], ids=lambda case: case.code)
def test_alone_as_among_all(proof: Case) -> None:
    """`--select CODE` says of a rule what a check with all rules says of it: frame, count, severity, and what proves it.

    Among all, a finding also names frames at which it explains what other rules found.
    """

    def found(chosen: Sequence[type[Rule]]) -> list[Finding]:
        return [one for one in lint(proof.bad, proof.policy, proof.known, proof.damage, chosen) if one.code == proof.code]

    alone, among = found([rules()[proof.code]]), found(RULES)
    assert [(one.frame, one.count, one.severity) for one in alone] == [(one.frame, one.count, one.severity) for one in among]
    for one, other in zip(alone, among, strict=True):
        assert one.related == other.related[: len(one.related)]
