"""How do a user's own structures and rules get in? A file or module named by --plugin, or an entry point of an installed package."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ibdissect.errors import ConfigError, IbdissectError, PluginError
from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.wire.catalog import Catalog, builtin, builtin_modules

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ibdissect.plugins"
"""Entry points of installed plugins; one is imported only when it is named."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the plugins add up to."""

    catalog: Catalog
    """The built-in structures and those of the plugins."""
    rules: tuple[type[Rule], ...]
    """Rules of the plugins, by code."""
    names: tuple[str, ...] = ()
    """The plugins, as they were named."""


def load(names: Iterable[str]) -> Loaded:
    """Import plugins, in order. PluginError names one that cannot be imported, or two that claim the same place or code."""
    chosen = tuple(dict.fromkeys(names))
    return _load(chosen) if chosen else Loaded(builtin(), ())


@lru_cache(maxsize=8)
def _load(names: tuple[str, ...]) -> Loaded:
    modules = [_module(name) for name in names]
    catalog = Catalog([*builtin_modules(), *modules])
    own = {module.__name__ for module in modules}
    rules = tuple(rule for _, rule in sorted(REGISTRY.items()) if rule.__module__ in own)
    return Loaded(catalog, rules, names)


def available() -> list[str]:
    """Names of installed plugins; nothing is imported."""
    return sorted(point.name for point in _entry_points())


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # most runs name no plugin

    return entry_points(group=GROUP)


def _module(name: str) -> ModuleType:
    path = Path(name)
    try:
        if path.suffix == ".toml":
            return _declared(path)
        if path.suffix == ".py" or path.is_file():
            return _from_file(path)
        for point in _entry_points():
            if point.name == name:
                module = point.load()
                if not isinstance(module, ModuleType):
                    raise PluginError(name, f"entry point {point.value} is no module")
                return module
        return importlib.import_module(name)
    except (PluginError, ConfigError):
        raise
    except ModuleNotFoundError as error:
        if error.name == name.partition(".")[0]:
            raise PluginError(
                name,
                "is neither a file, an installed plugin nor a module",
            ) from error
        raise PluginError(name, f"cannot be imported: {error}") from error
    except (IbdissectError, SyntaxError) as error:
        raise PluginError(name, str(error)) from error
    except Exception as error:  # a plugin is foreign code: whatever it raises is told in one line
        raise PluginError(name, f"cannot be imported: {type(error).__name__}: {error}") from error


def _declared(path: Path) -> ModuleType:
    """The rules that a TOML file declares (`[[rule]]`, in a pyproject.toml `[[tool.ibdissect.rule]]`), as a module."""
    import tomllib

    from ibdissect.lint.declared import rules_of
    from ibdissect.rules import load as load_rules

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PluginError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PluginError(str(path), f"is no TOML: {error}") from error
    if path.name == "pyproject.toml":
        tools = table.get("tool")
        table = tools.get("ibdissect", {}) if isinstance(tools, dict) else {}
    declared = table.get("rule", [])
    if not isinstance(declared, list) or not declared:
        raise PluginError(str(path), "declares no rule")
    load_rules()  # so that a code that is taken is this file's fault
    return ModuleType(rules_of(declared, str(path))[0].__module__)


def _from_file(path: Path) -> ModuleType:
    """A file as a module whose name belongs to that file alone, so that two `acme.py` do not meet."""
    if not path.is_file():
        raise PluginError(str(path), "no such file")
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"ibdissect_plugin_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(str(path), "is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
