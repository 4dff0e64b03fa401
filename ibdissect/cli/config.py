"""What does the configuration file say? `ibdissect.toml`, or `[tool.ibdissect]` of a pyproject.toml."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ibdissect.errors import ConfigError

NAME = "ibdissect.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings that a project keeps in a file; an option of the command line goes before them."""

    source: str = ""
    """The file; empty when there is none."""
    select: tuple[str, ...] = ()
    """Rules that `lint` runs: codes, prefixes, names."""
    ignore: tuple[str, ...] = ()
    """Rules that it does not run."""
    fail_on: str | None = None
    """Severity from which the exit status is 1."""
    plugins: tuple[str, ...] = ()
    """Files (relative to the configuration file) and modules."""
    color: str | None = None
    """auto, always, never."""
    severity: dict[str, str] = field(default_factory=dict)
    """Severities by rule code that differ from the rule's own."""


CHOICES = {
    "fail_on": ("error", "warning", "info", "never"),
    "color": ("auto", "always", "never"),
}


def read_config(path: str | None) -> Config:
    """The configuration in a file, or in the nearest one above the working directory. ConfigError names file and key."""
    if path is not None:
        return _parse(Path(path), named=True)
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in (NAME, "pyproject.toml"):
            if (folder / name).is_file():
                config = _parse(folder / name, named=False)
                if config.source:
                    return config
    return Config()


def _parse(path: Path, *, named: bool) -> Config:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), "file", f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if path.name == "pyproject.toml" and not named:
            return Config()  # somebody else's file: whoever owns it will say so
        raise ConfigError(str(path), "file", f"is no TOML: {error}") from error
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("ibdissect", {}) if isinstance(table.get("tool"), dict) else {}
        if not table and not named:
            return Config()
    return _checked(path, table)


def _checked(path: Path, table: dict[str, Any]) -> Config:
    known = {f.name.replace("_", "-"): f for f in dataclasses.fields(Config) if f.name != "source"}
    values: dict[str, Any] = {}
    for key, value in table.items():
        setting = known.get(key)
        if setting is None:
            near = difflib.get_close_matches(key, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigError(str(path), key, "there is no such key", hint=hint)
        values[setting.name] = _value(path, key, setting.name, value)
    return Config(source=str(path), **values)


def _value(path: Path, key: str, name: str, value: Any) -> Any:
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise ConfigError(str(path), key, f"{value!r} is none of {', '.join(CHOICES[name])}")
        return value
    if name == "severity":
        if not isinstance(value, dict) or not all(v in ("error", "warning", "info") for v in value.values()):
            raise ConfigError(str(path), key, "must be a table of rule code = error, warning or info")
        return dict(value)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(str(path), key, "must be a list of strings")
    if name == "plugins":
        return tuple(str(path.parent / item) if item.endswith(".py") else item for item in value)
    return tuple(value)
