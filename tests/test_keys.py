"""The rooms that follow and judge leave it to `decode.identity` who is who: a table of theirs has identities as keys, or plain values that
name nobody.

Identities are the classes of the rooms below: a port, an end, a connection, a stream, and what `decode.identity` declares.
Plain values have names there as well (`Frame`, `Code`), so that a key of numbers says which it is, and why it is none.
"""

from __future__ import annotations

import ast
import importlib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct as Record

import ibdissect
from ibdissect.decode import identity

PACKAGE = Path(ibdissect.__file__).parent
ROOMS = ("mad", "transport", "points", "traffic", "diagnosis", "rules")
FILES = [path.relative_to(PACKAGE) for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py"))]
ALONE = {"set", "Counter", "BoundedTally"}
"""Tables whose type names the key alone."""
TABLES = {"dict", "BoundedDict", "KeptDict", "defaultdict", "OrderedDict"} | ALONE
NUMBERS = (int, bytes, float, object)
PLAIN = {name for name in vars(identity) if getattr(identity, name) in (int, bytes)}
"""Names of plain values."""


def names(key: ast.expr) -> Iterator[str]:
    """The types in a key as written: `tuple[Port, int]` has Port and int."""
    if isinstance(key, ast.Name):
        yield key.id
    elif isinstance(key, ast.Subscript):
        yield from names(key.slice if ast.unparse(key.value) in ("tuple", "frozenset", "type") else key.value)
    elif isinstance(key, ast.Tuple):
        for one in key.elts:
            yield from names(one)
    elif isinstance(key, ast.BinOp):
        yield from (*names(key.left), *names(key.right))


def is_number(kind: Any) -> bool:
    """Whether a type is, or holds, numbers or bytes without a name: an alias of theirs, or a tuple or record that a room made of them.

    Not a class whose objects compare by identity, nor one that `decode` declares.
    """
    if kind in NUMBERS:
        return True
    if isinstance(kind, types.GenericAlias | types.UnionType) or typing.get_origin(kind) is not None:
        return any(is_number(one) for one in typing.get_args(kind))
    own = isinstance(kind, type) and kind.__module__.startswith(tuple(f"ibdissect.{room}." for room in ROOMS))
    record = getattr(kind, "__struct_config__", None)
    by_value = record.eq if record is not None else getattr(kind, "__hash__", None) is not object.__hash__
    if own and by_value and hasattr(kind, "__annotations__"):
        hints, written = typing.get_type_hints(kind), kind.__annotations__
        return any(is_number(hints[name]) for name in hints if getattr(written[name], "__forward_arg__", written[name]) not in PLAIN)
    return False


def keys(source: str, module: dict[str, Any] | None = None) -> list[str]:
    """Tables whose keys are numbers or bytes, as annotations and calls name them: `dict[tuple[int, int], Hit]`."""
    known = {**vars(__import__("builtins")), "Any": Any, **(module or {})}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in TABLES:
            several = isinstance(node.slice, ast.Tuple) and node.value.id not in ALONE
            key = typing.cast(ast.Tuple, node.slice).elts[0] if several else node.slice
            if any(name in ("Any", "object") or (name not in PLAIN and is_number(known.get(name))) for name in names(key)):
                found.append((node.lineno, node.col_offset, ast.unparse(node)))
    return [f"line {line}: {text}" for line, _, text in sorted(found)]


@pytest.mark.slow
def test_rooms_make_no_keys() -> None:
    found = {}
    for path in FILES:
        name = ".".join(("ibdissect", *path.with_suffix("").parts)).removesuffix(".__init__")
        if places := keys((PACKAGE / path).read_text(), vars(importlib.import_module(name))):
            found[path.as_posix()] = places
    assert not found, f"use the types of decode.identity, or name the plain value: {found}"


def test_a_key_is_noticed() -> None:
    class Way(typing.NamedTuple):
        lid: int

    class Kept(Record, eq=False):
        lid: int

    Way.__module__ = Kept.__module__ = "ibdissect.transport.planted"
    module = {"Pair": tuple[int, int], "End": str, "Port": str, "Way": Way, "Kept": Kept, "Lid": typing.NewType("Lid", int)}
    for planted in (
        "dict[int, Hit]", "KeptDict[tuple[int, End], Hit]", "set[tuple[bytes, int]]", "BoundedDict[tuple[int, ...], Hit]", "Counter[int]",
        "dict[Pair, Hit]", "set[Pair]", "dict[Way, Hit]", "set[tuple[Port, Any]]", "dict[int | Port, Hit]", "set[int]",
        "BoundedTally[int]",
    ):  # fmt: skip
        assert keys(f"x: {planted} = y", module), planted
    for planted in (
        "dict[Port, int]", "KeptDict[tuple[End, End], Hit]", "list[int]", "set[Port]", "dict[Frame, int]", "set[tuple[Port, PKey]]",
        "dict[str, Any]", "set[Frame]", "dict[Kept, Hit]", "dict[Lid, Hit]", "set[tuple[Lid, QpNumber]]",
    ):  # fmt: skip
        assert not keys(f"x: {planted} = y", module), planted
