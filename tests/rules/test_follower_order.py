"""The order in which followers are fed makes no difference, as long as each is fed after those whose state it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ibdissect.lint import handlers, linter
from ibdissect.lint.handlers import Handlers, handler_methods, in_order
from tests.rules.test_rules import CASES, RULES, lint

in_order_by_name = in_order


def reversed_order(kinds: Iterable[type[Any]]) -> list[type[Any]]:
    """The last of the usual order first, as far as `after` allows it."""
    left, ordered = in_order_by_name(kinds), list[type[Any]]()
    while left:
        ready = next(kind for kind in reversed(left) if not set(getattr(kind, "after", ())) & set(left))
        left.remove(ready)
        ordered.append(ready)
    return ordered


@pytest.mark.slow
def test_the_order_of_independent_followers_changes_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proofs of all rules that follow the capture, each rule alone, with the order turned round."""
    monkeypatch.setattr(handlers, "in_order", reversed_order)
    monkeypatch.setattr(linter, "handlers", Handlers)  # not those that are cached
    following = [rule for rule in RULES if rule.needs or handler_methods(rule)]
    for rule in following:
        for proof in CASES[rule.code]:
            found = lint(proof.bad, proof.policy, proof.known, proof.damage, rules=[rule])
            assert found and proof.frames in ((), tuple(finding.frame for finding in found)), proof.code
