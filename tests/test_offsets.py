"""Only `wire` knows at which offset of a packet a field is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ibdissect

PACKAGE = Path(ibdissect.__file__).parent
BYTES = {"bytes", "bytearray", "memoryview", "Bytes", "Buffer"}
"""Annotations of what holds bytes."""
NAMED = {"raw", "data", "packet", "payload", "mad", "body", "bodies", "bytes_", "content", "frame_bytes", "headers"}
"""Names that hold bytes, annotated or not."""

INDEXED = re.compile(r"(\w+)\[(?=.*\d)")
SAID = re.compile(rf"(\w+): .*\b(?:{'|'.join(BYTES)})\b")
NOT_PACKETS = ("wire/", "capture/", "dfilter/")
"""The owner of places; readers of file formats; text of filters."""


def number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def unpacks(node: ast.Call) -> bool:
    """Whether a call unpacks at a number but 0."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    return name.endswith("unpack_from") and any(number(one) and ast.literal_eval(one) for one in node.args[1:])


def has_offset(place: ast.expr) -> bool:
    """Whether an index names a place in bytes: a number, or a slice with a number but 0; the first of several dimensions is rows."""
    if isinstance(place, ast.Tuple):
        return any(has_offset(one) for one in place.elts[1:])
    if isinstance(place, ast.Slice):
        return any(isinstance(one, ast.Constant) and type(one.value) is int and one.value != 0 for one in (place.lower, place.upper))
    return number(place)


def annotated(tree: ast.AST) -> set[str]:
    """Names of arguments and variables whose annotation says bytes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            name, says = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, says = node.target.id, node.annotation
        else:
            continue
        if {part.strip() for part in ast.unparse(says).split("|")} & BYTES:
            found.add(name)
    return found


def suspicious(source: str) -> bool:
    """Whether a line has a number behind the name of bytes and `[`, or unpacks: to parse every module takes a second."""
    return "unpack_from" in source or not {*INDEXED.findall(source)}.isdisjoint(NAMED | {*SAID.findall(source)})


def offsets(source: str) -> list[str]:
    """Places in a module at which bytes are read at an integer offset."""
    if not suspicious(source):
        return []
    tree = ast.parse(source)
    found = []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        names: set[str] | None = None
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and has_offset(node.slice):
                held = node.value
                name = held.id if isinstance(held, ast.Name) else held.attr if isinstance(held, ast.Attribute) else ""
                names = annotated(function) | NAMED if names is None else names
                if name in names:
                    found.append((node.lineno, node.col_offset, ast.unparse(node)))
            elif isinstance(node, ast.Call) and unpacks(node):
                found.append((node.lineno, node.col_offset, ast.unparse(node)))
    return [f"line {line}: {text}" for line, _, text in sorted(set(found))]


@pytest.mark.slow
def test_only_wire_knows_where_a_field_is() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(NOT_PACKETS) and (places := offsets(path.read_text())):
            found[name] = places
    assert not found, f"declare these places in wire/, and ask wire.cut for them: {found}"


def test_an_offset_is_noticed() -> None:
    planted = "def f(x: bytes, rows: list[int], packets):\n    return {}\n"
    for place in ("x[4]", "x[4:8]", "x[:8]", "raw[12]", "self.payload[1]", "bodies[:, 4]", "bodies[rows, 4:8]", "S.unpack_from(x, 2)"):
        assert offsets(planted.format(place)), place
    for place in (
        "rows[4]",
        "x[a:b]",
        "x[A.span[0]]",
        "bodies[0:2, a]",
        "x[0:]",
        "S.unpack_from(x, at)",
        "S.unpack_from(x, 0)",
        "packets[4]",
    ):
        assert not offsets(planted.format(place)), place
