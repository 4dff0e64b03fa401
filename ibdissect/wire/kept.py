"""Values said before in a conversation that structures depend on (`kept`): a version, a length of headers, the kind of a request.

`kept(field)` stands where parts of a structure take a number: in `choice`, sizes, counts, `optional`. `decode.conversation_values`
remembers the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import Struct as Record

from ibdissect.errors import SpecError

from .expr import Expr, Value, nodes_of
from .spec import Field, Struct

Pair = tuple[Field[Any], Field[Any]]
SAME, OTHER = "same", "other"
"""Of the direction that a value was sent in, as seen from the occurrence that asks for it."""


class Kept(Value, Record, frozen=True, eq=False):
    """A value of an earlier occurrence in the same conversation; see `kept`."""

    field: Field[Any]
    where: Expr | None
    same: tuple[Field[Any] | Pair, ...]
    way: str

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Fields that are equal in the occurrence that asks, and in the earlier one."""
        return tuple(one if isinstance(one, tuple) else (one, one) for one in self.same)

    @property
    def name(self) -> str:
        """The filter name of the field whose value decides."""
        return self.field.filter_name


class NotKnown(Exception):
    """The conversation has not shown the value, perhaps because the capture starts later."""


class Memory(Protocol):
    """What the conversation of one occurrence has shown before."""

    def __call__(self, kept: Kept, same: tuple[int, ...]) -> int:
        """The value. NotKnown if there is none."""


def nothing(kept: Kept, same: tuple[int, ...]) -> int:
    """The memory of bytes without a conversation. Always NotKnown."""
    raise NotKnown


def kept(field: Field[Any], *, where: Expr | None = None, same: Field[Any] | tuple[Field[Any] | Pair, ...] = (), way: str = "") -> Kept:
    """The value of a field as the same conversation has shown it last: `choice(kept(Hello.version), {1: Old, 2: New}, "Body")`.

    `where`: in the latest occurrence for which a condition holds. `same`: in the latest one with equal values of these fields, or pairs
    (own field, field of the other structure): with `kept(Ask.op, same=((tag, Ask.tag),))` the request decides how its answer is read.
    `way`: only what was sent in the `same` or in the `other` direction. Where the conversation has not shown it, nothing behind it is
    read.
    """
    if not isinstance(field, Field) or field.kind not in ("uint", "flag") or field.count != 1 or field.bits > 64:
        raise SpecError("kept", getattr(field, "name", ""), f"{field!r} is no number of a structure")
    if keys := [one for one in (field, *nodes_of(where)) if isinstance(one, Field) and one.is_key]:
        raise SpecError("kept", "", f"{keys[0].label!r} is a key: what lies where would tell it")
    if way not in ("", SAME, OTHER):
        raise SpecError("kept", field.name, f"way={way!r} is neither {SAME!r} nor {OTHER!r}")
    return Kept(field, where, same if isinstance(same, tuple) else (same,), way)


def kept_in(struct: type[Struct]) -> tuple[Kept, ...]:
    """What the parts of a structure depend on, and those of the structures inside it."""
    found: dict[int, Kept] = {}
    waiting = [struct]
    for one in waiting:
        for part in one.tail.parts if one.tail is not None else ():
            found |= {id(word): word for _, _, value, _ in part.sources.values() for word in words_of(value)}
            waiting += {part.struct, *part.cases.values()}.difference(waiting)
    return tuple(found.values())


def words_of(value: object) -> Iterator[Kept]:
    """The words `kept` in a value."""
    return (one for one in nodes_of(value) if isinstance(one, Kept))


def remember(view: Struct, memory: Memory) -> None:
    """Let a view read its parts by what its conversation has shown."""
    view._memory = memory  # type: ignore[attr-defined]


def memory_of(view: Struct) -> Memory:
    """What the conversation of a view has shown; nothing for bytes without one."""
    memory: Memory = getattr(view, "_memory", nothing)
    return memory
