"""Checks of a display filter: known names, matching types, values that the fields can have.

Between parsing and compiling: a syntax tree (`syntax`) becomes a checked one (`typed_tree`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ibdissect.decode.hidden.key_numbers import is_secret
from ibdissect.errors import FilterError
from ibdissect.moved import rule_name

from . import literals
from .frame_properties import State
from .literals import BadLiteral, Value
from .names import KIND_NAMES, MARKS, WHOLE, FilterNames, Kind, NameSource
from .operands import ByteRange, Computation, Constant, Function, NamedOperand, Operand
from .pattern import Pattern
from .syntax import Binary, Call, Char, FilterNode, InSet, Inverse, Logic, Negative, Range, Relation, Slice, String, Truth, Word
from .typed_tree import Compared, Condition, Exists, IsOneOf, Joined, Matched, Negated

SEARCHABLE = frozenset({"bytes", "string", "ether"})
"""Kinds that `contains` and `matches` can search."""
SLICEABLE = frozenset({"bytes", "string", "ether", "ipv4", "ipv6"})
OPERATES: dict[str, frozenset[str]] = {
    "&": frozenset({"uint", "bool", "bytes", "ether", "ipv4", "ipv6"}), "+": frozenset({"uint", "reltime"}),
    "-": frozenset({"uint", "reltime"}), "*": frozenset({"uint"}), "/": frozenset({"uint"}), "%": frozenset({"uint"}),
}  # fmt: skip
"""Operator -> kinds it works on."""
_ANY_VALUE = frozenset(KIND_NAMES) - {"none"}
_ORDERED = frozenset({"uint", "reltime", "abstime"})
FUNCTIONS: dict[str, tuple[frozenset[str], Kind | None]] = {
    "len": (_ANY_VALUE, "uint"), "count": (_ANY_VALUE, "uint"), "upper": (frozenset({"string"}), "string"),
    "lower": (frozenset({"string"}), "string"),
    "string": (frozenset({"uint", "bytes", "string", "ether", "ipv4", "ipv6"}), "string"), "abs": (frozenset({"uint", "reltime"}), None),
    "min": (_ORDERED, None), "max": (_ORDERED, None),
}  # fmt: skip
"""Function -> accepted kinds of its argument, kind of its result (None: that of the argument). `min` and `max` take several arguments."""
PROTOCOLS = WHOLE | MARKS.keys() | {"frame", "infiniband"}
"""Words without a dot that are names even if a value is expected."""


class Checker:
    """Turns a syntax tree into a checked one; raises FilterError with a column for every error."""

    def __init__(self, text: str, names: FilterNames, state: State) -> None:
        self.text, self.names, self.state = text, names, state
        self.used: set[str] = set()
        """Names used in the filter."""

    def error(self, node: FilterNode | int, reason: str, hint: str = "") -> FilterError:
        return FilterError(self.text, reason, column=node if isinstance(node, int) else node.column, hint=hint)

    def find(self, node: Word) -> NameSource | None:
        """The source of a name, which is recorded as used; None if unknown."""
        source = self.names.find(node.text)
        if source is not None:
            self.used.add(source.name)
        return source

    def named(self, node: Word) -> NamedOperand:
        """The source of a name; raises FilterError if unknown."""
        source = self.find(node)
        if source is None:
            near = self.names.nearest(node.text)
            raise self.error(node, f'"{node.text}" is neither a field nor a protocol', f"did you mean {', '.join(near)}" if near else "")
        return NamedOperand(source.kind, source, self.state)

    def guard(self, node: FilterNode, op: str, *operands: Operand) -> None:
        """Refuse comparisons that reveal a hidden key: only == and != with zero or a well-known value are allowed."""
        kind = next(filter(None, map(secret_of, operands)), "") if self.state.hide_keys else ""
        if not kind:
            return
        value = operands[-1].value if isinstance(operands[-1], Constant) else None
        number = int.from_bytes(value, "big") if isinstance(value, bytes) else value
        named = isinstance(operands[0], NamedOperand) and not any(field.tells for field in operands[0].source.fields)
        plain = len(operands) == 2 and named and isinstance(number, int) and not is_secret(kind, number)
        if not plain or op not in ("==", "!=", "===", "!=="):
            raise self.error(node, f"a hidden {kind} can only be tested for presence, == 0 and != 0", "--show-keys compares keys")

    # -- conditions

    def condition(self, node: FilterNode) -> Condition:
        if isinstance(node, Logic):
            return Joined(node.op, tuple(map(self.condition, node.parts)))
        if isinstance(node, Inverse):
            return Negated(self.condition(node.of))
        if isinstance(node, Relation):
            found = tuple(self.comparison(node, i) for i in range(len(node.ops)))
            return found[0] if len(found) == 1 else Joined("and", found)
        if isinstance(node, InSet):
            inside = self.membership(node)
            return Negated(inside) if node.negated else inside
        assert isinstance(node, Truth)
        return self.truth(node.of)

    def truth(self, node: FilterNode) -> Condition:
        if is_value(node):
            raise self.error(node, "a value alone is not a condition", "compare a field with it")
        operand = self.left(node, "")
        if isinstance(operand, Function):
            raise self.error(node, "a function alone is not a condition", "compare it with a value")
        if isinstance(operand, Computation):
            self.guard(node, "", operand)
        return Exists(operand)

    def comparison(self, node: Relation, i: int) -> Condition:
        of, right, op = node.operands[i], node.operands[i + 1], node.ops[i]
        left = self.left(of, op)
        if left.kind == "none":
            raise self.error(of, f"{KIND_NAMES['none']} can only be tested for presence")
        every = {"any": False, "all": True}.get(node.quantifier)
        if op in ("contains", "matches") and left.kind not in SEARCHABLE:
            raise self.error(of, f'"{op}" cannot look into {KIND_NAMES[left.kind]}')
        if op == "matches":
            self.guard(of, op, left)
            return Matched(left, self.pattern(right), bool(every))
        other = self.needle(right, left) if op == "contains" else self.right(right, left)
        self.guard(of, op, left, other)
        return Compared(op, left, other, every)

    def needle(self, node: FilterNode, left: Operand) -> Operand:
        """The right operand of `contains`; for a MAC address any number of bytes."""
        if left.kind == "ether" and is_literal(node, self.names):
            if isinstance(node, String):
                raise self.error(node, f"{node.text} is a string, but the field is {KIND_NAMES['ether']}", "leave the quotes out")
            return self.literal(node, "bytes", None)
        return self.right(node, left)

    def pattern(self, node: FilterNode) -> Pattern:
        if not isinstance(node, String):
            raise self.error(node, '"matches" needs a regular expression in double quotes')
        # String escapes are applied before those of the regular expression, as in Wireshark.
        text = self.value(node, lambda: literals.unescape(node.text))
        try:
            return Pattern(text)
        except BadLiteral as bad:
            inside = node.column + len(node.text) - len(node.text.lstrip("rR")) + 1 + bad.at
            raise self.error(min(inside, node.column + len(node.text) - 1), bad.reason) from None

    def membership(self, node: InSet) -> Condition:
        of = self.left(node.of, "in")
        if not isinstance(of, NamedOperand) or of.kind == "none":
            raise self.error(node.of, "only a field may be tested for membership in a set")
        choices = tuple(tuple(self.right(end, of) for end in ends_of(element)) for element in node.elements)
        for choice in choices:
            self.guard(node.of, "==" if len(choice) == 1 else "..", of, *choice)
        # "any" and "all" have no effect on "not in", as in Wireshark: no value may be in the set.
        return IsOneOf(of, choices, node.quantifier == "all" and not node.negated)

    # -- operands

    def left(self, node: FilterNode, op: str) -> Operand:
        """The left operand of an operator, which must come from the packet."""
        if is_value(node):
            raise self.error(node, f'the left side of "{op}" must be a field or a function')
        if isinstance(node, Word):
            return self.named(node)
        if isinstance(node, Slice):
            return self.slice(node)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, Negative):
            inner = self.left(node.of, "-")
            if inner.kind not in OPERATES["-"]:
                raise self.error(node, f"{KIND_NAMES[inner.kind]} cannot be negated")
            return Computation(inner.kind, "*", inner, Constant(inner.kind, -1))
        assert isinstance(node, Binary)
        return self.binary(node)

    def right(self, node: FilterNode, like: Operand) -> Operand:
        """The right operand, another field or a value, of the same kind as `like`; a flag is the number 0 or 1."""
        if is_literal(node, self.names):
            return self.literal(node, like.kind, source_of(like))
        found = self.left(node, "")
        if found.kind != like.kind and {found.kind, like.kind} != {"uint", "bool"}:
            raise self.error(node, f"{KIND_NAMES[like.kind]} and {KIND_NAMES[found.kind]} cannot be compared")
        return found

    def literal(self, node: FilterNode, kind: Kind, source: NameSource | None) -> Constant:
        if isinstance(node, Binary):
            return self.folded(node, kind, source)
        if isinstance(node, Negative):
            value = self.literal(node.of, kind, source).value
            if kind not in ("uint", "reltime") or not isinstance(value, int):
                raise self.error(node, f"{KIND_NAMES[kind]} cannot be negative")
            return Constant(kind, -value)
        value = self.value(node, lambda: self.read(node, kind, source))
        if source is not None and source.name == "ibdissect.rule":
            value = rule_name(value.decode("latin-1")).encode("latin-1")
        return Constant(kind, value)

    def read(self, node: FilterNode, kind: Kind, source: NameSource | None) -> Value:
        """The value of a word, string or character as `kind`; raises BadLiteral."""
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

    def value(self, node: FilterNode, read: Callable[[], Any]) -> Any:
        """Call `read`; converts BadLiteral to FilterError."""
        try:
            return read()
        except BadLiteral as bad:
            raise self.error(node.column + bad.at, bad.reason, bad.hint) from None

    def folded(self, node: Binary, kind: Kind, source: NameSource | None) -> Constant:
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
        """`left op right`, of which at least one comes from the packet."""
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

    def slice(self, node: Slice) -> Operand:
        """`of[ranges]`: bytes."""
        of = self.left(node.of, "[")
        if of.kind not in SLICEABLE:
            raise self.error(node, f"{KIND_NAMES[of.kind]} cannot be sliced into bytes")
        ranges, at = [], node.spec_column
        for text in node.spec.split(","):
            ranges.append(self.range(text.strip(), at))
            at += len(text) + 1
        return ByteRange("bytes", of, tuple(ranges))

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
            raise self.error(at, f'"{text}" is not a slice', "[offset:length], [first-last], [offset], [:length], [offset:]")
        return start, None if start < 0 and stop >= 0 else stop

    def call(self, node: Call) -> Operand:
        if node.name not in FUNCTIONS:
            raise self.error(node, f'there is no function "{node.name}"', "functions: " + ", ".join(FUNCTIONS))
        (fitting, kind), several = FUNCTIONS[node.name], node.name in ("min", "max")
        if not 1 <= len(node.arguments) <= (99 if several else 1):
            raise self.error(node, f"{node.name}() takes {'at least one argument' if several else 'one argument'}")
        if several:
            return self.extreme(node)
        if is_value(node.arguments[0]):
            raise self.error(node.arguments[0], f"the argument of {node.name}() must be a field")
        argument = self.left(node.arguments[0], node.name)
        if node.name != "abs" and not isinstance(argument, NamedOperand):
            raise self.error(node.arguments[0], f"the argument of {node.name}() must be a field")
        if argument.kind not in fitting:
            raise self.error(node.arguments[0], f"{node.name}() cannot be used on {KIND_NAMES[argument.kind]}")
        return Function(kind or argument.kind, node.name, (argument,))

    def extreme(self, node: Call) -> Operand:
        """`min` and `max`: all arguments must be of the kind of the first one from the packet."""
        first = next((each for each in node.arguments if not is_value(each)), None)
        if first is None:
            raise self.error(node.arguments[0], f"one argument of {node.name}() must be a field")
        like = self.left(first, node.name)
        if like.kind not in _ORDERED:
            raise self.error(first, f"{node.name}() cannot be used on {KIND_NAMES[like.kind]}")
        return Function(like.kind, node.name, tuple(like if each is first else self.right(each, like) for each in node.arguments))


def secret_of(operand: Operand) -> str:
    """The kind of key that an operand reveals; empty for none. The number and length of keys are not secret."""
    if isinstance(operand, NamedOperand):
        return next(filter(None, (field.secret or field.tells for field in operand.source.fields)), "")
    if isinstance(operand, Function) and operand.name in ("count", "len"):
        return ""
    parts: tuple[Operand, ...] = ()
    if isinstance(operand, Function):
        parts = operand.arguments
    elif isinstance(operand, Computation):
        parts = (operand.left, operand.right)
    elif isinstance(operand, ByteRange):
        parts = (operand.of,)
    return next(filter(None, map(secret_of, parts)), "")


def is_value(node: FilterNode) -> bool:
    """Whether a node can only be a value; if a name is expected, every other word is read as one."""
    if isinstance(node, Word):
        return node.text[0].isdigit() or ":" in node.text
    if isinstance(node, Binary):
        return is_value(node.left) and is_value(node.right)
    return is_value(node.of) if isinstance(node, Negative) else isinstance(node, (String, Char))


def is_literal(node: FilterNode, names: FilterNames) -> bool:
    """Whether a node is a value if a value is expected: then only known names with a dot, and protocols, are names."""
    if isinstance(node, Word):
        text = node.text
        if text.startswith("."):
            return False
        return names.find(text) is None if "." in text else text not in PROTOCOLS and text not in names.prefixes
    if isinstance(node, Binary):
        return is_literal(node.left, names) and is_literal(node.right, names)
    if isinstance(node, Negative):
        return is_literal(node.of, names)
    return isinstance(node, (String, Char))


def source_of(operand: Operand) -> NameSource | None:
    """The source that gives an operand its value names and its largest value."""
    if isinstance(operand, NamedOperand):
        return operand.source
    if isinstance(operand, Computation):
        return source_of(operand.left) or source_of(operand.right)
    if isinstance(operand, Function) and operand.name in ("min", "max", "abs"):
        return next(filter(None, map(source_of, operand.arguments)), None)
    return None


def _repeats(operand: Operand) -> bool:
    return isinstance(operand, NamedOperand) and any(field.count > 1 for field in operand.source.fields)


def ends_of(node: FilterNode) -> tuple[FilterNode, ...]:
    return (node.low, node.high) if isinstance(node, Range) else (node,)
