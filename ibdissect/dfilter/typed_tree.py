"""The checked display filter: conditions whose operands have kinds, without text."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct as Record

from .operands import NamedOperand, Operand
from .pattern import Pattern


class Condition(Record, frozen=True):
    """A part of the filter that is true or false for a frame."""


class Joined(Condition, frozen=True):
    """`xor`: an odd number of its parts is true."""

    op: Literal["and", "or", "xor"]
    parts: tuple[Condition, ...]


class Negated(Condition, frozen=True):
    of: Condition


class Exists(Condition, frozen=True):
    """The frame has the operand; the result of a computation is not zero."""

    of: Operand


class Compared(Condition, frozen=True):
    """`every`: each pair of values satisfies the operator, or any does; None: the default of the operator."""

    op: str
    left: Operand
    right: Operand
    every: bool | None


class Matched(Condition, frozen=True):
    """`every`: the expression is found in each value, not only in one."""

    left: Operand
    pattern: Pattern
    every: bool


class IsOneOf(Condition, frozen=True):
    """A value, or every one, equals one of the choices, or lies between the two of a choice."""

    of: NamedOperand
    choices: tuple[tuple[Operand, ...], ...]
    every: bool
