"""Where is a module that a plugin imports by an earlier name? Under its new name, with a DeprecationWarning."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

NAMES = {
    "ibdissect.fabric": "ibdissect.subnet",
    "ibdissect.flow": "ibdissect.transport",
    "ibdissect.table": "ibdissect.decode",
}
"""Folders that docs/plugins.md and its pages told plugins to import from; a module in one of them has kept its own name."""


class Moved:
    """Finds modules by their earlier names, before Python looks for files."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module that has moved; None for all others."""
        if self.now(name) is None:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type] # a loader by its methods: importlib.abc takes long to import

    @staticmethod
    def now(name: str) -> str | None:
        """The new name of a module; None if it has not moved."""
        room = ".".join(name.split(".", 2)[:2])
        return NAMES[room] + name.removeprefix(room) if room in NAMES else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """None: Python makes an empty module, which `exec_module` replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in place of an empty one."""
        import importlib
        import warnings

        new = self.now(module.__name__)
        assert new is not None
        warnings.warn(f"{module.__name__} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)


def follow_moves() -> None:
    """Let imports of earlier names find the modules."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, Moved())
