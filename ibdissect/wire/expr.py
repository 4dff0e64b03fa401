"""Conditions on packet fields. Rules, TOML rules and display filters are all converted to them.

`ibdissect.decode.conditions` evaluates it over arrays; nothing here reads packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast

from msgspec import Struct as Record

if TYPE_CHECKING:
    from .spec import Field, Struct

K = TypeVar("K", "Arith", "Compare")
Operand = Union["Value", "Field[Any]", int, bytes, str]


class Expr:
    """A condition, true or false for each packet (or each occurrence of a structure)."""

    __slots__ = ()

    def __and__(self, other: Expr) -> Expr:
        return And((*_parts_of(And, self), *_parts_of(And, other)))

    def __or__(self, other: Expr) -> Expr:
        return Or((*_parts_of(Or, self), *_parts_of(Or, other)))

    def __invert__(self) -> Expr:
        return Not(self)


class Value:
    """A value for each packet: a field or arithmetic on fields."""

    __slots__ = ()

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _made(Compare, "==", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _made(Compare, "!=", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return _made(Compare, "<", self, other)

    def __le__(self, other: Operand) -> Expr:
        return _made(Compare, "<=", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _made(Compare, ">", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _made(Compare, ">=", self, other)

    __hash__ = object.__hash__

    def fields(self) -> Iterator[Field[Any]]:
        """The fields that it is computed from."""
        yield from ()

    def __and__(self, other: Operand) -> Value:
        if isinstance(other, Expr):
            raise TypeError("a field and a condition: write `(field == 1) & condition`")
        return _made(Arith, "&", self, other)

    def __rshift__(self, other: int) -> Value:
        return Arith(">>", self, other)

    def __lshift__(self, other: int) -> Value:
        return Arith("<<", self, other)

    def __add__(self, other: Operand) -> Value:
        return _made(Arith, "+", self, other)

    def __sub__(self, other: Operand) -> Value:
        return _made(Arith, "-", self, other)

    def __mul__(self, other: int) -> Value:
        return Arith("*", self, other)

    def __truediv__(self, other: object) -> Value:
        raise TypeError("a field cannot be divided: numbers are computed with + - * & >> <<; write `field >> 1` for its half")

    __floordiv__ = __mod__ = __truediv__

    def isin(self, values: Iterable[int | bytes | str]) -> Expr:
        """True if the value is one of `values`."""
        return In(self, frozenset(values))

    def between(self, low: int, high: int) -> Expr:
        """True if low <= value <= high."""
        return And((Compare(">=", self, low), Compare("<=", self, high)))


class Arith(Value, Record, frozen=True, eq=False):
    """`left op right` with op one of & >> << + - *; 64-bit signed unless an operand needs unsigned."""

    op: str
    left: object
    right: object

    def fields(self) -> Iterator[Field[Any]]:
        for operand in (self.left, self.right):
            if isinstance(operand, Value):
                yield from operand.fields()


class Compare(Expr, Record, frozen=True, eq=False):
    """`left op right`; `ibdissect.decode.conditions` defines the meaning for operands with several values or none."""

    op: str
    left: object
    right: object
    every: bool | None = None
    """Whether every pair of values must satisfy the operator, or any; None: the operator's default."""

    def __bool__(self) -> bool:
        # Fields are dictionary keys: on a hash collision Python evaluates `a == b`, which is a Compare here.
        if self.op == "==":
            return self.left is self.right
        if self.op == "!=":
            return self.left is not self.right
        raise TypeError("a field comparison has no truth value of its own; combine with & | ~")


class In(Expr, Record, frozen=True, eq=False):
    """A value is one of a set of constants."""

    value: object
    choices: frozenset[int | bytes | str]


class Among(Expr, Record, frozen=True, eq=False):
    """A value (or every value) equals one of several operands, or lies between the two operands of a pair."""

    value: object
    choices: tuple[tuple[object, ...], ...]
    every: bool = False


class Search(Expr, Record, frozen=True, eq=False):
    """`search(data, starts, stops)`, which returns a bool per byte sequence, is true for one of them (or every one)."""

    value: object
    search: Callable[[Any, Any, Any], Any]
    every: bool = False


class And(Expr, Record, frozen=True, eq=False):
    """All parts hold."""

    parts: tuple[Expr, ...]


class Or(Expr, Record, frozen=True, eq=False):
    """At least one part holds."""

    parts: tuple[Expr, ...]


class Not(Expr, Record, frozen=True, eq=False):
    """The part does not hold."""

    part: Expr


class Present(Expr, Record, frozen=True, eq=False):
    """The structure is in the packet, or the operand has a value."""

    what: object


class Where(Expr, Record, frozen=True, eq=False):
    """A condition in code: `holds(table)` returns a bool for each occurrence of `of`, or for each row if None.

    `of`: a structure, or its field that is at fault.
    """

    of: type[Struct] | Field[Any] | None
    holds: Callable[[Any], Any]
    of_content: bool = False
    """Whether it asks of an SMP only what `decode.repeated_smps.contents` says: then equal ones are not judged again."""


def present(what: type[Struct] | Value) -> Expr:
    """True for packets that contain the structure or field, and where `previous(...)` has a value."""
    return Present(what)


def first_field(condition: object) -> Field[Any] | None:
    """The first field that a condition names; None if it names none."""
    return next((field for one in nodes_of(condition) if isinstance(one, Value) for field in one.fields()), None)


def nodes_of(condition: object) -> Iterator[Expr | Value]:
    """A condition or value, and all that it is made of, in their order."""
    if isinstance(condition, (Expr, Value)):
        yield condition
        for one in made_of(condition):
            yield from nodes_of(one)


def made_of(condition: object) -> Iterator[Any]:
    """What a condition or value is made of: conditions, values and others."""
    for name in getattr(condition, "__struct_fields__", ()):
        part = getattr(condition, name)
        yield from part if isinstance(part, tuple) else (part,)


def _parts_of(kind: type[And | Or], condition: Expr) -> tuple[Expr, ...]:
    """The parts of a condition of that kind, so that `a & b & c` has three."""
    return condition.parts if isinstance(condition, kind) else (condition,)


def _made(kind: type[K], op: str, left: Value, right: object) -> K:
    """`left op right`; NotImplemented for what is no operand, such as a float, so that Python raises TypeError or says that they differ."""
    return kind(op, left, right) if isinstance(right, (Value, int, bytes, str)) else cast("K", NotImplemented)
