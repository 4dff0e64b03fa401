"""The engine's modules as the interpreter runs them, compiled or not: `plain("packets")` beside `ibdissect.engine.packets`."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from tests.conftest import REPO

FOLDER = REPO / "ibdissect/engine"
PACKAGE = "interpreted_engine"


class Sources(importlib.abc.MetaPathFinder):
    """Finds the modules of the package in their .py files only, with the shadow in place of Cython's own module."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != PACKAGE and not name.startswith(f"{PACKAGE}."):
            return None
        module = name.partition(".")[2]
        file = str(FOLDER / f"{module or '__init__'}.py")
        return importlib.util.spec_from_file_location(
            name, loader=SourceFileLoader(name, file), submodule_search_locations=None if module else [str(FOLDER)]
        )


def plain(module: str) -> Any:  # Any: the module's attributes
    """A module of the engine, interpreted."""
    if not any(isinstance(finder, Sources) for finder in sys.meta_path):
        sys.meta_path.insert(0, Sources())
    before = sys.modules.get("cython")
    sys.modules["cython"] = None  # type: ignore[assignment] # an import of it fails, as without Cython
    try:
        found = importlib.import_module(f"{PACKAGE}.{module}")
    finally:
        if before is None:
            del sys.modules["cython"]
        else:
            sys.modules["cython"] = before
    return found
