"""Plugins that import modules by their earlier names get the same modules, and a warning."""

from __future__ import annotations

import importlib
import sys

import pytest

from ibdissect.lint.rule_selection import select
from ibdissect.moved import RULES
from ibdissect.rules import load

PROMISED = {
    "ibdissect.table": ("ibdissect.decode", "ChunkTable"),
    "ibdissect.table.connection_events": ("ibdissect.decode.connection_events", "Replied"),
    "ibdissect.flow.events": ("ibdissect.transport.events", "Repeated"),
    "ibdissect.fabric": ("ibdissect.subnet", "FabricFollower"),
    "ibdissect.fabric.events": ("ibdissect.subnet.events", "LidAssigned"),
}
"""Names that docs/plugins.md and the pages that it names gave, and where they are now."""


@pytest.mark.parametrize("name", PROMISED)
def test_earlier_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new, member = PROMISED[name]
    for known in [module for module in sys.modules if module.startswith(("ibdissect.table.", "ibdissect.flow", "ibdissect.fabric"))]:
        monkeypatch.delitem(sys.modules, known)
    with pytest.warns(DeprecationWarning, match=f"{name} is {new} now"):
        found = importlib.import_module(name)
    assert found is importlib.import_module(new) and getattr(found, member) is getattr(sys.modules[new], member)
    assert found.__spec__ is not None and found.__spec__.name == new, "the module is the new one, unchanged"


def test_earlier_names_of_rules_lead_to_one_rule() -> None:
    rules = load()
    names = [rule.name for rule in rules]
    assert len(set(names)) == len(names) and RULES.keys().isdisjoint(names) and set(RULES.values()) <= set(names)
    assert [rule.code for rule in select(rules, ["response-destqp0"])] == ["SMP017"]


def test_what_never_was_is_not_found() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(ModuleNotFoundError, match=r"transport\.nothing"):
        importlib.import_module("ibdissect.flow.nothing")


def test_new_names_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    importlib.reload(importlib.import_module("ibdissect.transport.credits"))
    assert not [each for each in recwarn if each.category is DeprecationWarning]
