"""Loading of a user's own structures and rules, from a file or module given by --plugin, or an installed entry point."""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.util
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache, partial, wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record

from ibdissect.errors import ConfigError, IbdissectError, PluginError
from ibdissect.failures import complain, error_text
from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.plugin_declarations import check_modules, check_names, check_nesting, check_rules
from ibdissect.plugin_timeout import patient
from ibdissect.rules import load as load_rules
from ibdissect.wire.catalog import Catalog, builtin, builtin_modules
from ibdissect.wire.text import hex_text, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ibdissect.plugins"
"""Entry points of installed plugins; each is imported only if it is named."""


class LoadedPlugins(Record, frozen=True):
    catalog: Catalog
    """The built-in structures and those from the plugins."""
    rules: tuple[type[Rule], ...]
    """Rules from the plugins, ordered by code."""
    columns: tuple[str, ...] = ()
    """Filter names that the packet list of the terminal UI shows as columns (`COLUMNS` of a plugin)."""


def load(names: Iterable[str]) -> LoadedPlugins:
    """Import plugins, in order. PluginError if one cannot be imported, or two claim the same place or code."""
    chosen = tuple(dict.fromkeys(names))
    return _load(chosen) if chosen else LoadedPlugins(builtin(), ())


def layers(names: Iterable[str]) -> ModuleType:
    """Load plugins and make their structures Scapy layers: `layers(["zed.py"]).Inventory(count=3)`, or from then on
    `from ibdissect.layers import Inventory`. Scapy dissects them at their places; packets can be pickled. PluginError as of `load`.
    """
    import ibdissect.layers as made

    made.use_catalog(load(names).catalog)
    return made


@lru_cache(maxsize=8)
def _load(names: tuple[str, ...]) -> LoadedPlugins:
    before = set(REGISTRY)
    try:
        return _checked(names)
    except (PluginError, ConfigError):
        for code in set(REGISTRY) - before:
            if not REGISTRY[code].__module__.startswith("ibdissect."):
                del REGISTRY[code]
        raise


def _checked(names: tuple[str, ...]) -> LoadedPlugins:
    modules: list[ModuleType] = []
    with _importable(names):
        for name in names:
            if not _is_toml(name):
                modules += _parts_of(name)
    catalog = Catalog([*builtin_modules(), *modules])
    check_names(catalog, {module.__name__ for module in modules})
    check_nesting(catalog, {module.__name__ for module in modules})
    modules += [_declared(Path(name), catalog) for name in names if _is_toml(name)]  # their filters may use all structures
    own = {module.__name__ for module in modules}
    for struct in catalog.structs:
        if struct.__module__ in own:
            for shown in struct.fields:
                if shown.show is not None and not (shown.show.__module__ or "").startswith("ibdissect."):
                    shown.show = _shown(shown.show, shown.bits)
    rules = tuple(rule for _, rule in sorted(REGISTRY.items()) if rule.__module__ in own)
    if rules:
        load_rules()  # a code or a name that a rule of ours has is said now
        check_rules(rules, catalog)
    return LoadedPlugins(catalog, rules, _columns(modules, catalog))


def _parts_of(name: str) -> list[ModuleType]:
    """Import a plugin of Python and check what it declares."""
    parts = _with_parts(_module(name))
    for module in parts:
        _FILES[getattr(module, "__file__", None) or module.__name__] = name
        _declare_packets(name, module)
    check_modules(name, parts)
    return parts


def _is_toml(name: str) -> bool:
    return Path(name).suffix == ".toml"


_LOADED: dict[str, ModuleType] = {}
"""Modules of plugin files by name, of those that are being loaded."""
_FILES: dict[str, str] = {}
"""File of a loaded plugin module -> the plugin's name as given by the user."""


def blamed(error: BaseException) -> str | None:
    """The plugin in whose code an exception was raised; None if no plugin was involved."""
    trace = error.__traceback__
    name = None
    while trace is not None:
        name = _FILES.get(trace.tb_frame.f_code.co_filename, name)
        trace = trace.tb_next
    return name


def failure(error: BaseException) -> PluginError | None:
    """The error to report for an exception that was raised in a plugin's code; None if no plugin was involved."""
    name = blamed(error)
    return PluginError(name, f"failed: {error_text(error)}") if name is not None else None


def _with_parts(module: ModuleType) -> list[ModuleType]:
    """A module, and if it is a package, its imported submodules."""
    if not hasattr(module, "__path__"):
        return [module]
    parts = [part for name, part in sorted(sys.modules.items()) if name.startswith(f"{module.__name__}.") and part is not None]
    return [module, *parts]


def _declare_packets(name: str, module: ModuleType) -> None:
    """Make structures of Scapy packet classes with `carried_by`; does not import Scapy if the plugin has not."""
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


def _shown(show: Any, bits: int) -> Any:
    """Wrap a plugin's `show` function: if it raises, show the value in hex instead."""
    if hasattr(show, "__wrapped__"):
        return show

    @wraps(show)
    def careful(value: Any) -> str:
        try:
            with patient(show):
                text = show(value)
            if not isinstance(text, str):
                complain(show, TypeError(f"it returned {type(text).__name__}; `show` gives the text that stands for a value"))
            return printable(str(text))
        except Exception as error:  # foreign code
            complain(show, error)
            return bytes(value).hex() if isinstance(value, (bytes, bytearray, memoryview)) else hex_text(value, bits)

    return careful


def _columns(modules: list[ModuleType], catalog: Catalog) -> tuple[str, ...]:
    """The columns that plugins add to the terminal UI, as full filter names."""
    wanted: list[str] = []
    for module in modules:
        for name in getattr(module, "COLUMNS", ()):
            fields = catalog.fields(name) if isinstance(name, str) else ()
            if not fields and isinstance(name, str) and name.startswith("ibdissect."):
                from ibdissect.dfilter.names import COMPUTED  # most plugins name only fields

                if name in COMPUTED:
                    wanted.append(name)
                    continue
            if not fields:
                near = catalog.nearest(str(name))
                raise PluginError(
                    getattr(module, "__file__", None) or module.__name__,
                    f"COLUMNS: there is no field {name!r}" + (f", did you mean {near[0]}?" if near else ""),
                )
            wanted.append(fields[0].filter_name)
    return tuple(dict.fromkeys(wanted))


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # most runs use no plugin

    return entry_points(group=GROUP)


def _module(name: str) -> ModuleType:
    path = Path(name)
    try:
        if path.suffix == ".py" or path.is_file():
            return _from_file(path)
        for point in _entry_points():
            if point.name == name:
                module = point.load()
                if not isinstance(module, ModuleType):
                    raise PluginError(name, f"entry point {point.value} is not a module")
                return module
        return importlib.import_module(name)
    except (PluginError, ConfigError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        if error.name == name.partition(".")[0]:
            installed = sorted(point.name for point in _entry_points())
            known = f"; installed plugins: {', '.join(installed)}" if installed else ""
            raise PluginError(name, f"is neither a file, an installed plugin nor a module{known}") from error
        raise PluginError(name, f"cannot be imported: {error}; if that is another plugin, name it with --plugin, too") from error
    except (IbdissectError, SyntaxError) as error:
        raise PluginError(name, str(error)) from error
    except BaseException as error:  # a plugin is foreign code: report whatever it raises in one line
        raise PluginError(name, f"cannot be imported: {error_text(error)}{_line_of(error, path)}") from error


def _line_of(error: BaseException, path: Path) -> str:
    """` (line 9)`, the last line of a plugin's file that an exception passed."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path.absolute()) or Path(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def _declared(path: Path, catalog: Catalog) -> ModuleType:
    """A module with the rules that a TOML file declares (`[[rule]]`, in pyproject.toml `[[tool.ibdissect.rule]]`)."""
    from ibdissect import toml
    from ibdissect.lint.toml_rules import rules_of

    try:
        with path.open(encoding="utf-8") as file:
            table = toml.tables(file.read(toml.MOST_TEXT + 1))
    except OSError as error:
        raise PluginError(str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # ValueError also for a number of thousands of digits, which Python refuses to parse
        raise PluginError(str(path), f"not valid TOML: {error}") from error
    if path.name == "pyproject.toml":
        tools = table.get("tool")
        table = tools.get("ibdissect", {}) if isinstance(tools, dict) else {}
    declared = table.get("rule", []) if isinstance(table, dict) else []
    if not isinstance(declared, list) or not declared:
        raise PluginError(str(path), "declares no rule")
    load_rules()  # load built-in rules first, so that a duplicate code is blamed on this file
    return ModuleType(rules_of(declared, str(path), catalog)[0].__module__)


@contextmanager
def _importable(names: Iterable[str]) -> Iterator[None]:
    """Let plugins import each other: `import zed` is the plugin zed.py if it is named, too, and nothing else has that name."""
    finder = _Named({path.stem: path for path in map(Path, names) if path.suffix == ".py"})
    sys.meta_path.append(finder)
    _LOADED.clear()
    try:
        with redirect_stdout(sys.stderr), _only_reading(names):  # what a plugin prints must not get into JSON
            yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _only_reading(names: Iterable[str]) -> Iterator[None]:
    """Refuse to open files for writing to the plugins themselves while they are loaded: that would happen in each command."""
    files, opened = {os.path.realpath(name): name for name in names}, io.open

    def careful(file: Any, mode: str = "r", *others: Any, **named: Any) -> Any:
        if set(mode) & set("wax+"):
            caller: FrameType | None = sys._getframe(1)
            while caller is not None and caller.f_globals.get("__name__", "").partition(".")[0] == "pathlib":
                caller = caller.f_back
            name = files.get(os.path.realpath(caller.f_code.co_filename)) if caller is not None else None
            if name is not None and caller is not None:
                what = printable(str(file))
                reason = f"line {caller.f_lineno} opens {what!r} to write each time it is loaded; do that in a program of its own"
                raise PluginError(name, reason)
        return opened(file, mode, *others, **named)

    io.open = builtins.open = careful
    try:
        yield
    finally:
        io.open = builtins.open = opened


class _Named(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds plugins by the names of their files."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self.paths = paths

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self.paths else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the plugin itself, which keeps its own name."""
        return _from_file(self.paths[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""


def _from_file(path: Path) -> ModuleType:
    """Import a file as a module with a unique name, so that two files called `acme.py` do not collide."""
    if not path.is_file():
        raise PluginError(str(path), "no such file")
    import hashlib

    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"ibdissect_plugin_{path.stem}_{digest}"
    if (known := _LOADED.get(name)) is not None:  # another plugin imports it
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(str(path), "is not a Python file")
    module = importlib.util.module_from_spec(spec)
    vars(module)["print"] = partial(print, file=sys.stderr)
    sys.modules[name] = _LOADED[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _LOADED[name]
        raise
    return module
