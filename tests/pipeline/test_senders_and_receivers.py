"""The sentence of every rule names whom it is about, itself or by the ends of its frame; and the ends of directed routes."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.words import Rule
from tests.rules import test_rules as proofs

SOMEBODY = re.compile(
    r"\bLID [1-9]\d*\b|(^|to|of|at|from|node|manager|SM|switch|GUID) 0x[0-9a-f]{16}\b|\bDR 0(,\d+)*\b|\d+\.\d+\.\d+\.\d+"
    r"|(^| )[0-9a-f]{0,4}:[0-9a-f:]+ (→|sends|to)|(→|to|from) [0-9a-f]{1,4}:"
)
"""A LID, a GUID, a route, an address."""
ABOUT_THE_CAPTURE = "capture|file|record|packets|link type"
NOBODY = {"LNK023": "link packets have no addresses"}


PARTS = 18


@pytest.mark.parametrize("part", [pytest.param(part, marks=[pytest.mark.slow] * (part > 0)) for part in range(PARTS)])
def test_every_rule_names_somebody(part: int) -> None:
    for rule in load()[part::PARTS]:
        assert_named(rule)


def assert_named(rule: type[Rule]) -> None:
    case = proofs.CASES[rule.code][0]
    if case.known or case.damage:
        found = [one for one in proofs.lint(case.bad, case.policy, case.known, case.damage, [rule]) if one.code == rule.code]
        for one in found:
            one.finish(None)
    else:
        found = check(io.BytesIO(case.bad), CheckOptions(rules=[rule], policy=case.policy, names=False)).findings
    assert found, rule.code
    for one in found:
        if rule.about_capture:
            assert re.search(ABOUT_THE_CAPTURE, one.message) or rule.code == "CAP016", (rule.code, one.message)
        elif rule.code not in NOBODY:
            assert SOMEBODY.search(one.message), (rule.code, one.message)
        assert "LID 65535" not in one.message or rule.code in ("LNK009", "SMP011"), "no name: say the node or the route"


def test_names_of_nodes_and_routes(repo: Path) -> None:
    def messages(**options: object) -> set[str]:
        rules = [rule for rule in load() if rule.code == "AM009"]
        found = check(str(repo / "captures/opensm-first-sweep.pcap"), CheckOptions(rules=rules, **options)).findings  # type: ignore[arg-type]
        for one in found:
            sender, _, receiver = one.context.partition("  ")[0].partition(" → ")
            assert f"from {sender} to {receiver}: " in one.message
        return {one.message.partition(":")[0] for one in found}

    assert "SubnSet(PortInfo) port 1 from Switch1 (LID 1) to Hca1 port 1 (LID 2)" in messages()
    assert not any("Hca1" in one for one in messages(names=False))
