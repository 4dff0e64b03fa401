"""The rules: a folder for each family, named as its code; adding a module adds its rules. `shared` holds what several families use."""

from __future__ import annotations

import importlib
import pkgutil

from ibdissect.lint.rule import REGISTRY, Rule


def load() -> list[type[Rule]]:
    """Import every rule module of this package and return their rules by code."""
    names = [info.name for info in pkgutil.walk_packages(__path__, __name__ + ".")]
    for name in names:
        importlib.import_module(name)
    return [rule for code, rule in sorted(REGISTRY.items()) if rule.__module__.startswith(__name__ + ".")]
