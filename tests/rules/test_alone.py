"""Does every rule find its fault without the help of others: with --select of that rule alone?"""

from __future__ import annotations

import io

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.lint.engine import Linter
from ibdissect.lint.policy import SitePolicy
from ibdissect.rules import load
from ibdissect.table.table import ChunkTable
from tests.rules import test_rules
from tests.rules.cases import Case

RULES = {rule.code: rule for rule in load()}


@pytest.mark.parametrize("proof", [case for cases in test_rules.CASES.values() for case in cases], ids=lambda case: case.code)
def test_alone(proof: Case) -> None:
    reader = open_capture(io.BytesIO(proof.bad))
    linter = Linter([RULES[proof.code]])
    if proof.policy is not None:
        linter.context.sources[SitePolicy] = proof.policy
    for chunk in reader.chunks():
        linter.feed(ChunkTable(chunk))
    linter.context.damage = reader.damage
    assert {finding.code for finding in linter.finish()} == {proof.code}
