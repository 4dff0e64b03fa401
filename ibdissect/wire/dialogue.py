"""Declarations of plugins beside bytes: PDUs that answer others, remarks, the Info column, names of vendor classes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct as Record

from .column import ComputedField, holds_in
from .expr import Expr
from .spec import Field, Struct

StructType = type[Struct]
Pair = tuple[Field[Any], Field[Any]]
NOTHING: Mapping[int, str] = MappingProxyType({})


class Answer(Record, frozen=True, eq=False):
    """What an occurrence of a structure answers; see `answer`."""

    to: StructType | None
    asks: Expr | None
    when: Expr | None
    by: tuple[Field[Any] | Pair, ...]

    def request(self, struct: StructType) -> StructType:
        """The structure of the request."""
        return self.to if self.to is not None else struct

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Fields that are equal in the answer and in the request."""
        return tuple(one if isinstance(one, tuple) else (one, one) for one in self.by)


def answer(
    to: type[Struct] | None = None,
    *,
    asks: Expr | None = None,
    when: Expr | None = None,
    by: Field[Any] | tuple[Field[Any] | Pair, ...] = (),
) -> Answer:
    """What a structure answers: `answers = answer(asks=op == 1, when=op == 2, by=tag)`.

    `to`: the structure of requests, by default the same. `asks`: which of these are requests; `when`: which of its own occurrences are
    answers. `by`: fields with equal values in both, or pairs (own field, field of the request). An answer belongs to the latest open
    request in the other direction of the same conversation.
    """
    return Answer(to, asks, when, by if isinstance(by, tuple) else (by,))


class Note(Record, frozen=True, eq=False):
    """A remark about an occurrence; see `note`."""

    when: Expr
    text: str


def note(when: Expr, text: str) -> Note:
    """A remark where a condition on fields of the structure holds: `notes = (note(celsius > 70, "too hot"),)`.

    It is shown in the tree; `<structure>.note` is its name in filters and columns.
    """
    return Note(when, text)


class Summary(Record, frozen=True, eq=False):
    """What the Info column says of a structure; see `summary`."""

    text: str


def summary(text: str) -> Summary:
    """What the Info column says of a structure, with placeholders for its fields: `info = summary("{op} tag {tag}")`."""
    return Summary(text)


class VendorClass(Record, frozen=True, eq=False):
    """Names of a vendor's or application's management class, in the Info column and in the tree; a value at the plugin's top level."""

    mgmt_class: int
    oui: int | None = None
    """Of classes 0x30 to 0x4F: whose MADs they are."""
    name: str = ""
    """Stands before the name of the method; `Vend` if empty."""
    methods: Mapping[int, str] = NOTHING
    attributes: Mapping[int, str] = NOTHING
    """Of attributes without a declared structure."""
    status: Mapping[int, str] = NOTHING
    """Of the class-specific bits 15:8."""


def answers_of(struct: StructType) -> Answer | None:
    """What a structure answers; None if it does not say so."""
    return next((value for value in vars(struct).values() if isinstance(value, Answer)), None)


def summary_of(struct: StructType) -> str:
    """What the Info column says of a structure, with placeholders; empty if it says nothing."""
    return next((value.text for value in vars(struct).values() if isinstance(value, Summary)), "")


def notes_of(struct: StructType) -> ComputedField | None:
    """The column with the notes about a structure; None if it has none."""
    notes = [one for value in vars(struct).values() for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Note)]
    tests = [(holds_in(struct, f"note {one.text!r}", one.when), one.text) for one in notes]
    if not tests:
        return None

    def text(view: Struct) -> str:
        return "; ".join(said for holds, said in tests if holds(view))

    text.__module__ = __name__
    return ComputedField("text", 0, "Note", formula=text, name="note", owner=struct)


def is_notes(column: ComputedField) -> bool:
    """Whether a column holds the notes about a structure, which are shown only where there are any."""
    return getattr(column.formula, "__module__", None) == __name__
