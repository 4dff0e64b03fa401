"""The rules: a folder for each family, named as its code; adding a module adds its rules. `shared` holds what several families use."""

from __future__ import annotations

import sys

from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.wire.catalog import modules_of


def load() -> list[type[Rule]]:
    """Import every rule module of this package and return their rules by code."""
    modules_of(sys.modules[__name__])
    return [rule for code, rule in sorted(REGISTRY.items()) if rule.__module__.startswith(__name__ + ".")]
