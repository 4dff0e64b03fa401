"""Does only `wire` know at which offset of a packet a field is?"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import ibdissect

PACKAGE = Path(ibdissect.__file__).parent
BYTES = {"bytes", "bytearray", "memoryview", "Bytes", "Buffer"}
"""Annotations of what holds bytes."""
NAMED = {"raw", "data", "packet", "payload", "mad", "body", "bodies", "bytes_", "content", "frame_bytes", "headers"}
"""Names that hold bytes, annotated or not."""

NOT_PACKETS = ("wire/", "capture/", "dfilter/")
"""The owner of places; readers of file formats; text of filters."""

LEFT = {
    "dissect/dependent_names.py": 1,
    "dissect/summary_mad.py": 5,
    "dissect/summary_other.py": 23,
    "engine/routes.py": 1,
    "fabric/learn.py": 2,
    "flow/multicast.py": 1,
    "flow/rdma_chunks.py": 1,
    "layers/inner.py": 4,
    "layers/link.py": 5,
    "layers/mad.py": 3,
    "layers/transport.py": 4,
    "rules/MCG/groups.py": 3,
    "study/field_notes.py": 1,
    "study/ladder.py": 6,
    "subnet/reading.py": 3,
    "table/smc_pairs.py": 3,
}
"""Modules with offsets left, and how many. Mend them and lower the number; never raise it, never add a module."""


def number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


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


def offsets(source: str) -> list[str]:
    """Places in a module at which bytes are read at an integer offset."""
    tree = ast.parse(source)
    found = []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        names = annotated(function) | NAMED
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and has_offset(node.slice):
                held = node.value
                name = held.id if isinstance(held, ast.Name) else held.attr if isinstance(held, ast.Attribute) else ""
                if name in names:
                    found.append((node.lineno, node.col_offset, ast.unparse(node)))
            elif (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("unpack_from")
                and any(number(one) and ast.literal_eval(one) for one in node.args[1:])
            ):
                found.append((node.lineno, node.col_offset, ast.unparse(node)))
    return [f"line {line}: {text}" for line, _, text in sorted(set(found))]


def test_only_wire_knows_where_a_field_is() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(NOT_PACKETS) and (places := offsets(path.read_text())):
            found[name] = places
    counted = Counter({name: len(places) for name, places in found.items()})
    more = {name: found[name] for name in counted if counted[name] > LEFT.get(name, 0)}
    assert not more, f"declare these places in wire/: {more}"
    fewer = {name: counted[name] for name in LEFT if counted[name] < LEFT[name]}
    assert not fewer, f"well done; lower LEFT to {fewer}"


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
