"""How do a user's own structures and rules get in? A file or module named by --plugin, or an entry point of an installed package."""

from __future__ import annotations

import importlib
import importlib.util
import string
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache, wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ibdissect.errors import ConfigError, IbdissectError, PluginError, defined_in
from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.record import record
from ibdissect.table.foreign import complain
from ibdissect.wire.catalog import Catalog, builtin, builtin_modules
from ibdissect.wire.text import hex_text, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ibdissect.plugins"
"""Entry points of installed plugins; one is imported only when it is named."""


@record(eq=True)
class Loaded:
    """What the plugins add up to."""

    catalog: Catalog
    """The built-in structures and those of the plugins."""
    rules: tuple[type[Rule], ...]
    """Rules of the plugins, by code."""
    names: tuple[str, ...] = ()
    """The plugins, as they were named."""
    columns: tuple[str, ...] = ()
    """Filter names that the packet list of the terminal UI shows as columns (`COLUMNS` of a plugin)."""


def load(names: Iterable[str]) -> Loaded:
    """Import plugins, in order. PluginError names one that cannot be imported, or two that claim the same place or code."""
    chosen = tuple(dict.fromkeys(names))
    return _load(chosen) if chosen else Loaded(builtin(), ())


@lru_cache(maxsize=8)
def _load(names: tuple[str, ...]) -> Loaded:
    modules: list[ModuleType] = []
    for name in names:
        before = set(REGISTRY)
        try:
            parts = _with_parts(_module(name))
            for module in parts:
                _FILES[getattr(module, "__file__", None) or module.__name__] = name
                _declare_packets(name, module)
            modules += parts
        except (PluginError, ConfigError):
            for code in set(REGISTRY) - before:
                if not REGISTRY[code].__module__.startswith("ibdissect."):
                    del REGISTRY[code]
            raise
    catalog = Catalog([*builtin_modules(), *modules])
    own = {module.__name__ for module in modules}
    rules = tuple(rule for _, rule in sorted(REGISTRY.items()) if rule.__module__ in own)
    for struct in catalog.structs:
        if struct.__module__ in own:
            for shown in struct.fields:
                if shown.show is not None and not (shown.show.__module__ or "").startswith("ibdissect."):
                    shown.show = _shown(shown.show, shown.bits)
    for rule in rules:
        _guard(rule)
        _check_message(rule, catalog)
    return Loaded(catalog, rules, names, _columns(modules, catalog))


_FILES: dict[str, str] = {}
"""File of a loaded plugin module -> the name that it was loaded by."""


def blamed(error: BaseException) -> str | None:
    """The plugin in whose code an exception was raised; None when it is nobody's but ours."""
    trace = error.__traceback__
    name = None
    while trace is not None:
        name = _FILES.get(trace.tb_frame.f_code.co_filename, name)
        trace = trace.tb_next
    return name


def _with_parts(module: ModuleType) -> list[ModuleType]:
    """A package with the modules of its own that it has imported."""
    if not hasattr(module, "__path__"):
        return [module]
    parts = [part for name, part in sorted(sys.modules.items()) if name.startswith(f"{module.__name__}.") and part is not None]
    return [module, *parts]


def _declare_packets(name: str, module: ModuleType) -> None:
    """Make structures of the Scapy classes that say where they are carried; Scapy is loaded only if the plugin has loaded it."""
    packet = getattr(sys.modules.get("scapy.packet"), "Packet", None)
    if packet is None:
        return
    found = [
        value for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, packet) and value.__module__ == module.__name__ and "carried_by" in vars(value)
    ]  # fmt: skip
    if found:
        from ibdissect.layers.plugin import structures_of

        for kind in found:
            try:
                made = structures_of(kind)
            except IbdissectError as error:
                raise PluginError(name, str(error)) from error
            for struct in made:
                setattr(module, f"{struct.__name__}_structure", struct)


def _guard(rule: type[Rule]) -> None:
    """Let a handler that raises cost its own findings only."""
    for name, method in list(vars(rule).items()):
        if callable(method) and any(mark.startswith("listens_to") for mark in getattr(method, "__dict__", ())):
            setattr(rule, name, _guarded(method))


def _guarded(method: Any) -> Any:
    if hasattr(method, "__wrapped__"):
        return method

    @wraps(method)
    def careful(*arguments: Any) -> Iterator[Any]:
        try:
            yield from method(*arguments) or ()
        except Exception as error:  # foreign code
            complain(method, error)

    return careful


def _shown(show: Any, bits: int) -> Any:
    """Let a text that cannot be made cost that text only: the value as hex stands in for it."""
    if hasattr(show, "__wrapped__"):
        return show

    @wraps(show)
    def careful(value: Any) -> str:
        try:
            return printable(str(show(value)))
        except Exception as error:  # foreign code
            complain(show, error)
            return bytes(value).hex() if isinstance(value, (bytes, bytearray, memoryview)) else hex_text(value, bits)

    return careful


def _check_message(rule: type[Rule], catalog: Catalog) -> None:
    """PluginError when the message of a stateless rule speaks of something that does not exist: better now than at its first finding."""
    if rule.on is None or rule.when is None:
        return
    known = {struct.__name__ for struct in catalog.structs} | {field.name for field in rule.on.fields}
    try:
        words = [name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(rule.message) if name]
    except ValueError as error:
        raise PluginError(defined_in(rule), f"rule {rule.code}: its message is no format string: {error}") from error
    for word in words:
        if word not in known:
            import difflib

            near = difflib.get_close_matches(word, known, 1, 0.6)
            hint = f", did you mean {near[0]}?" if near else ""
            raise PluginError(defined_in(rule), f"rule {rule.code}: its message names {word!r}, which is no field and no structure{hint}")


def _columns(modules: list[ModuleType], catalog: Catalog) -> tuple[str, ...]:
    """The columns that plugins add to the terminal UI, as full filter names."""
    wanted: list[str] = []
    for module in modules:
        for name in getattr(module, "COLUMNS", ()):
            fields = catalog.fields(name) if isinstance(name, str) else ()
            if not fields:
                near = catalog.nearest(str(name))
                raise PluginError(
                    getattr(module, "__file__", None) or module.__name__,
                    f"COLUMNS: there is no field {name!r}" + (f", did you mean {near[0]}?" if near else ""),
                )
            wanted.append(fields[0].filter_name)
    return tuple(dict.fromkeys(wanted))


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
            known = f"; installed plugins: {', '.join(available())}" if available() else ""
            raise PluginError(name, f"is neither a file, an installed plugin nor a module{known}") from error
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
    declared = table.get("rule", []) if isinstance(table, dict) else []
    if not isinstance(declared, list) or not declared:
        raise PluginError(str(path), "declares no rule")
    load_rules()  # so that a code that is taken is this file's fault
    return ModuleType(rules_of(declared, str(path))[0].__module__)


def _from_file(path: Path) -> ModuleType:
    """A file as a module whose name belongs to that file alone, so that two `acme.py` do not meet."""
    if not path.is_file():
        raise PluginError(str(path), "no such file")
    import hashlib

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
