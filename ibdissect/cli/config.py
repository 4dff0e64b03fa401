"""The configuration file: `ibdissect.toml`, or `[tool.ibdissect]` of a pyproject.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pathlib import Path

Reader = Callable[[Any, "Path"], Any]
"""(value of a key, file) -> value of the field; raises Wrong."""
NAME = "ibdissect.toml"
OPTION = "--config"
"""Stands for the file of values that the command line has."""
MOST_SHOWN = 60
"""Most characters of a wrong value that an error shows."""


class Wrong(Exception):
    """A value that a key of the file cannot have; `inside` is the key in the value of the outer key that has it."""

    def __init__(self, wanted: str, value: Any, inside: str = "") -> None:
        text = repr(value)
        text = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
        self.inside = inside
        super().__init__(f"{text} is {wanted}" if wanted.startswith("none of") else f"must be {wanted}, not {text}")


def _below(folder: str, name: str) -> str:
    """The path of a file named in a configuration; `kind:` in front stays there."""
    kind, colon, path = name.partition(":")
    return f"{kind}:{os.path.join(folder, path)}" if colon else os.path.join(folder, name)


class Config(Record, frozen=True, kw_only=True):
    """Settings from a project's file; command-line options override them."""

    source: str = ""
    """The file; empty if there is none."""
    select: tuple[str, ...] = ()
    """Rules that `lint` runs: codes, prefixes, names."""
    ignore: tuple[str, ...] = ()
    """Rules that `lint` does not run."""
    per_path_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Globs, relative to the file's folder, and the rules that do not check captures there."""
    severity: dict[str, str] = field(default_factory=dict)
    """Severities by rule code, prefix or name that differ from the rule's own."""
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of rules, by code or name, then key; validated by `lint.setting`."""
    fail_on: str | None = None
    """Least severity that makes the exit status 1."""
    allow_empty: bool | None = None
    """Whether a capture passes in which nothing could be checked."""
    baseline: str | None = None
    """File of known findings, which are hidden."""
    site: dict[str, Any] | None = None
    """What the site allows (`lint.site_policy`)."""
    rule: tuple[dict[str, Any], ...] = ()
    """Rules declared in the file (`lint.toml_rules`)."""
    plugins: tuple[str, ...] = ()
    """Plugins: files (relative to the configuration file) and modules."""
    color: str | None = None
    """auto, always, never."""
    refused: str = ""
    """Why plugins that the file names are not loaded; empty when they are, or when there are none."""
    found: bool = False
    """Nobody named the file, and the user does not trust its folder: it may name only files below its folder (`named_files.Confined`)."""

    @property
    def subnet(self) -> tuple[str, ...]:
        """Files about the subnet (`[site] subnet`); relative paths start at the configuration file. ConfigError."""
        listed = (self.site or {}).get("subnet", [])
        listed = [listed] if isinstance(listed, str) else listed
        if not isinstance(listed, list) or not all(isinstance(one, str) and one for one in listed):
            raise ConfigError(self.source, "site.subnet", "must be a list of files")
        return tuple(_below(self.folder, one) for one in listed)

    @property
    def judges(self) -> bool:
        """Whether it configures which rules run, or how."""
        return bool(self.select or self.ignore or self.per_path_ignores or self.severity or self.options or self.site or self.rule)

    def followed(self, *overruled: str) -> tuple[str, ...]:
        """The keys of the file that decide about findings or status, but for those that the command line overrules."""
        default = Config()
        given = (name for name in DECIDE if getattr(self, name) != getattr(default, name) and name not in overruled)
        return tuple(name.replace("_", "-") for name in given)

    @property
    def shown(self) -> str:
        """The file as reports show it: relative to the working directory if it lies below."""
        below = os.path.join(os.getcwd(), "")
        return self.source.removeprefix(below)

    @property
    def folder(self) -> str:
        """Absolute folder that paths in the file are relative to."""
        return os.path.dirname(os.path.abspath(self.source))


SEVERITIES = ("error", "warning", "info")
OWN = ("source", "refused", "found")
"""Fields that are not keys of the file."""
DECIDE = ("select", "ignore", "per_path_ignores", "severity", "options", "fail_on", "allow_empty", "baseline", "site", "rule")
"""Keys without which findings, their severity or the exit status might be others."""


def read_config(path: str | None) -> Config:
    """The configuration from a file, or from the nearest one above the working directory. ConfigError names file and key."""
    if path is not None:
        return _parse(path, named=True)
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # the working directory was removed
        return Config()
    while True:
        config = configured(folder)
        if config is not None:
            return _trusted(config)
        above = os.path.dirname(folder)
        if above == folder:
            return Config()
        folder = above


def configured_by(words: Iterable[str]) -> Config:
    """What --config says: a file, or else the nearest one, and KEY=VALUE, in TOML, each of which overrides it. ConfigError."""
    files, tables = [], []
    for word in words:
        if re.match(r"""\s*["'\w][^=\n]*=""", word) and not os.path.exists(word):
            tables.append(_value(word))
        else:
            files.append(word)
    if len(files) > 1:
        raise ConfigError("--config", files[1], "is a second configuration file", hint="KEY=VALUE overrides a value of the first")
    found = read_config(files[0] if files else None)
    for table in tables:
        from pathlib import Path  # with what it imports, a hundredth of every start

        over = _checked(Path(OPTION), table)
        names = [key.replace("-", "_") for key in table]
        changed = {name: _both(getattr(found, name), getattr(over, name)) for name in names}
        found = replace(found, source=found.source or OPTION, **changed)
    return found


def _both(before: Any, over: Any) -> Any:
    """A value with what overrides it: of a table only its own keys, of an array of tables what is added."""
    if isinstance(before, dict) and isinstance(over, dict):
        return before | {key: _both(before.get(key), value) for key, value in over.items()}
    pairs = isinstance(before, tuple) and isinstance(over, tuple) and over and not isinstance(over[0], str)
    return (*before, *over) if pairs else over


def _value(word: str) -> dict[str, Any]:
    """KEY=VALUE as a table. A value that is not valid TOML is a text, as a shell takes the quotes away."""
    import json

    from ibdissect import toml

    key, _, value = word.partition("=")
    wrong: Exception | None = None
    for text in (word, f"{key} = {json.dumps(value.strip())}"):
        try:
            return toml.tables(text)
        except (ValueError, RecursionError) as error:
            wrong = wrong or error
    raise ConfigError(OPTION, word, f"not valid TOML: {wrong}", hint="write --config fail-on=warning") from wrong


def configured(folder: str) -> Config | None:
    for name in (NAME, "pyproject.toml"):
        if os.path.isfile(file := os.path.join(folder, name)):
            config = _parse(file, named=False)
            if config.source:
                return config
    return None


def _trusted(config: Config) -> Config:
    """Plugins are code: drop them if the file was found, not named, unless the user trusts its folder; always drop them in CI.

    Nothing in the folder itself can prove trust: an archive of captures may contain all that a project's root contains.
    """
    if not config.plugins and config.baseline is None and "subnet" not in (config.site or {}):
        return config  # it names no files
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        why = "this is CI"
    else:
        from ibdissect.cli.trusted_folders import distrust  # few configurations name plugins

        why = distrust(config.folder, (config.source, *config.plugins))
        if not why:
            return config
    why = f"{config.source}: plugins are not loaded, {why}; name the file to load them: --config {config.source}"
    return replace(config, plugins=(), refused=why if config.plugins else "", found=True)


def _parse(file: str, *, named: bool) -> Config:
    from pathlib import Path  # often there is no configuration file

    from ibdissect import toml

    path = Path(file)
    try:
        text = _text(file, toml.MOST_TEXT + 1, waits=named)
        if not named and path.name == "pyproject.toml" and "ibdissect" not in text:
            return Config()  # most projects say nothing about us: do not parse their file
        table = toml.tables(text)
    except OSError as error:
        raise ConfigError(str(path), "file", f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # ValueError also for a number of thousands of digits, which Python refuses to parse
        named_by = "mend it, or name another file with --config" if not named else ""
        raise ConfigError(str(path), "file", f"not valid TOML: {error}", hint=named_by) from error
    if path.name == "pyproject.toml":
        tool = table.get("tool")
        table = tool.get("ibdissect", {}) if isinstance(tool, dict) else {}
        if not isinstance(table, dict):
            raise ConfigError(str(path), "tool.ibdissect", "must be a table")
        if not table and not named:
            return Config()
    return _checked(path, table)


def _text(file: str, most: int, *, waits: bool) -> str:
    """The first characters of a file. Not `waits`: nobody named it, and it may be a link to a file of /proc that never ends."""
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | (0 if waits else os.O_NONBLOCK))) as opened:
        data = opened.read(most) or b""
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _checked(path: Path, table: dict[str, Any]) -> Config:
    known = {name.replace("_", "-"): name for name in Config.__struct_fields__ if name not in OWN}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = known.get(key)
        if name is None:
            raise ConfigError(str(path), key, "there is no such key", hint=nearest(key, known))
        read: Reader = READERS.get(name, codes)
        try:
            values[name] = read(value, path)
        except Wrong as wrong:
            raise ConfigError(str(path), f"{key}.{wrong.inside}" if wrong.inside else key, str(wrong)) from wrong
    return Config(source=str(path), **values)


def codes(value: Any, _path: Path, inside: str = "") -> tuple[str, ...]:
    """A list of codes of rules; a text may hold several with commas between them. Raises Wrong."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Wrong("a list of strings", value, inside)
    return tuple(code.strip() for item in value for code in item.split(",") if code.strip())


def _plugins(value: Any, path: Path) -> tuple[str, ...]:
    return tuple(str(path.parent / item) if item.endswith((".py", ".toml")) else item for item in codes(value, path))


def _per_path(value: Any, path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise Wrong("a table of glob = list of rule codes", value)
    return tuple((glob, codes(listed, path, glob)) for glob, listed in value.items())


def _severity(value: Any, _path: Path) -> dict[str, str]:
    table = _table(value, _path)
    for code, severity in table.items():
        if severity not in SEVERITIES:
            raise Wrong(f"none of {', '.join(SEVERITIES)}", severity, code)
    return table


def _options(value: Any, _path: Path) -> dict[str, dict[str, Any]]:
    table = _table(value, _path)
    for code, inner in table.items():
        if not isinstance(inner, dict):
            raise Wrong("a table of option = value, one a rule: [options.TXN001]", inner, code)
    return table


def _table(value: Any, _path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong("a table", value)
    return value


def _tables(value: Any, _path: Path) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Wrong("an array of tables: [[rule]]", value)
    return tuple(value)


def _file(value: Any, path: Path) -> str:
    if not isinstance(value, str) or not value:
        raise Wrong("the name of a file", value)
    from pathlib import Path

    full = path.parent / value
    return str(full.relative_to(Path.cwd())) if full.is_relative_to(Path.cwd()) else str(full)  # shown in reports


def _flag(value: Any, _path: Path) -> bool:
    if not isinstance(value, bool):
        raise Wrong("true or false", value)
    return value


def _choice(choices: tuple[str, ...], value: Any, _path: Path) -> str:
    if value not in choices:
        raise Wrong(f"none of {', '.join(choices)}", value)
    return str(value)


READERS: dict[str, Reader] = {
    "plugins": _plugins, "per_path_ignores": _per_path, "severity": _severity, "options": _options, "site": _table, "rule": _tables,
    "baseline": _file, "fail_on": partial(_choice, (*SEVERITIES, "never")), "color": partial(_choice, ("auto", "always", "never")),
    "allow_empty": _flag,
}  # fmt: skip
"""Converts a key's value to the field's; keys not listed are lists of codes."""
