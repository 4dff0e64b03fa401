"""Does every rule find its fault alone, as with --select, and do rules about conversations find it in chunks of any size?"""

from __future__ import annotations

import io

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.lint.engine import Linter
from ibdissect.rules import load
from ibdissect.table.table import ChunkTable
from tests.rules import test_rules
from tests.rules.cases import Case, inform

RULES = {rule.code: rule for rule in load()}


CONVERSATIONS = ("TXN", "SA", "CM", "PM", "CC", "RC", "MCG", "ROC")


@pytest.mark.parametrize("proof", [case for cases in test_rules.CASES.values() for case in cases], ids=lambda case: case.code)
def test_alone(proof: Case) -> None:
    def found(window: int = 16 << 20) -> list[tuple[str, int, int]]:
        reader = open_capture(io.BytesIO(proof.bad), window=window)
        linter = Linter([RULES[proof.code]])
        inform(linter, proof.policy, proof.known)
        for chunk in reader.chunks():
            linter.feed(ChunkTable(chunk))
        linter.context.damage = [*reader.damage, *proof.damage]
        return [(finding.code, finding.frame, finding.count) for finding in linter.finish()]

    whole = found()
    assert {code for code, *_ in whole} == {proof.code}
    if proof.code.startswith(CONVERSATIONS):
        assert whole == found(window=1000), "chunks make a difference"
