"""What a condition on packet fields looks like as data: rules, TOML rules and display filters all become this.

Evaluation over arrays lives in `ibdissect.table.mask`; nothing here touches a packet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Union

from ibdissect.record import record

if TYPE_CHECKING:
    from .spec import Field, Struct

Operand = Union["Value", "Field[Any]", int, bytes, str]


class Expr:
    """A truth value for each packet (or each occurrence of a structure)."""

    __slots__ = ()

    def __and__(self, other: Expr) -> Expr:
        return And((self, other))

    def __or__(self, other: Expr) -> Expr:
        return Or((self, other))

    def __invert__(self) -> Expr:
        return Not(self)


class Value:
    """A number for each packet: a field or arithmetic on one."""

    __slots__ = ()

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Compare("==", self, _operand(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Compare("!=", self, _operand(other))

    def __lt__(self, other: Operand) -> Expr:
        return Compare("<", self, _operand(other))

    def __le__(self, other: Operand) -> Expr:
        return Compare("<=", self, _operand(other))

    def __gt__(self, other: Operand) -> Expr:
        return Compare(">", self, _operand(other))

    def __ge__(self, other: Operand) -> Expr:
        return Compare(">=", self, _operand(other))

    __hash__ = object.__hash__

    def __and__(self, other: Operand) -> Value:
        if isinstance(other, Expr):
            raise TypeError("a field and a condition: write `(field == 1) & condition`")
        return Arith("&", self, _operand(other))

    def __rshift__(self, other: int) -> Value:
        return Arith(">>", self, other)

    def __lshift__(self, other: int) -> Value:
        return Arith("<<", self, other)

    def __add__(self, other: Operand) -> Value:
        return Arith("+", self, _operand(other))

    def __sub__(self, other: Operand) -> Value:
        return Arith("-", self, _operand(other))

    def __mul__(self, other: int) -> Value:
        return Arith("*", self, other)

    def isin(self, values: Iterable[int | bytes | str]) -> Expr:
        """True where the value is one of `values`."""
        return In(self, frozenset(values))

    def between(self, low: int, high: int) -> Expr:
        """True where low <= value <= high."""
        return And((Compare(">=", self, low), Compare("<=", self, high)))


@record
class Arith(Value):
    """`left op right` with op one of & >> << + - *; 64-bit signed unless an operand needs unsigned."""

    op: str
    left: Any
    right: Any

    def fields(self) -> Iterator[Field[Any]]:
        yield from _fields_of(self.left)
        yield from _fields_of(self.right)


@record
class Compare(Expr):
    """`left op right`; when a field occurs several times in a packet, `==` is true if any occurrence agrees, `!=` if all differ."""

    op: str
    left: Any
    right: Any

    def __bool__(self) -> bool:
        # Field is a dictionary key: after a hash collision Python asks `a == b`, which is a Compare here.
        if self.op == "==":
            return self.left is self.right
        if self.op == "!=":
            return self.left is not self.right
        raise TypeError("a field comparison has no truth value of its own; combine with & | ~")


@record
class In(Expr):
    """The value is one of a set."""

    value: Any
    choices: frozenset[Any]


@record
class And(Expr):
    """All parts hold."""

    parts: tuple[Expr, ...]


@record
class Or(Expr):
    """At least one part holds."""

    parts: tuple[Expr, ...]


@record
class Not(Expr):
    """The part does not hold."""

    part: Expr


@record
class Present(Expr):
    """The structure or field is in the packet."""

    what: type[Struct] | Field[Any]


@record
class Where(Expr):
    """What no arithmetic on fields says: `holds(table)` gives a truth value for each occurrence of `of`, or for each row if None."""

    of: type[Struct] | None
    holds: Callable[[Any], Any]


def present(what: type[Struct] | Field[Any]) -> Expr:
    """True for packets that hold the structure or field."""
    return Present(what)


def _operand(value: object) -> Any:
    if isinstance(value, (Value, int, bytes, str)):
        return value
    return NotImplemented


def _fields_of(value: object) -> Iterator[Field[Any]]:
    from .spec import Field

    if isinstance(value, Field):
        yield value
    elif isinstance(value, Arith):
        yield from value.fields()
