"""Declaration of structures whose size only the packet tells: lists, choices, texts, and what follows them.

The fields of fixed size come first; from the first part of variable size on they are the tail. Each of its parts becomes a structure of its
own, whose place is `Laid`, so that it has columns, a filter name and bytes as any other. `tail_walk` finds all parts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from msgspec import Struct as Record
from msgspec import field as each_new

from ibdissect.errors import PluginError, SpecError, defined_in

from .convert import decode_text
from .expr import And, Arith, Compare, Expr, In, Not, Or, Value
from .kept import Kept, Memory, kept_in, memory_of, nothing, words_of
from .places import Place
from .spec import Field, Struct, made, rest

V = TypeVar("V")
StructType = type[Struct]
Where = dict[StructType, int]
"""Where the structure and its parts begin."""
Data = bytes | memoryview
Number = Callable[[Data, Where, Memory], int]
Bounds = tuple[int, int]

LIST, CHOICE, FIELDS, TEXT, BYTES = range(5)
"""Forms of parts: entries; one of several structures; fields of fixed size; text up to a mark; text or bytes of a size."""
FLAT = "at"
"""Among the names of an expression: `at` is where the structure begins, so that its place need not be looked up."""
NAME = "variable_part"
"""The name of the field that holds a tail without a name of its own."""


class Part(Record, eq=False):
    """One part of a tail, as declared, and the structure that was made of it."""

    size: object = None
    """Bytes: a number, or a value of fields before it; None: as much as it needs, or up to the end."""
    count: object = None
    """Entries of a list, likewise; None: up to the end."""
    until: Expr | bytes | None = None
    """What ends it: the entry for which a condition holds, the bytes after a text."""
    at: object = None
    """Where it starts, counted from the start of the structure; None: behind the part before it."""
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
    sources: dict[str, tuple[StructType, str, object, list[Field[Any]]]] = each_new(default_factory=dict)
    """What the functions below are compiled from."""
    size_of: Number | None = None
    """Computes the size from the bytes of a packet; the others likewise."""
    at_of: Number | None = None
    count_of: Number | None = None
    by_of: Number | None = None
    present_of: Number | None = None
    ends: Number | None = None
    fixed: int = 0
    """Bytes of each entry of a list whose entries have all one size, and are not asked whether they end it; else 0."""
    flat: Any = None
    """Finds the entries of a list whose sizes they say themselves (`tail_flat`); None: they are walked through."""

    @property
    def form(self) -> int:
        """What it is for a walk."""
        if self.entry is not None:
            return LIST
        if self.by_of is not None:
            return CHOICE
        if self.field.kind != "rest":
            return FIELDS
        return TEXT if self.until is not None else BYTES


Step = tuple[Part, int, int, Number | None, Number | None, Number | None, int]
"""A part, its id, its form, what computes whether it is there, its offset and its size, and how it is aligned."""


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


class Tail(Record, eq=False):
    """What follows the fixed fields of a structure."""

    owner: StructType
    field: Field[Any]
    parts: list[Part]
    steps: list[Step] = each_new(default_factory=list)
    """What a walk needs of each part, in their order."""
    kept: tuple[Kept, ...] | None = None
    """What the conversation must have shown to read it; None: not asked yet."""

    def depends(self) -> tuple[Kept, ...]:
        """What the conversation must have shown to read it and what is inside it."""
        if self.kept is None:
            self.kept = kept_in(self.owner)
        return self.kept

    def compile(self) -> None:
        """Make the functions that compute sizes, counts and conditions; all fields have their places now. SpecError for a wrong value."""
        from .tail_flat import flat

        for part in self.parts:
            for name, source in part.sources.items():
                setattr(part, name, _number(*source))
            if part.entry is not None and part.entry.kind != "rest" and part.ends is None and part.struct.tail is None:
                part.fixed = part.struct.size if part.struct.fields[-1].kind != "rest" else 0
            part.flat = flat(part)
            self.steps.append((part, id(part), part.form, part.present_of, part.at_of, part.size_of, part.align))
        names = dict.fromkeys(one.name for one in self.depends())
        if names and self.field.name == NAME:  # seen where it could not be read
            self.field.label += f" (read by {' and '.join(names)})"

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
    if not isinstance(mark, bytes) or not mark:
        raise SpecError("text_until", "", f'{mark!r} must be bytes, for example text_until(b"\\0", {label!r})')
    field: Field[str] = Field("rest", 0, label, is_text=True, holds="text", ws=ws)
    field.part = Part(until=mark)
    return field


def repeat(
    entry: Field[V], *, count: int | Value | None = None, size: int | Value | None = None, until: Expr | None = None, align: int = 1,
    at: int | Value | None = None,
) -> Field[tuple[V, ...]]:  # fmt: skip
    """A list of `entry`: `nested(Lane, "Lane")`, `uint(32, "Id")`, `text_until(...)`.

    It has `count` entries, or fills `size` bytes, or goes on to the end. The entry for which `until` holds ends it, and is none of it.
    `at`: it starts that many bytes behind the start of the structure, for layouts that give an offset.
    """
    if not isinstance(entry, Field):
        raise SpecError("repeat", "", f'{entry!r} is no field; write repeat(nested({getattr(entry, "__name__", "Entry")}, "Label"))')
    field: Field[Any] = Field("rest", 0, entry.label)
    field.part = Part(size, count, until, at, align, entry)
    return cast("Field[tuple[V, ...]]", field)


def choice(
    by: Value, cases: Mapping[int, type[Struct]], label: str, *, size: int | Value | None = None, align: int = 1, ws: str = "",
    at: int | Value | None = None,
) -> Field[bytes]:  # fmt: skip
    """Bytes that hold one of several structures, chosen by a field before them. Other files add to `cases` by `case`.

    Without `size` it is as long as the structure; where none is declared for the value, it is all that follows. `at` as in `repeat`.
    """
    for value, struct in cases.items():
        if not isinstance(struct, type) or not issubclass(struct, Struct):
            raise SpecError("choice", label, f"{value}: {struct!r} is no structure")
    field: Field[bytes] = Field("rest", 0, label, ws=ws)
    field.part = Part(size, at=at, align=align, by=by, cases=cases)
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


class TailAttribute:
    """An attribute of a structure that is in its tail. Class access gives the Field (of a list of structures, the structure), instance
    access the value: None if the part is absent, a tuple for a list."""

    def __init__(self, part: Part, field: Field[Any]) -> None:
        self.part, self.field = part, field

    def __get__(self, obj: Struct | None, owner: type[Struct]) -> Any:
        if obj is None:
            return self.part.struct if self.part.entry is not None and self.part.entry.of is not None else self.field
        from .tail_walk import walk

        found = walk(owner, bytes(obj.buffer), obj.offset, obj.stop, memory=memory_of(obj)).parts.get(id(self.part), [])
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
    """Make structures of the parts from the first one of variable size on; returns the fields before, and one that holds the tail: a `rest`
    just before them, which gives their bytes a name, or one that is made.
    """
    if cls.tail is not None:
        raise SpecError(cls.__name__, "", f"is derived from {cls.__mro__[1].__name__}, which ends with parts of variable size")
    first = next(i for i, field in enumerate(own) if _varies(field))
    runs: list[list[Field[Any]]] = []
    for field in own[first:]:
        alone = _varies(field) or field.kind == "rest"
        if not alone and runs and not _varies(runs[-1][0]):
            runs[-1].append(field)
        else:
            runs.append([field])
    named = first > 0 and own[first - 1].kind == "rest"
    hidden = own[first - 1] if named else rest("Variable part", show=lambda data: f"{len(data)} bytes")
    known = before = own[: first - named]
    parts = []
    for run in runs:
        part = _part(cls, run, known, hidden)
        parts.append(part)
        known = known + run
        for field in run:
            setattr(cls, field.name, TailAttribute(part, part.field if part.entry is not None else field))
    if not named:
        hidden.name = NAME
        setattr(cls, NAME, hidden)
    cls.tail = Tail(cls, hidden, parts)
    return [*before, hidden]


def _varies(field: Field[Any]) -> bool:
    return field.part is not None or (field.of is not None and field.of.tail is not None)


def _part(cls: StructType, run: list[Field[Any]], known: list[Field[Any]], hidden: Field[Any]) -> Part:
    """The part that one field of variable size, or a run of fields of fixed size, makes."""
    field = run[0]
    part = field.part if field.part is not None else Part()
    part.within = hidden
    if part.entry is None and field.kind == "nested":
        part.entry, part.count, part.single = field, 1, True
    for name in ("size", "count", "at", "by", "present"):
        if (value := getattr(part, name)) is not None:
            part.sources[f"{name}_of"] = cls, field.name, value, known
    entry = part.entry
    if entry is not None and entry.of is not None:
        part.struct, part.field = entry.of, field
        if isinstance(part.until, Expr):
            part.sources["ends"] = entry.of, field.name, part.until, list(entry.of.fields)
        return part
    body: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__, "prefix": cls.prefix, "key": cls.key}
    body |= {"section": cls.section, "title": vars(cls).get("title") or cls.__name__, "carried_by": (Laid(hidden, part),)}
    if entry is not None:
        entry.name, run, part.field = field.name, [entry], entry
        if isinstance(part.until, Expr):
            part.sources["ends"] = cls, field.name, part.until, run
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
    """A function that computes a value from the fields before it, in the bytes of a packet; 0 where a field is absent.

    It is compiled, because it runs for each occurrence.
    """
    names: dict[str, Any] = {"number": int.from_bytes}
    made: Number = eval(f"lambda data, where, memory: {_source(cls, name, value, known, names)}", names)
    return made


def source_of(source: tuple[StructType, str, object, list[Field[Any]]], names: dict[str, Any]) -> str | None:
    """A value as an expression of Python with `at`, where the structure begins; None if other fields than its own fixed ones decide."""
    cls, name, value, known = source
    fixed = [field for field in known if not isinstance(vars(cls).get(field.name), TailAttribute)]
    try:
        return _source(cls, name, value, fixed, names)
    except SpecError:
        return None


def _source(cls: StructType, name: str, value: object, known: list[Field[Any]], names: dict[str, Any]) -> str:
    """The value as an expression of Python; `names` gets what it needs."""

    def of(part: object) -> str:
        return _source(cls, name, part, known, names)

    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Field):
        return _reader(cls, name, value, known, names)
    if isinstance(value, (Arith, Compare)) and value.op in _OPERATORS:
        right = of(value.right) if value.op != "<<" else f"min({of(value.right)}, 64)"
        return f"({of(value.left)} {value.op} {right})"
    if isinstance(value, Kept):
        known_as = f"kept{len(names)}"
        names[known_as] = value
        return f"memory({known_as}, ({''.join(of(mine) + ', ' for mine, _ in value.pairs)}))"
    if isinstance(value, In):
        choices = f"choices{len(names)}"
        names[choices] = value.choices
        return f"({of(value.value)} in {choices})"
    if isinstance(value, Not):
        return f"(not {of(value.part)})"
    if isinstance(value, (And, Or)):
        return "(" + (" and " if isinstance(value, And) else " or ").join(of(part) for part in value.parts) + ")"
    raise SpecError(cls.__name__, name, f"{value!r} is neither a number nor a field before it")


_OPERATORS = frozenset({"+", "-", "*", "&", ">>", "<<", "==", "!=", "<", "<=", ">", ">="})


def _reader(cls: StructType, name: str, field: Field[Any], known: list[Field[Any]], names: dict[str, Any]) -> str:
    """What reads a number: of the structure itself, which is always there, or of another part before, which may be absent."""
    way = _way(field, known)
    if way is None or field.kind not in ("uint", "flag", "pad") or field.count != 1:
        raise SpecError(cls.__name__, name, f"depends on {field.name or field!r}, which is no number before it in this structure")
    if field.is_key:
        raise SpecError(cls.__name__, name, f"depends on {field.name}, a key: what lies where would tell it")
    outer, extra = way
    low, high = (edge + extra for edge in field.span)
    shift, mask = field.shift_mask
    owner, behind = f"part{len(names)}", vars(cls).get(outer.name)
    names[owner] = behind.part.struct if isinstance(behind, TailAttribute) else cls
    if high - low <= 2 and not field.little:
        read = f"data[at + {low}]" if high == low + 1 else f"(data[at + {low}] << 8 | data[at + {low + 1}])"
    else:
        read = f"number(data[at + {low}:at + {high}], {'little' if field.little else 'big'!r})"
    read += f" >> {shift}" if shift else ""
    read += f" & {mask}" if mask != (1 << 8 * (high - low) >> shift) - 1 else ""
    if not isinstance(behind, TailAttribute):  # the structure itself is always there, so only its place must be looked up
        return f"({read})" if FLAT in names else f"[at := where[{owner}], {read}][1]"
    return f"(0 if (at := where.get({owner})) is None else {read})"


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
    if next(words_of(length), None) is not None:
        raise SpecError(struct.__name__, "carried_by", "the length of a PDU follows from its own fields, not from what was kept")
    number = _number(struct, "carried_by", length, list(struct.fields))
    return lambda data: number(data, {struct: 0}, nothing)
