"""Errors outside the wire data, each as a class that states where it occurs.

Bad *wire data* never raises: it becomes a malformed node in the tree and a CAP finding.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ibdissect.shown_urls import public_name, without_secrets


def defined_in(kind: type) -> str:
    """The file that defines a class; the module's name if there is no file."""
    return str(getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__)


def nearest(word: str, known: Iterable[str], otherwise: str | None = None, least: float = 0.5) -> str:
    """A hint: `did you mean ...?` if a known word is near (0 to 1: equal); else `otherwise`, by default what is known."""
    import difflib  # rarely needed

    names = list(known)
    near = difflib.get_close_matches(word, names, 1, least)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(sorted(names))}" if otherwise is None else otherwise


class IbdissectError(Exception):
    """Base of all exceptions that this package raises on purpose; the command line turns them into exit status 2."""

    def __init__(self, text: str = "") -> None:
        super().__init__(without_secrets(text))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).__new__, (type(self), *self.args), vars(self)  # for other processes; `__init__` wants other arguments


class CaptureError(IbdissectError):
    """A capture cannot be opened or read at all (no such file, not a capture, unsupported link type)."""

    def __init__(self, path: str, reason: str, *, offset: int | None = None, hint: str = "") -> None:
        self.path, self.reason, self.offset, self.hint = path, reason, offset, hint = (
            public_name(path),
            without_secrets(reason),
            offset,
            hint,
        )
        where = f"{path}: " if offset is None else f"{path}, byte {offset}: "
        super().__init__(where + reason + (f"; {hint}" if hint else ""))


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Inside the `with`, an OSError becomes a CaptureError that says that the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise CaptureError(path, f"cannot be written: {error.strerror or error}") from error


class FilterError(IbdissectError):
    """A display filter, field name or query is not valid; `column` is the position in the filter, from 0."""

    def __init__(self, text: str, reason: str, *, column: int | None = None, hint: str = "") -> None:
        self.text, self.reason, self.column, self.hint = text, reason, column or 0, hint
        where = f"filter, column {column + 1}: " if column is not None else ""
        super().__init__(where + reason + (f"; {hint}" if hint else ""))


class ConfigError(IbdissectError):
    """A configuration file or option has an unknown key or a bad value."""

    def __init__(self, source: str, key: str, reason: str, *, hint: str = "") -> None:
        self.source, self.key, self.reason, self.hint = source, key, reason, hint
        super().__init__(": ".join(filter(None, (source, key, reason))) + (f"; {hint}" if hint else ""))


def missing_extra(extra: str, *modules: str) -> ConfigError:
    """The error that says how to install what modules of an extra need, into the environment that runs."""
    name = f"ibdissect[{extra}]"
    what, them = ("is", "it") if len(modules) == 1 else ("are", "them")
    command = f"python -m pip install '{name}'"
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):  # made by `uv tool install`: has no pip
        command = f"uv pip install --python {sys.prefix} {' '.join(modules)}"
    elif os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        command = f"pipx inject ibdissect {' '.join(modules)}"
    return ConfigError(name, "", f"{' and '.join(modules)} {what} not installed", hint=f"install {them}: {command}")


class SubnetFileError(IbdissectError):
    """A file about the subnet cannot be read, or opensm would refuse it; `line` is 0 for the file as a whole."""

    def __init__(self, path: str, line: int, reason: str, *, hint: str = "") -> None:
        self.path, self.line, self.reason, self.hint = path, line, reason, hint
        super().__init__((f"{path}:{line}: " if line else f"{path}: ") + reason + (f"; {hint}" if hint else ""))


class PluginError(IbdissectError):
    """A plugin cannot be loaded, or conflicts with something already loaded."""

    def __init__(self, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"plugin {source}: {reason}")


class SpecError(IbdissectError, TypeError):
    """A declaration contradicts itself (offsets, sizes, names); raised when the class is created."""

    def __init__(self, owner: str, key: str, reason: str) -> None:
        self.owner, self.key, self.reason = owner, key, reason
        super().__init__(f"{owner}.{key}: {reason}" if key else f"{owner}: {reason}")
