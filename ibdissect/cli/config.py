"""What does the configuration file say? `ibdissect.toml`, or `[tool.ibdissect]` of a pyproject.toml."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ibdissect.errors import ConfigError
from ibdissect.record import record

if TYPE_CHECKING:
    from pathlib import Path

Reader = Callable[[Any, "Path"], Any]
"""(value of a key, file) -> value of the field; ValueError says what is wrong with it."""
NAME = "ibdissect.toml"
PROJECT = ("pyproject.toml", ".git", ".hg")
"""What a project's root holds."""


@record(eq=True, kw_only=True)
class Config:
    """Settings that a project keeps in a file; an option of the command line goes before them."""

    source: str = ""
    """The file; empty when there is none."""
    select: tuple[str, ...] = ()
    """Rules that `lint` runs: codes, prefixes, names."""
    ignore: tuple[str, ...] = ()
    """Rules that it does not run."""
    per_path_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Globs, relative to the file's folder, and the rules that do not judge captures there."""
    severity: dict[str, str] = field(default_factory=dict)
    """Severities by rule code, prefix or name that differ from the rule's own."""
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What rules are told, by code or name and key; checked against the rules where they run (`lint.setting`)."""
    fail_on: str | None = None
    """Severity from which the exit status is 1."""
    baseline: str | None = None
    """Findings that are known and hidden."""
    site: dict[str, Any] | None = None
    """What the subnet's owner allows (`lint.policy`)."""
    rule: tuple[dict[str, Any], ...] = ()
    """Rules declared in the file (`lint.declared`)."""
    plugins: tuple[str, ...] = ()
    """Files (relative to the configuration file) and modules."""
    color: str | None = None
    """auto, always, never."""
    refused: str = ""
    """Why plugins that the file names are not loaded; empty when they are, or when there are none."""

    @property
    def judges(self) -> bool:
        """Whether it says which rules judge, or how."""
        return bool(self.select or self.ignore or self.per_path_ignores or self.severity or self.options or self.site or self.rule)

    @property
    def folder(self) -> str:
        """What paths in the file are relative to, absolute."""
        return os.path.dirname(os.path.abspath(self.source))


CHOICES = {
    "fail_on": ("error", "warning", "info", "never"),
    "color": ("auto", "always", "never"),
}
SEVERITIES = ("error", "warning", "info")
OWN = ("source", "refused")
"""Fields that no key stands for."""


def read_config(path: str | None) -> Config:
    """The configuration in a file, or in the nearest one above the working directory. ConfigError names file and key."""
    if path is not None:
        return _parse(path, named=True)
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # the working directory was removed
        return Config()
    while True:
        for name in (NAME, "pyproject.toml"):
            if os.path.isfile(file := os.path.join(folder, name)):
                config = _parse(file, named=False)
                if config.source:
                    return _trusted(config)
        above = os.path.dirname(folder)
        if above == folder:
            return Config()
        folder = above


def _trusted(config: Config) -> Config:
    """A file that was found, not named, brings plugins - code - only from a project's root, never from among captures."""
    if not config.plugins:
        return config
    from ibdissect.capture.discover import NAMES

    folder = config.folder
    if any(name.lower().endswith(NAMES) for name in os.listdir(folder)):
        why = "it lies beside captures"
    elif not any(os.path.exists(os.path.join(folder, name)) for name in PROJECT):
        why = f"its folder is no project's root (none of {', '.join(PROJECT)})"
    else:
        return config
    why = f"{config.source}: plugins are not loaded, {why}; name the file to trust it: --config {config.source}"
    return dataclasses.replace(config, plugins=(), refused=why)


def _parse(file: str, *, named: bool) -> Config:
    import tomllib  # many have no configuration file
    from pathlib import Path

    path = Path(file)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), "file", f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if path.name == "pyproject.toml" and not named:
            return Config()  # somebody else's file: whoever owns it will say so
        raise ConfigError(str(path), "file", f"is no TOML: {error}") from error
    if path.name == "pyproject.toml":
        tool = table.get("tool")
        table = tool.get("ibdissect", {}) if isinstance(tool, dict) else {}
        if not isinstance(table, dict):
            raise ConfigError(str(path), "tool.ibdissect", "must be a table")
        if not table and not named:
            return Config()
    return _checked(path, table)


def _checked(path: Path, table: dict[str, Any]) -> Config:
    known = {name.replace("_", "-"): name for name in Config.__dataclass_fields__ if name not in OWN}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = known.get(key)
        if name is None:
            import difflib

            near = difflib.get_close_matches(key, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigError(str(path), key, "there is no such key", hint=hint)
        read: Reader = READERS.get(name, _codes)
        try:
            values[name] = read(value, path)
        except ValueError as error:
            raise ConfigError(str(path), key, str(error)) from error
    return Config(source=str(path), **values)


def _codes(value: Any, _path: Path) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    return tuple(code.strip() for item in value for code in item.split(",") if code.strip())


def _plugins(value: Any, path: Path) -> tuple[str, ...]:
    return tuple(str(path.parent / item) if item.endswith((".py", ".toml")) else item for item in _codes(value, path))


def _per_path(value: Any, path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of glob = list of rule codes")
    return tuple((glob, _codes(codes, path)) for glob, codes in value.items())


def _severity(value: Any, _path: Path) -> dict[str, str]:
    if not isinstance(value, dict) or not all(name in SEVERITIES for name in value.values()):
        raise ValueError(f"must be a table of rule code = {', '.join(SEVERITIES)}")
    return value


def _options(value: Any, _path: Path) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(inner, dict) for inner in value.values()):
        raise ValueError("must be tables of option = value, one a rule: [options.TXN001]")
    return value


def _table(value: Any, _path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return value


def _tables(value: Any, _path: Path) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("must be an array of tables: [[rule]]")
    return tuple(value)


def _file(value: Any, path: Path) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be the name of a file")
    from pathlib import Path

    full = path.parent / value
    return str(full.relative_to(Path.cwd())) if full.is_relative_to(Path.cwd()) else str(full)  # reports show it


def _choice(name: str) -> Reader:
    def read(value: Any, _path: Path) -> str:
        if value not in CHOICES[name]:
            raise ValueError(f"{value!r} is none of {', '.join(CHOICES[name])}")
        return str(value)

    return read


READERS: dict[str, Reader] = {
    "plugins": _plugins, "per_path_ignores": _per_path, "severity": _severity, "options": _options, "site": _table, "rule": _tables,
    "baseline": _file, "fail_on": _choice("fail_on"), "color": _choice("color"),
}  # fmt: skip
"""What turns the value of a key into that of the field; the others are lists of codes."""
