"""Does every rule find its fault alone, as with --select, and do rules about conversations find it in chunks of any size?"""

from __future__ import annotations

import io

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.lint.engine import Linter
from ibdissect.rules import load
from ibdissect.table.table import ChunkTable
from tests.rules import test_rules
from tests.rules.cases import Case

RULES = {rule.code: rule for rule in load()}


@pytest.mark.parametrize("proof", [case for cases in test_rules.CASES.values() for case in cases], ids=lambda case: case.code)
def test_alone(proof: Case) -> None:
    reader = open_capture(io.BytesIO(proof.bad))
    linter = Linter([RULES[proof.code]])
    test_rules.inform(linter, proof.policy, proof.known)
    for chunk in reader.chunks():
        linter.feed(ChunkTable(chunk))
    linter.context.damage = [*reader.damage, *proof.damage]
    assert {finding.code for finding in linter.finish()} == {proof.code}


CONVERSATIONS = ("TXN", "SA", "CM", "PM", "CC", "RC", "MCG", "ROC")


@pytest.mark.parametrize(
    "proof",
    [case for code, cases in test_rules.CASES.items() if code.startswith(CONVERSATIONS) for case in cases],
    ids=lambda case: case.code,
)
def test_chunks_make_no_difference(proof: Case) -> None:
    def found(window: int) -> list[tuple[str, int, int]]:
        linter = Linter([RULES[proof.code]])
        for chunk in open_capture(io.BytesIO(proof.bad), window=window).chunks():
            linter.feed(ChunkTable(chunk))
        return [(finding.code, finding.frame, finding.count) for finding in linter.finish()]

    assert found(1000) == found(16 << 20)
