"""How is a structure declared whose size only the packet tells: lists, choices, texts, and what follows them?

The fields of fixed size come first; from the first part of variable size on they are the tail. Each of its parts becomes a structure of its
own, whose place is `Laid`, so that it has columns, a filter name and bytes as any other. `tail_walk` finds all parts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct as Record
from msgspec import field as each_new

from ibdissect.errors import PluginError, SpecError, defined_in

from .convert import decode_text
from .expr import And, Arith, Compare, Expr, In, Not, Or, Value
from .places import Place
from .spec import Field, Struct, made, rest

if TYPE_CHECKING:
    from .tail_walk import Found

V = TypeVar("V")
StructType = type[Struct]
Where = dict[StructType, int]
"""Where the structure and its parts begin."""
Data = bytes | memoryview
Number = Callable[[Data, Where], int]
Bounds = tuple[int, int]

NAME = "variable_part"
"""The name of the field that holds a tail."""


class Part(Record, eq=False):
    """One part of a tail, as declared, and the structure that was made of it."""

    size: object = None
    """Bytes: a number, or a value of fields before it; None: as much as it needs, or up to the end."""
    count: object = None
    """Entries of a list, likewise; None: up to the end."""
    until: Expr | bytes | None = None
    """What ends it: the entry for which a condition holds, the bytes after a text."""
    align: int = 1
    entry: Field[Any] | None = None
    """Of a list: what each entry is."""
    single: bool = False
    """It is one structure of variable size rather than a list."""
    by: Value | None = None
    """Of a choice: the value that decides."""
    cases: Mapping[int, StructType] = each_new(default_factory=dict)
    present: object = None
    """A condition on fields before it; None: it is always there."""
    field: Field[Any] = cast("Field[Any]", None)
    struct: StructType = Struct
    """Of a list of structures: that structure. Otherwise one made of the part's fields."""
    within: Field[Any] = cast("Field[Any]", None)
    """The field that holds the tail."""
    size_of: Number | None = None
    """Computes the size from the bytes of a packet; the others likewise."""
    count_of: Number | None = None
    by_of: Number | None = None
    present_of: Number | None = None
    ends: Number | None = None


class Laid(Place, Record, frozen=True, eq=False):
    """A part of a structure's tail; see `tail_walk.walk`."""

    shared = True
    field: Field[Any]
    """The field that holds the tail."""
    part: Part
    values: frozenset[int] | None = None
    """Of a choice: the structure is there if the deciding field has one of these values. None: the part itself."""
    when: tuple[tuple[Field[Any], frozenset[int]], ...] = ()

    @property
    def inside(self) -> Field[Any]:
        """The field below which it is shown: the tail, or the bytes of the choice."""
        return self.field if self.values is None else self.part.field

    def bounds(self, found: Found) -> list[Bounds]:
        """Where it is among what a walk found."""
        if self.values is None:
            return found.parts.get(id(self.part), [])
        return [(at, stop) for value, at, stop in found.cases.get(id(self.part), ()) if value in self.values]


class Tail(Record, eq=False):
    """What follows the fixed fields of a structure."""

    owner: StructType
    field: Field[Any]
    parts: list[Part]

    def structs(self) -> Iterator[StructType]:
        """The structures that were made of its parts."""
        return (part.struct for part in self.parts if part.entry is None or part.entry.of is None)

    def places(self) -> Iterator[tuple[StructType, Laid]]:
        """What is found in it, and where: lists of structures and the cases of choices."""
        for part in self.parts:
            if part.entry is not None and part.entry.of is not None:
                yield part.struct, Laid(self.field, part)
            of: dict[StructType, set[int]] = {}
            for value, struct in part.cases.items():
                of.setdefault(struct, set()).add(value)
            yield from ((struct, Laid(self.field, part, frozenset(values))) for struct, values in of.items())


def sized(field: Field[V], size: Value, align: int = 1) -> Field[V]:
    """A field of bytes whose size fields before it give (`raw`, `text`)."""
    field.part = Part(size, align=align)
    return field


def text_until(mark: bytes, label: str, *, ws: str = "") -> Field[str]:
    """Text up to `mark`, usually a zero byte, which does not belong to it; without the mark, up to the end."""
    field: Field[str] = Field("rest", 0, label, is_text=True, holds="text", ws=ws)
    field.part = Part(until=mark)
    return field


def repeat(
    entry: Field[V], *, count: int | Value | None = None, size: int | Value | None = None, until: Expr | None = None, align: int = 1
) -> Field[tuple[V, ...]]:
    """A list of `entry`: `nested(Lane, "Lane")`, `uint(32, "Id")`, `text_until(...)`.

    It has `count` entries, or fills `size` bytes, or goes on to the end. The entry for which `until` holds ends it, and is none of it.
    """
    field: Field[Any] = Field("rest", 0, entry.label)
    field.part = Part(size, count, until, align, entry)
    return cast("Field[tuple[V, ...]]", field)


def choice(
    by: Value, cases: Mapping[int, type[Struct]], label: str, *, size: int | Value | None = None, align: int = 1, ws: str = ""
) -> Field[bytes]:
    """Bytes that hold one of several structures, chosen by a field before them. Other files add to `cases` by `case`.

    Without `size` it is as long as the structure; where none is declared for the value, it is all that follows.
    """
    field: Field[bytes] = Field("rest", 0, label, ws=ws)
    field.part = Part(size, align=align, by=by, cases=cases)
    return field


def optional(present: Expr | Value, field: Field[V]) -> Field[V]:
    """A field that is there only if a condition on fields before it holds, or a flag is set; otherwise it takes no bytes."""
    if field.part is None:
        field.part = Part()
    field.part.present = present
    return field


def case(field: Field[Any], *values: int) -> Laid:
    """A place: in the bytes of another structure's `choice`, if the deciding field has one of `values`."""
    if field.part is None or field.part.by is None:
        raise PluginError(defined_in(field.owner), f"case: {field.owner.__name__}.{field.name} is no choice")
    return Laid(field.part.within, field.part, frozenset(values))


class Behind:
    """An attribute of a structure that is in its tail. Class access gives the Field (of a list of structures, the structure), instance
    access the value: None if the part is absent, a tuple for a list."""

    def __init__(self, part: Part, field: Field[Any]) -> None:
        self.part, self.field = part, field

    def __get__(self, obj: Struct | None, owner: type[Struct]) -> Any:
        if obj is None:
            return self.part.struct if self.part.entry is not None and self.part.entry.of is not None else self.field
        from .tail_walk import walk

        found = walk(owner, bytes(obj.buffer), obj.offset, obj.stop).parts.get(id(self.part), [])
        views = [self.part.struct(obj.buffer, at, stop) for at, stop in found]
        if self.part.entry is None:
            return _value(self.field, views[0]) if views else None
        if self.part.single:
            return views[0] if views else None
        return tuple(views if self.part.entry.of is not None else (_value(self.field, view) for view in views))


def _value(field: Field[Any], view: Struct) -> Any:
    value = field.__get__(view, type(view))
    return decode_text(value) if field.is_text else value


# -- declarations


def cut_tail(cls: StructType, own: list[Field[Any]]) -> list[Field[Any]]:
    """Make structures of the parts from the first one of variable size on; returns the fields before, and one that holds the tail."""
    if cls.__mro__[1].tail is not None:  # type: ignore[attr-defined]
        raise SpecError(cls.__name__, "", f"is derived from {cls.__mro__[1].__name__}, which ends with parts of variable size")
    first = next(i for i, field in enumerate(own) if _varies(field))
    runs: list[list[Field[Any]]] = []
    for field in own[first:]:
        alone = _varies(field) or field.kind == "rest"
        if not alone and runs and not _varies(runs[-1][0]):
            runs[-1].append(field)
        else:
            runs.append([field])
    hidden = rest("Variable part", show=lambda data: f"{len(data)} bytes")
    hidden.name = NAME
    known = own[:first]
    parts = []
    for run in runs:
        part = _part(cls, run, known, hidden)
        parts.append(part)
        known = known + run
        for field in run:
            setattr(cls, field.name, Behind(part, part.field if part.entry is not None else field))
    setattr(cls, NAME, hidden)
    cls.tail = Tail(cls, hidden, parts)
    return [*own[:first], hidden]


def _varies(field: Field[Any]) -> bool:
    return field.part is not None or (field.of is not None and field.of.tail is not None)


def _part(cls: StructType, run: list[Field[Any]], known: list[Field[Any]], hidden: Field[Any]) -> Part:
    """The part that one field of variable size, or a run of fields of fixed size, makes."""
    field = run[0]
    part = field.part if field.part is not None else Part()
    part.within = hidden
    if part.entry is None and field.kind == "nested":
        part.entry, part.count, part.single = field, 1, True
    for name in ("size", "count", "by", "present"):
        if (value := getattr(part, name)) is not None:
            setattr(part, f"{name}_of", _number(cls, field.name, value, known))
    entry = part.entry
    if entry is not None and entry.of is not None:
        part.struct, part.field = entry.of, field
        if isinstance(part.until, Expr):
            part.ends = _number(entry.of, field.name, part.until, list(entry.of.fields))
        return part
    body: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__, "prefix": cls.prefix, "key": cls.key}
    body |= {"section": cls.section, "title": vars(cls).get("title") or cls.__name__, "carried_by": (Laid(hidden, part),)}
    if entry is not None:
        entry.name, run, part.field = field.name, [entry], entry
        if isinstance(part.until, Expr):
            part.ends = _number(cls, field.name, part.until, run)
        elif entry.part is not None:
            part.until = entry.part.until
    else:
        part.field = field
    for one in run:
        if one.at is not None:
            raise SpecError(cls.__name__, one.name, "follows a part of variable size, so it has no offset of its own: leave out at=")
        one.part = None
        body[one.name] = one
    part.struct = made(cls.__name__, body)
    field.part = part
    return part


def _number(cls: StructType, name: str, value: object, known: list[Field[Any]]) -> Number:
    """A function that computes a value from the fields before it, in the bytes of a packet; 0 where a field is absent."""
    if isinstance(value, int):
        number = value
        return lambda data, where: number
    if isinstance(value, Field):
        return _reader(cls, name, value, known)
    if isinstance(value, (Arith, Compare)):
        left, right, apply = _number(cls, name, value.left, known), _number(cls, name, value.right, known), _OPERATORS[value.op]
        return lambda data, where: apply(left(data, where), right(data, where))
    if isinstance(value, In):
        inner, choices = _number(cls, name, value.value, known), value.choices
        return lambda data, where: inner(data, where) in choices
    if isinstance(value, Not):
        inner = _number(cls, name, value.part, known)
        return lambda data, where: not inner(data, where)
    if isinstance(value, (And, Or)):
        parts, every = [_number(cls, name, one, known) for one in value.parts], all if isinstance(value, And) else any
        return lambda data, where: every(part(data, where) for part in parts)
    raise SpecError(cls.__name__, name, f"{value!r} is neither a number nor a field before it")


_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b, ">>": lambda a, b: a >> b,
    "<<": lambda a, b: a << min(b, 64), "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _reader(cls: StructType, name: str, field: Field[Any], known: list[Field[Any]]) -> Number:
    way = _way(field, known)
    if way is None or field.kind not in ("uint", "flag", "pad") or field.count != 1:
        raise SpecError(cls.__name__, name, f"depends on {field.name or field!r}, which is no number before it in this structure")
    outer, extra = way
    order: Any = "little" if field.little else "big"

    def read(data: Data, where: Where) -> int:
        at = where.get(outer.owner)
        if at is None:
            return 0
        low, high = field.span
        shift, mask = field.shift_mask
        return int.from_bytes(data[at + extra + low : at + extra + high], order) >> shift & mask

    return read


def _way(field: Field[Any], known: list[Field[Any]]) -> tuple[Field[Any], int] | None:
    """The field of the structure that is, or has in it, a field, and how many bytes before it the field's own structure starts."""
    for one in known:
        if one is field:
            return one, 0
        inner = _way(field, list(one.of.fields)) if one.of is not None and not _varies(one) else None
        if inner is not None:
            return one, one.bit // 8 + inner[1]
    return None


def length_of(struct: StructType, length: object) -> Callable[[Data], int]:
    """What computes the length of a PDU from its first bytes, at least those of the structure's fixed fields (`places.Stream`)."""
    number = _number(struct, "carried_by", length, list(struct.fields))
    return lambda data: number(data, {struct: 0})
