"""The engine's modules as the interpreter runs them, compiled or not: `plain("packet_fields")` beside `ibdissect.engine.packet_fields`."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
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


class Engine(importlib.abc.MetaPathFinder):
    """Finds the engine's own modules in their .py files only."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        file = FOLDER / f"{name.rpartition('.')[2]}.py"
        if name.rpartition(".")[0] != "ibdissect.engine":
            return None
        return importlib.util.spec_from_file_location(name, loader=SourceFileLoader(name, str(file)))


_OURS: dict[str, ModuleType] = {}
"""Modules of a second ibdissect, whose engine is interpreted."""


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """What is imported meanwhile is the second ibdissect: for state that several modules of the engine share."""
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] in ("ibdissect", "cython")}
    finder = Engine()
    sys.meta_path.insert(0, finder)
    sys.modules.update(_OURS)
    sys.modules["cython"] = None  # type: ignore[assignment] # an import of it fails, as without Cython
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        del sys.modules["cython"]
        _OURS.update({name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "ibdissect"})
        sys.modules.update(kept)
