"""Are followers fed after those whose state they read, and does their order make no difference beyond that?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from ibdissect.flow.streams import Streams
from ibdissect.lint import engine
from ibdissect.lint.engine import Context, in_order
from ibdissect.lint.rule import handlers
from ibdissect.table.connections import Connections
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


def test_what_a_follower_reads_is_made_and_fed_first() -> None:
    class Aardvark:
        after: Sequence[type[Any]] = (Streams,)

    assert in_order([Aardvark, Streams]) == [Connections, Streams, Aardvark]
    context = Context()
    assert context.get(Streams).connections is context.get(Connections)


def test_the_order_of_independent_followers_changes_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proofs of all rules that follow the capture, each rule alone, with the order turned round."""
    monkeypatch.setattr(engine, "in_order", reversed_order)
    following = [rule for rule in RULES if rule.needs or handlers((rule,))]
    for rule in following:
        for proof in CASES[rule.code]:
            found = lint(proof.bad, proof.policy, proof.known, proof.damage, rules=[rule])
            assert found and proof.frames in ((), tuple(finding.frame for finding in found)), proof.code
