"""Rules that ignore captures at certain paths: the globs of `per-path-ignores`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2  # patterns of a configuration that was found must not run forever
from msgspec import Struct as Record

from ibdissect.errors import ConfigError

from .rule import Rule
from .rule_selection import matches

MOST_GLOB = 1024
"""Most characters of a glob: RE2 gives up on patterns of many thousands while it searches, and only prints that it did."""


class PathIgnores(Record, frozen=True):
    """Rules that do not check captures at certain paths."""

    folder: str
    """Absolute folder of the configuration file; globs are relative to it."""
    entries: tuple[tuple[str, tuple[str, ...]], ...]
    """Each a glob, and the codes, prefixes or names of the rules it ignores."""
    source: str = ""
    """The configuration file, for errors."""

    def rules_for(self, path: str, rules: Iterable[type[Rule]]) -> list[type[Rule]]:
        """The rules that check the capture at `path`, which is relative to the working directory."""
        full = os.path.abspath(path)
        # Folder and capture may be reached through a symbolic link: match the path as given and the resolved one.
        names = {os.path.relpath(full, self.folder), os.path.relpath(os.path.realpath(path), os.path.realpath(self.folder))}
        if "://" in path:  # a URL has no place among the folders; both sides of the comparison are normalized alike
            full, names = path, {os.path.normpath(path)}
        ignored = list[str]()
        for glob, codes in self.entries:
            try:
                ignored += codes if _matches(glob, names, full) else ()
            except ValueError as error:
                raise ConfigError(self.source, f"per-path-ignores.{glob[:60]}", str(error)) from None
        return [rule for rule in rules if not any(matches(rule, code) for code in ignored)]


def _matches(glob: str, names: Iterable[str], full: str) -> bool:
    if os.path.isabs(glob):
        names = [full]
    elif "/" not in glob:  # as in .gitignore: a bare name matches in every folder
        glob = f"**/{glob}"
    return any(_pattern(glob).fullmatch(name.replace(os.sep, "/").encode(errors="replace").decode()) for name in names)


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 would print them itself
    return options


@lru_cache(maxsize=256)
def _pattern(glob: str) -> Any:
    """A glob as a regular expression: `*` and `?` stay within a name, `**` crosses folders, a folder matches all below it.

    Raises ValueError.
    """
    if len(glob) > MOST_GLOB:
        raise ValueError(f"is a pattern of more than {MOST_GLOB} characters")
    glob = os.path.normpath(glob).replace(os.sep, "/")
    parts = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", glob, re.S):
        if token == "**/":
            parts.append("(?:[^/]+/)*")
        elif token == "**":
            parts.append(".*")
        elif token == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif len(token) > 2 and token.startswith("["):
            parts.append(_choice(token))
        else:
            parts.append(re2.escape(token))
    try:
        return re2.compile("(?s)" + "".join(parts) + "(?:/.*)?", _options())
    except re2.error as error:
        raise ValueError(f"is not a valid pattern: {error.args[0]}") from error


def _choice(token: str) -> str:
    """`[abc]`, `[a-c]`, `[!abc]` as part of a regular expression."""
    negated = token[1] == "!"
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", token[1 + negated : -1])
    text = f"[{'^/' if negated else ''}{inner}]"
    try:
        re2.compile(text, _options())
    except re2.error:  # a reversed range such as [z-a]: match the characters literally
        return str(re2.escape(token))
    return text
