"""Options and configuration of a check as a configuration file that would do the same, with the place that each value is from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ibdissect.lint.rule import family
from ibdissect.pipeline.check import CheckOptions
from ibdissect.wire.text import counted, visible_json

from .common_options import CommonOptions
from .config import NAME


def settings_text(
    common: CommonOptions, options: CheckOptions, *, chosen: bool, fail_on: str | None, baseline: str | None, allow_empty: bool
) -> str:
    """The settings of a check with some options. Of the command line are `fail_on`, `baseline`, `allow_empty`, and whether rules were
    `chosen` there.
    """
    config = common.settings
    source = config.source or f"none ({NAME} and pyproject.toml were looked for, from here upwards)"
    lines = [f"# configuration: {source}"]
    lines.append(f"# {counted(len(options.rules), 'rule')}")
    lines += [f"# {note}" for note in (config.refused,) if note]

    def said(key: str, value: Any, given: Any, of_file: Any) -> None:
        where = "command line" if given else config.source if of_file else "usual"
        lines.append(f"{key} = {_toml(value)}  # {where}" if value is not None else f"# {key}: none")

    said("select", _families(options), chosen, config.select or config.ignore)
    said("fail-on", fail_on or config.fail_on or "error", fail_on, config.fail_on)
    said("allow-empty", allow_empty or bool(config.allow_empty), allow_empty, config.allow_empty is not None)
    said("baseline", baseline or config.baseline, baseline, config.baseline)
    said("color", common.color or config.color or "auto", common.color, config.color)
    if common.plugin_names:
        said("plugins", list(common.plugin_names), common.plugins, config.plugins)
    for title, table in _tables(common, options):
        lines += ["", f"[{title}]", *(f"{_key(key)} = {_toml(value)}" for key, value in table.items())]
    for rule in config.rule:
        lines += ["", "[[rule]]", *(f"{_key(key)} = {_toml(value)}" for key, value in rule.items())]
    return "\n".join(lines) + "\n"


def _families(options: CheckOptions) -> list[str]:
    """The rules that run: the letters of a family of which all do, and the codes of others."""
    from ibdissect.lint.rule import REGISTRY

    running, whole = {rule.code for rule in options.rules}, dict[str, set[str]]()
    for code in REGISTRY:
        whole.setdefault(family(code), set()).add(code)
    found: list[str] = []
    for letters in sorted({family(code) for code in running}):
        found += [letters] if whole.get(letters, set()) <= running else sorted(code for code in running if family(code) == letters)
    return found


def _tables(common: CommonOptions, options: CheckOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of a configuration that have a value."""
    config = common.settings
    if config.per_path_ignores:
        yield "per-path-ignores", {glob: list(codes) for glob, codes in config.per_path_ignores}
    if config.severity:
        yield "severity", dict(config.severity)
    for code, values in config.options.items():
        yield f"options.{_key(code)}", values
    site = dict(config.site or {}) | ({"subnet": list(common.subnet)} if common.subnet else {})
    if site:
        yield "site", site


def _key(text: str) -> str:
    """A key as TOML writes it."""
    return text if text.replace("-", "").replace("_", "").isalnum() and text.isascii() else json.dumps(text)


def _toml(value: Any) -> str:
    """A value as TOML writes it; also a table, in a line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return visible_json(json.dumps(value, ensure_ascii=False)) if isinstance(value, str) else str(value)
