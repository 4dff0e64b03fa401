"""Does a display filter make sense: are the names known, do the types fit, are the values what the field can hold?"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ibdissect.errors import FilterError

from . import literals
from .literals import BadLiteral, Value
from .names import KIND_NAMES, MARKS, Kind, Names, Source
from .syntax import Binary, Call, Char, Negative, Node, Range, Sliced, String, Word
from .values import Computation, Constant, Function, Minus, Named, Operand, Part

SEARCHABLE = frozenset({"bytes", "string", "ether"})
"""Kinds that `contains` and `matches` look into."""
SLICEABLE = frozenset({"bytes", "string", "ether", "ipv4", "ipv6"})
OPERATES: dict[str, frozenset[str]] = {
    "&": frozenset({"uint", "bool", "bytes", "ether", "ipv4", "ipv6"}), "+": frozenset({"uint", "reltime"}),
    "-": frozenset({"uint", "reltime"}), "*": frozenset({"uint"}), "/": frozenset({"uint"}), "%": frozenset({"uint"}),
}  # fmt: skip
"""Operator -> kinds it works on."""
FUNCTIONS: dict[str, tuple[int, int]] = {
    "len": (1, 1), "count": (1, 1), "upper": (1, 1), "lower": (1, 1), "string": (1, 1), "abs": (1, 1), "min": (1, 99), "max": (1, 99),
}  # fmt: skip
"""Function -> least and greatest number of arguments."""
PROTOCOLS = frozenset({"frame", "erf", "eth", "vlan", "sll", "ip", "ipv6", "udp", "infiniband"})
"""Words without a dot that are names even where a value is expected."""


class Checker:
    """Turns operands of the syntax tree into operands with values; every fault is a FilterError at its column."""

    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names = text, names
        self.used: set[str] = set()
        """Names that were found."""

    def error(self, node: Node | int, reason: str, hint: str = "") -> FilterError:
        """A fault at a node or column."""
        return FilterError(self.text, reason, column=node if isinstance(node, int) else node.column, hint=hint)

    def find(self, node: Word) -> Source | None:
        """The source that a word names, noted as used."""
        source = self.names.find(node.text)
        if source is not None:
            self.used.add(source.name)
        return source

    def named(self, node: Word) -> Named:
        """The field that a word names, which must exist."""
        source = self.find(node)
        if source is None:
            near = self.names.nearest(node.text)
            raise self.error(node, f'"{node.text}" is neither a field nor a protocol', f"did you mean {', '.join(near)}" if near else "")
        return Named(source.kind, source)

    # -- operands

    def left(self, node: Node, op: str) -> Operand:
        """An operand on the left of an operator: it must come from the packet."""
        if is_value(node):
            raise self.error(node, f'the left side of "{op}" must be a field or a function')
        if isinstance(node, Word):
            return self.named(node)
        if isinstance(node, Sliced):
            return self.slice(node)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, Negative):
            inner = self.left(node.of, "-")
            if inner.kind not in OPERATES["-"]:
                raise self.error(node, f"{KIND_NAMES[inner.kind]} cannot be negated")
            return Minus(inner.kind, inner)
        assert isinstance(node, Binary)
        return self.binary(node)

    def right(self, node: Node, like: Operand) -> Operand:
        """An operand beside one of a known kind: another field of that kind, or a value."""
        if is_literal(node, self.names):
            return self.literal(node, like.kind, source_of(like))
        found = self.left(node, "")
        if found.kind != like.kind:
            raise self.error(node, f"{KIND_NAMES[like.kind]} and {KIND_NAMES[found.kind]} cannot be compared")
        return found

    def literal(self, node: Node, kind: Kind, source: Source | None) -> Constant:
        """The value that a literal has as `kind`."""
        if isinstance(node, Binary):
            return self.folded(node, kind, source)
        if isinstance(node, Negative):
            value = self.literal(node.of, kind, source).value
            if kind not in ("uint", "reltime") or not isinstance(value, int):
                raise self.error(node, f"{KIND_NAMES[kind]} cannot be negative")
            return Constant(kind, -value)
        return Constant(kind, self.value(node, lambda: self.read(node, kind, source)))

    def read(self, node: Node, kind: Kind, source: Source | None) -> Value:
        """As `literal`; raises BadLiteral."""
        if isinstance(node, Word):
            return literals.of_word(node.text.removeprefix("."), kind, source)
        if isinstance(node, String):
            return literals.of_string(node.text, kind, source)
        assert isinstance(node, Char)
        byte = literals.of_char(node.text)
        if kind == "uint":
            return byte
        if kind in ("bytes", "string"):
            return bytes([byte])
        raise BadLiteral(f"{node.text} is a character, but the field is {KIND_NAMES[kind]}")

    def value(self, node: Node, read: Callable[[], Any]) -> Any:
        """What `read` returns, its BadLiteral as a FilterError."""
        try:
            return read()
        except BadLiteral as bad:
            raise self.error(node.column + bad.at, bad.reason, bad.hint) from None

    def folded(self, node: Binary, kind: Kind, source: Source | None) -> Constant:
        """Arithmetic on numbers only."""
        if kind not in OPERATES[node.op] or kind not in ("uint", "reltime"):
            raise self.error(node, f'"{node.op}" cannot be used on {KIND_NAMES[kind]}')
        a, b = self.literal(node.left, kind, source).value, self.literal(node.right, kind, source).value
        assert isinstance(a, int) and isinstance(b, int)
        if node.op in "/%" and not b:
            raise self.error(node.right, "division by zero")
        value = {"&": a & b, "+": a + b, "-": a - b, "*": a * b, "/": a // (b or 1), "%": a % (b or 1)}[node.op]
        if not -(1 << 63) <= value < 1 << 64:
            raise self.error(node, "the result is larger than 64 bits")
        return Constant(kind, value)

    def binary(self, node: Binary) -> Operand:
        """`left op right`, at least one of them from the packet."""
        if is_value(node.left):
            right = self.left(node.right, node.op)
            left: Operand = self.literal(node.left, right.kind, source_of(right))
        else:
            left = self.left(node.left, node.op)
            right = self.right(node.right, left)
        if left.kind not in OPERATES[node.op]:
            raise self.error(node, f'"{node.op}" cannot be used on {KIND_NAMES[left.kind]}')
        if _repeats(left) and _repeats(right):
            raise self.error(node, "both sides occur many times in a packet", "compute with one of them")
        for operand, side in ((left, node.left), (right, node.right)):
            if isinstance(operand, Constant) and not isinstance(operand.value, int | bytes):
                raise self.error(side, "an address with a prefix length can only be compared")
        return Computation(left.kind, node.op, left, right)

    # -- slices and functions

    def slice(self, node: Sliced) -> Operand:
        """`of[ranges]`: bytes."""
        of = self.left(node.of, "[")
        if of.kind not in SLICEABLE:
            raise self.error(node, f"{KIND_NAMES[of.kind]} cannot be sliced into bytes")
        ranges, at = [], node.spec_column
        for text in node.spec.split(","):
            ranges.append(self.range(text.strip(), at))
            at += len(text) + 1
        return Part("bytes", of, tuple(ranges))

    def range(self, text: str, at: int) -> tuple[int, int | None]:
        """`i`, `i:length`, `i-j` (both ends), `:length`, `i:` as (start, stop)."""
        number = r"(-?(?:0[xX][0-9A-Fa-f]{1,8}|[0-9]{1,10}))"
        if found := re.fullmatch(number, text):
            start, stop = int(found[1], 0), int(found[1], 0) + 1
        elif found := re.fullmatch(rf"{number}?\s*:\s*{number}?", text):
            start = int(found[1] or "0", 0)
            if found[2] is None:
                return start, None
            length = int(found[2], 0)
            if length <= 0:
                raise self.error(at, f"the length of a slice is at least 1, not {length}")
            stop = start + length
        elif found := re.fullmatch(rf"{number}\s*-\s*{number}", text):
            start, stop = int(found[1], 0), int(found[2], 0) + 1
            if (start < 0) != (stop - 1 < 0):
                raise self.error(at, "the ends of a slice are counted from the same side")
            if start >= stop:
                raise self.error(at, f"the slice ends at {stop - 1}, before it starts")
        else:
            raise self.error(at, f'"{text}" is no slice', "[offset:length], [first-last], [offset], [:length], [offset:]")
        return start, None if start < 0 and stop >= 0 else stop

    def call(self, node: Call) -> Operand:
        """`name(arguments)`."""
        least, most = FUNCTIONS.get(node.name, (0, 0))
        if not most:
            raise self.error(node, f'there is no function "{node.name}"', "functions: " + ", ".join(FUNCTIONS))
        if not least <= len(node.arguments) <= most:
            raise self.error(node, f"{node.name}() takes {'one argument' if most == 1 else 'at least one argument'}")
        if node.name in ("min", "max"):
            return self.extreme(node)
        if is_value(node.arguments[0]):
            raise self.error(node.arguments[0], f"the argument of {node.name}() must be a field")
        argument = self.left(node.arguments[0], node.name)
        if node.name != "abs" and not isinstance(argument, Named):
            raise self.error(node.arguments[0], f"the argument of {node.name}() must be a field")
        fitting, kind = _SIGNATURES[node.name]
        if argument.kind not in fitting:
            raise self.error(node.arguments[0], f"{node.name}() cannot be used on {KIND_NAMES[argument.kind]}")
        return Function(kind or argument.kind, node.name, (argument,))

    def extreme(self, node: Call) -> Operand:
        """`min` and `max`: all arguments are of the kind of the first one from the packet."""
        first = next((each for each in node.arguments if not is_value(each)), None)
        if first is None:
            raise self.error(node.arguments[0], f"one argument of {node.name}() must be a field")
        like = self.left(first, node.name)
        if like.kind not in ("uint", "reltime", "abstime"):
            raise self.error(first, f"{node.name}() cannot be used on {KIND_NAMES[like.kind]}")
        return Function(like.kind, node.name, tuple(like if each is first else self.right(each, like) for each in node.arguments))


_ANY_VALUE = frozenset(KIND_NAMES) - {"none"}
_SIGNATURES: dict[str, tuple[frozenset[str], Kind | None]] = {
    "len": (_ANY_VALUE, "uint"), "count": (_ANY_VALUE, "uint"), "upper": (frozenset({"string"}), "string"),
    "lower": (frozenset({"string"}), "string"), "abs": (frozenset({"uint", "reltime"}), None),
    "string": (frozenset({"uint", "bytes", "string", "ether", "ipv4", "ipv6"}), "string"),
}  # fmt: skip
"""Function -> kinds of its argument, kind of its result (None: that of the argument)."""


def is_value(node: Node) -> bool:
    """Whether a node can be nothing but a value; where a name is expected, every other word is taken for one."""
    if isinstance(node, Word):
        return node.text[0].isdigit() or ":" in node.text
    if isinstance(node, Binary):
        return is_value(node.left) and is_value(node.right)
    return is_value(node.of) if isinstance(node, Negative) else isinstance(node, (String, Char))


def is_literal(node: Node, names: Names) -> bool:
    """Whether a node is a value where a value is expected: there only a known name with a dot, or a protocol, is a name."""
    if isinstance(node, Word):
        text = node.text
        if text.startswith("."):
            return False
        return names.find(text) is None if "." in text else text not in PROTOCOLS | MARKS.keys()
    if isinstance(node, Binary):
        return is_literal(node.left, names) and is_literal(node.right, names)
    if isinstance(node, Negative):
        return is_literal(node.of, names)
    return isinstance(node, (String, Char))


def source_of(operand: Operand) -> Source | None:
    """The field that lends an operand its enumeration and its largest value."""
    if isinstance(operand, Named):
        return operand.source
    if isinstance(operand, Computation):
        return source_of(operand.left) or source_of(operand.right)
    if isinstance(operand, Minus):
        return source_of(operand.of)
    if isinstance(operand, Function) and operand.name in ("min", "max", "abs"):
        return next(filter(None, map(source_of, operand.arguments)), None)
    return None


def _repeats(operand: Operand) -> bool:
    return isinstance(operand, Named) and any(field.count > 1 for field in operand.source.fields)


def ends_of(node: Node) -> tuple[Node, ...]:
    """The one or two ends of an element of a set."""
    return (node.low, node.high) if isinstance(node, Range) else (node,)
