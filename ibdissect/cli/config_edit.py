"""A rule added to `ignore` of a configuration file; all else in the file is left as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ibdissect import toml
from ibdissect.errors import ConfigError, writing

from .config import NAME, OPTION, Config, Wrong, codes

TOKEN = re.compile(r"""#[^\n]*|\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\[\]]|\n|[^#"'\[\]\n]+""", re.DOTALL)
"""Comments, strings, brackets, ends of lines, and what lies between."""
KEY = re.compile(r"[ \t]*ignore[ \t]*=[ \t]*\Z")


def written(config: Config) -> str:
    """The file that is changed: the one that was read, or else a new one in the working directory."""
    return config.source if config.source and config.source != OPTION else os.path.join(os.getcwd(), NAME)


def ignore(path: str, code: str) -> None:
    """Add a rule to `ignore` of a configuration file, which is made if there is none. ConfigError, CaptureError: it stays as it was."""
    from ibdissect.export.whole_files import replacing

    text = ""
    if os.path.exists(path):
        with writing(path), open(path, encoding="utf-8", newline="") as file:
            text = file.read(toml.MOST_TEXT + 1)
    changed = with_ignored(text, code, os.path.basename(path) == "pyproject.toml")
    if changed is None:
        raise ConfigError(path, "ignore", f"could not be changed: add {code} by hand")
    if changed != text:
        with replacing(path, option=OPTION) as target:
            target.write(changed.encode())


def with_ignored(text: str, code: str, of_project: bool = False) -> str | None:
    """The text of a file with a rule more that is ignored; None if it is not clear where. `of_project`: a pyproject.toml."""
    before = _understood(text, of_project)
    if before is None:
        return None
    there, rest = before
    if code in there:
        return text
    wanted = [*there, code], rest
    return next((one for one in _changed(text, code, there, of_project) if _understood(one, of_project) == wanted), None)


def _understood(text: str, of_project: bool) -> tuple[list[str], object] | None:
    """The rules that a file ignores, and all else in it; None if it is not a configuration."""
    try:
        tables = toml.tables(text)
        return list(codes(_ours(tables, of_project).get("ignore", []), Path(NAME))), _rest(tables, of_project)
    except (ValueError, RecursionError, Wrong):
        return None


def _ours(tables: dict[str, Any], of_project: bool) -> dict[str, Any]:
    found: Any = tables
    for name in ("tool", "ibdissect") if of_project else ():
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _rest(tables: dict[str, Any], of_project: bool) -> list[tuple[str, Any]]:
    """All that is not ours, and of ours all but `ignore`."""
    others = {name: table for name, table in tables.items() if name != "tool"} if of_project else {}
    tools = {name: table for name, table in tables.get("tool", {}).items() if name != "ibdissect"} if of_project else {}
    ours = {key: value for key, value in _ours(tables, of_project).items() if key != "ignore"}
    return [*sorted(others.items()), *sorted(tools.items()), *sorted(ours.items())]


def _changed(text: str, code: str, there: list[str], of_project: bool) -> Iterator[str]:
    """What may be meant: the code in the list that there is, a list in place of a text, a new line where our keys begin."""
    tokens = [(found.start(), found[0]) for found in TOKEN.finditer(text)]
    for i, (_, token) in enumerate(tokens[:-1]):
        if not KEY.match(token):
            continue
        at, value = tokens[i + 1]
        if value == "[" and there:
            last = _last_string(tokens[i + 2 :])
            if last:
                yield f'{text[:last]}, "{code}"{text[last:]}'
        elif value == "[":
            yield f'{text[: at + 1]}"{code}"{text[at + 1 :]}'
        else:
            every = ", ".join(f'"{one}"' for one in (*there, code))
            yield f"{text[:at]}[{every}]{text[at + len(value) :]}"
    end = "\r\n" if "\r\n" in text else "\n"
    line = f'ignore = ["{code}"]{end}'
    if not of_project:
        first = re.search(r"(?m)^[ \t]*\[", text)
        place = first.start() if first else len(text)
        yield text[:place] + (end if place and text[place - 1] != "\n" else "") + line + text[place:]
    elif header := re.search(r"(?m)^[ \t]*\[tool\.ibdissect\][ \t]*(#[^\n]*)?\n", text):
        yield text[: header.end()] + line + text[header.end() :]
    else:
        yield text + (end if text and text[-1] != "\n" else "") + f"{end}[tool.ibdissect]{end}{line}"


def _last_string(tokens: list[tuple[int, str]]) -> int:
    """The end of the last text in a list whose opening bracket stands before the tokens; 0 if it holds no text."""
    last = 0
    for at, token in tokens:
        if token == "]":
            break
        if token[0] in "\"'":
            last = at + len(token)
    return last


