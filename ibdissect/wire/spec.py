"""Declaration of wire structures: once, as a list of fields in wire order; everything else is derived from it.

A field is a descriptor: `PortInfo.lid` is the Field (metadata, operand of conditions), `info.lid` is its value, read from the
bytes on demand. Bit 0 is the most significant bit of the first byte, as in the standard's tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar, Unpack, cast, overload

from msgspec import Struct as Record

from ibdissect.errors import SpecError

from .convert import decode_text, lid_text, opa_lid_text, p_key_text
from .expr import Value
from .families import Said, name_by_class, say, with_gaps
from .field_kinds import BIT_KINDS as BIT_KINDS
from .field_kinds import BYTE_KINDS as BYTE_KINDS
from .field_kinds import HOLDS as HOLDS
from .field_kinds import HOLDS_BY_KIND, PROTOCOLS, WIDTHS
from .field_kinds import INT_KINDS as INT_KINDS
from .keys_read import key_read

if TYPE_CHECKING:
    from .tail import Part, Tail

V = TypeVar("V")
S = TypeVar("S", bound="Struct")


class Common(TypedDict, total=False):
    """What any declaration may say of a field by keyword; see `Field`."""

    at: str | None
    ws: str
    little: bool
    when: tuple[Field[Any], frozenset[int]]
    ports: int
    read_only: bool


class Options(Common, total=False):
    """What the declaration of a plain field may say as well."""

    base: str
    values: Mapping[int, str]
    unit: str
    show: Callable[[Any], str]
    secret: str
    holds: str


class Field(Value, Record, Generic[V], eq=False):
    """A named range of bits in a structure. Class access gives the Field, instance access its value."""

    kind: str
    """uint (int), flag (bool), gid / mac / ip4 / raw (bytes), text (str), pad (reserved bits), hole (bytes that another
    structure occupies), nested (a Struct), rest (all bytes to the end of the structure)."""
    bits: int
    label: str
    of: type[Struct] | None = None
    at: str | None = None
    """Its offset in the standard, `12` or `12[3]`, which is checked; with `..12` all bits before it that no field declares are reserved."""
    base: str = "dec"
    """dec, hex or guid."""
    values: Mapping[int, str] | None = None
    """Names of values."""
    unit: str = ""
    """Shown behind the number: nm, bytes. Such a number may stay in a scrubbed capture."""
    show: Callable[[Any], str] | None = None
    """Value -> text."""
    secret: str = ""
    """The kind of key, for values to be masked."""
    tells: str = ""
    """The kind of key of which it is a part: its value is hidden whatever it is."""
    ws: str = ""
    """Last part of the filter name, or all of it, if not the label."""
    little: bool = False
    """Little-endian (16, 32 or 64 bits)."""
    part_of: tuple[Field[Any], int] | None = None
    """The field that these bits belong to, and the lowest of them, 0 being the least significant."""
    when: tuple[Field[Any], frozenset[int]] | None = None
    """It is valid only if another field has one of these values."""
    ports: int = 0
    """The kinds of port that have it (`wire.port_kinds`); 0: every port, or it is not about ports."""
    read_only: bool = False
    """Whether a Set cannot change it: what a Set carries there means nothing."""
    holds: str = ""
    """The meaning of the value, which decides how `scrub` treats it: lid, qpn, guid, prefix (of a GID; 16 bits: the end of a
    site-local one), gid, mac, ip4, key, network (a VLAN, a VNI, a tenant, a flow label), port (of UDP), service (an id, which may be a GUID
    or hold a QPN), text (all replaced), data and reserved (zeroed), number, pkey, ports (port numbers or a bit per port) (all kept),
    checksum (of the packet: computed again, and hidden where a key is hidden, because it would reveal the key). By default it follows
    from the other attributes; a plain number without values or unit is `unknown`: in a plugin's structure it is zeroed."""
    part: Part | None = None
    """How it lies in the packet, if its size or its place is known only there (`wire.tail`)."""
    is_text: bool = False
    """Bytes of variable size that are text."""
    count: int = 1
    bit: int = 0
    name: str = ""
    owner: type[Struct] = cast("type[Struct]", None)
    """The structure that declares it; `Struct` until then."""
    _filter_name: str = ""
    _lo: int = 0
    _hi: int = 0
    _shift: int = 0
    _mask: int = 0

    def __post_init__(self) -> None:
        self.owner = self.owner or Struct
        if self.holds:
            return
        if self.secret:
            self.holds = "key"
        elif self.kind == "uint":
            self.holds = "number" if self.values or self.unit else "unknown"
        else:
            self.holds = HOLDS_BY_KIND.get(self.kind, self.kind)

    def __set_name__(self, owner: type[Any], name: str) -> None:
        if isinstance(owner, _StructMeta):  # a rule's `at = LRH.lver` refers to a field, it does not declare one
            self.name = name

    def fields(self) -> Iterator[Field[Any]]:
        yield self

    def place(self, owner: type[Struct], bit: int) -> None:
        """Set the field's position; raises SpecError if `at`, the offset in the standard, differs from the sum of the fields before."""
        self.owner, self.bit = owner, bit
        if fault := self._fault(bit):
            raise SpecError(owner.__name__, self.name, fault)
        end = bit + self.wire_bits
        self._lo, self._hi = bit // 8, (end + 7) // 8
        self._shift, self._mask = self.low if self.little else self._hi * 8 - end, (1 << self.bits) - 1

    def _fault(self, bit: int) -> str:
        """What is wrong with the field at `bit`; empty if nothing is."""
        if self.holds == "key" and not self.secret.strip():
            return 'is a key without a kind; write one, such as secret(32, "R_Key"): without it the key would be shown'
        if self.holds not in HOLDS:
            return f"holds {self.holds!r}, which is none of {', '.join(sorted(HOLDS))}"
        widths = WIDTHS.get(self.holds)
        if widths is not None and (self.bits not in widths or bit % 8):
            return f"holds a {self.holds}, which has {' or '.join(map(str, widths))} bits and starts on a byte"
        if self.at is not None and (want := _bit_at(self.at)) != bit:
            return f"declared at {self.at} (bit {want}), fields so far end at bit {bit} ({bit // 8}[{bit % 8}])"
        if bit % 8 and self.kind not in BIT_KINDS:
            return f"{self.kind} must start on a byte, not at bit {bit}"
        if self.little and (bit % 8 or self.wire_bits not in (16, 32, 64)):
            return "a little-endian number has 16, 32 or 64 bits and starts on a byte"
        return ""

    @property
    def filter_name(self) -> str:
        """The field's name in filters; empty if it is in no structure. Built on first use, because few names are used."""
        if not self._filter_name and self.owner is not Struct:
            key = self.ws or (self.name.replace("_", "") if " " in self.label else re.sub("[^a-z0-9_]", "", self.label.lower()))
            whole = "." in key and key.split(".")[0] in PROTOCOLS
            self._filter_name = key if whole else f"{self.owner.prefix}.{self.owner.key}.{key.lstrip('+')}"
        return self._filter_name

    @property
    def wire_bits(self) -> int:
        """Bits that are read: its own, or all of a little-endian number of which it is a part that crosses bytes."""
        return self.part_of[0].bits if self.little and self.part_of is not None else self.bits

    @property
    def low(self) -> int:
        """The lowest of its bits in a little-endian number of which it is a part, else 0."""
        return self.part_of[1] if self.little and self.part_of is not None else 0

    @property
    def span(self) -> tuple[int, int]:
        """First byte and end of the field's (first) entry, counted from the start of the structure."""
        return self._lo, self._hi

    @property
    def shift_mask(self) -> tuple[int, int]:
        """Right shift, then mask, that give the value from the big-endian integer of the span's bytes."""
        return self._shift, self._mask

    def entries(self) -> Iterator[int]:
        """Bit offsets of all entries of the field."""
        step = max(self.bits, 1)  # a `rest` has 0 bits, but one entry
        return iter(range(self.bit, self.bit + step * self.count, step))

    @property
    def is_key(self) -> bool:
        """Whether it is a key or a part of one."""
        return bool(self.secret or self.tells or (self.part_of is not None and self.part_of[0].secret))

    @overload
    def __get__(self, obj: None, owner: type[Any]) -> Field[V]: ...
    @overload
    def __get__(self, obj: Struct, owner: type[Any]) -> V: ...
    @overload
    def __get__(self, obj: object, owner: type[Any]) -> Field[V]: ...
    def __get__(self, obj: object, owner: type[Any]) -> Field[V] | V:
        if not isinstance(obj, Struct):
            return self
        if self.secret:
            values = [key_read(self.secret, self.bits, self.read(obj, bit)) for bit in self.entries()]
            return cast(V, values[0] if self.count == 1 else tuple(values))
        if self.kind == "uint" and self.count == 1 and not self.little:
            o = obj.offset
            return cast(V, (int.from_bytes(obj.buffer[o + self._lo : o + self._hi], "big") >> self._shift) & self._mask)
        if self.count == 1:
            return cast(V, self.read(obj, self.bit))
        return cast(V, tuple(self.read(obj, bit) for bit in self.entries()))

    def read(self, obj: Struct, bit: int) -> Any:
        """The value of the entry at `bit` of the structure."""
        start = obj.offset + bit // 8
        if self.kind in BIT_KINDS:
            end = bit + self.wire_bits
            hi = (end + 7) // 8
            if self.little:
                number = int.from_bytes(obj.buffer[start : obj.offset + hi], "little") >> self.low & self._mask
                return bool(number) if self.kind == "flag" else number
            raw = (int.from_bytes(obj.buffer[start : obj.offset + hi], "big") >> (hi * 8 - end)) & self._mask
            return bool(raw) if self.kind == "flag" else raw
        if self.kind == "nested":
            assert self.of is not None
            return self.of(obj.buffer, start, start + self.bits // 8)
        stop = obj.stop if self.kind == "rest" else start + self.bits // 8
        data = bytes(obj.buffer[start:stop])
        return decode_text(data) if self.kind == "text" else data

    def applies(self, obj: Struct) -> bool:
        """Whether the field is valid in this structure (`when`)."""
        return self.when is None or self.when[0].read(obj, self.when[0].bit) in self.when[1]

    def __repr__(self) -> str:
        return f"<Field {self.owner.__name__}.{self.name}>"


@cache
def _bit_at(text: str) -> int:
    """The bit number of an offset in the standard's notation: `12` or `12[3]`."""
    byte, _, sub = text.partition("[")
    return int(byte) * 8 + int(sub.rstrip("]") or 0)


def uint(bits: int, label: str, **options: Unpack[Options]) -> Field[int]:
    """An unsigned integer."""
    return Field("uint", bits, label, **options)


def lid(label: str, bits: int = 16, show: Callable[[int], str] | None = None, **options: Unpack[Common]) -> Field[int]:
    """A local identifier; 32 bits in Omni-Path."""
    return Field("uint", bits, label, show=show or (lid_text if bits == 16 else opa_lid_text), holds="lid", **options)


def qpn(label: str, **options: Unpack[Common]) -> Field[int]:
    """The 24-bit number of a queue pair, an end-to-end context or a shared receive queue."""
    return Field("uint", 24, label, base="hex", holds="qpn", **options)


def pkey(label: str, **options: Unpack[Common]) -> Field[int]:
    """A partition key: the partition, and full membership in bit 15."""
    return Field("uint", 16, label, base="hex", show=p_key_text, holds="pkey", **options)


def secret(bits: int, kind: str, label: str = "", **options: Unpack[Common]) -> Field[int]:
    """A key, masked and numbered by its `kind` (M_Key, Q_Key, ...), which must not be empty; the label defaults to the kind."""
    return Field("uint", bits, label or kind, base="hex", secret=kind, holds="key", **options)


def enum(bits: int, values: Mapping[int, str], label: str, base: str = "dec", **options: Unpack[Common]) -> Field[int]:
    """An integer whose values have names."""
    return Field("uint", bits, label, values=values, base=base, **options)


def flag(label: str, **options: Unpack[Common]) -> Field[bool]:
    """One bit that is true or false."""
    return Field("flag", 1, label, **options)


def guid(label: str, holds: str = "guid", **options: Unpack[Common]) -> Field[int]:
    """A 64-bit EUI, shown in hex; with `holds="prefix"` the subnet prefix of a GID."""
    return Field("uint", 64, label, base="guid", holds=holds, **options)


def gid(label: str, **options: Unpack[Common]) -> Field[bytes]:
    """A 128-bit global identifier, shown as an IPv6 address."""
    return Field("gid", 128, label, **options)


def mac(label: str, **options: Unpack[Common]) -> Field[bytes]:
    """An Ethernet address."""
    return Field("mac", 48, label, **options)


def ip4(label: str, part_of: tuple[Field[Any], int] | None = None, **options: Unpack[Common]) -> Field[bytes]:
    """An IPv4 address."""
    return Field("ip4", 32, label, part_of=part_of, **options)


def text(size: int | Value, label: str, *, align: int = 1, **options: Unpack[Common]) -> Field[str]:
    """`size` bytes of NUL-padded UTF-8. A `size` that a field gives (`length - 4`) makes it the first part of variable size; it is
    followed by padding up to a multiple of `align` bytes of the structure."""
    if isinstance(size, int):
        return Field("text", size * 8, label, **options)
    from .tail import sized

    return cast("Field[str]", sized(Field("rest", 0, label, is_text=True, holds="text", **options), size, align))


def raw(
    size: int | Value, label: str, part_of: tuple[Field[Any], int] | None = None, *, align: int = 1, **options: Unpack[Options]
) -> Field[bytes]:
    """`size` bytes without a known inner structure; `show`: bytes -> text instead of hex. `size` and `align` as in `text`."""
    if isinstance(size, int):
        return Field("raw", size * 8, label, part_of=part_of, **options)
    from .tail import sized

    return sized(Field("rest", 0, label, **options), size, align)


def rest(label: str, **options: Unpack[Options]) -> Field[bytes]:
    """All remaining bytes of the structure; must be the last field. `show` as in `raw`."""
    return Field("rest", 0, label, **options)


def pad(bits: int, at: str | None = None, ws: str = "+reserved") -> Field[int]:
    """Reserved bits."""
    return Field("pad", bits, "Reserved", at=at, ws=ws)


def hole(size: int, label: str, **options: Unpack[Common]) -> Field[bytes]:
    """Bytes inside the structure that another structure fills (the attribute of a directed-route SMP)."""
    return Field("hole", size * 8, label, **options)


def nested(of: type[S], label: str, **options: Unpack[Common]) -> Field[S]:
    """A structure `of` inside the structure."""
    return Field("nested", of.size * 8, label, of=of, **options)


def array(count: int, entry: Field[V]) -> Field[tuple[V, ...]]:
    """`count` consecutive entries of the same field under one name."""
    entry.count = count
    return cast("Field[tuple[V, ...]]", entry)


def part(whole: Field[Any], high: int, low: int, label: str, **options: Unpack[Options]) -> Field[int]:
    """Bits high..low (0 = least significant) of another field as a named sub-field; adds no bytes."""
    return Field("uint", high - low + 1, label, part_of=(whole, low), **options)


def bit(whole: Field[int], number: int, label: str, ws: str = "") -> Field[bool]:
    """Bit `number` (0 = least significant) of another field, as a flag; adds no bytes."""
    return Field("flag", 1, label, ws=ws, part_of=(whole, number))


def field_named(struct: type[Struct], name: str) -> Field[Any] | None:
    """The field with this attribute name; None if there is none."""
    return found if isinstance(found := getattr(struct, name, None), Field) else None


class _StructMeta(type):
    """Gives every structure empty slots, so that a view has no dictionary."""

    def __new__(mcs, name: str, bases: tuple[type, ...], ns: dict[str, Any], **kw: Any) -> _StructMeta:
        ns.setdefault("__slots__", ())
        return super().__new__(mcs, name, bases, ns, **kw)


def _fields_of(cls: type[Struct]) -> list[Field[Any]]:
    """Copies of the base structure's fields and the structure's own: these replace fields of the same name, or follow."""
    own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
    copies: dict[int, Field[Any]] = {}
    for field in cls.__mro__[1].fields:  # type: ignore[attr-defined]
        one = copies[id(field)] = own.pop(field.name) if field.name in own else copy(field)
        one._filter_name = ""
        setattr(cls, field.name, one)
    fields = [*copies.values(), *own.values()]
    for one in fields if copies else ():
        if one.part_of is not None:
            one.part_of = copies.get(id(one.part_of[0]), one.part_of[0]), one.part_of[1]
        if one.when is not None:
            one.when = copies.get(id(one.when[0]), one.when[0]), one.when[1]
    return fields


class Struct(metaclass=_StructMeta):
    """A view of a structure in a buffer. Subclasses list their fields; they begin with those of a structure that they are derived from.

    The caller must check the length.
    """

    __slots__ = ("_memory", "buffer", "offset", "stop")

    prefix: ClassVar[str] = "infiniband"
    """First part of the filter names; `opa` for Omni-Path, as in Wireshark."""
    key: ClassVar[str] = ""
    """Middle part of the filter names, `infiniband.<key>.<field>`; in a family by default the name of the class, in small letters."""
    title: ClassVar[str] = ""
    """The structure's name in the tree; defaults to the class name."""
    section: ClassVar[str] = ""
    """Source of the layout (standard, document, code)."""
    carried_by: ClassVar[Any] = ()
    """Places (`ibdissect.wire.places`) where the structure is found; a single place needs no tuple."""
    fields: ClassVar[tuple[Field[Any], ...]] = ()
    """All fields in wire order, sub-fields after the field they belong to."""
    size: ClassVar[int] = 0
    """Bytes; for a structure that ends with `rest`, the minimum; else those before the first part of variable size."""
    tail: ClassVar[Tail | None] = None
    """What follows from the first part of variable size on."""

    def __init_subclass__(cls, **said: Unpack[Said]) -> None:
        super().__init_subclass__()
        say(cls, said)
        if not isinstance(cls.carried_by, tuple):
            cls.carried_by = (cls.carried_by,)
        own = _fields_of(cls)
        if not own:
            return
        name_by_class(cls)
        if any(field.part is not None or (field.of is not None and field.of.tail is not None) for field in own):
            from .tail import cut_tail

            own = cut_tail(cls, own)
        own = with_gaps(cls, own, _bit_at)
        named = vars(cls).keys() & _own_names()
        if taken := {name for name in named if name in Struct.__slots__ or isinstance(vars(cls)[name], Field)}:
            raise SpecError(cls.__name__, min(taken), "every structure uses this name itself; choose another for the field")
        if wrong := next((field for field in own if field.bits < 1 and field.kind not in ("rest", "text") and type(field) is Field), None):
            raise SpecError(cls.__name__, wrong.name, f"has {wrong.bits} bits; a field has at least one")
        at = 0
        in_order: dict[int, list[Field[Any]]] = {}
        for field in own:
            if field.part_of is None:
                field.place(cls, at)
                at += field.bits * field.count
                in_order[id(field)] = [field]
            else:
                whole, low = field.part_of
                field.ports, field.read_only, field.tells = whole.ports, whole.read_only, whole.secret
                start = low // 8 * 8 + 8 - low % 8 - field.bits if whole.little else whole.bits - low - field.bits
                if whole.little and low // 8 != (low + field.bits - 1) // 8:
                    field.little, start = True, 0
                field.place(cls, whole.bit + start)
                if id(whole) not in in_order:
                    raise SpecError(cls.__name__, field.name, f"is part of {whole}, which this structure does not declare")
                in_order[id(whole)].append(field)
        if wrong := next((field for field in own[:-1] if field.kind == "rest"), None):
            raise SpecError(cls.__name__, wrong.name, f"holds the rest of the structure, so nothing can follow it, as {own[-1].name} does")
        if cls.carried_by and not cls.key:
            raise SpecError(cls.__name__, "key", "is missing: it is the middle part of the filter names")
        if at % 8:
            raise SpecError(cls.__name__, "", f"ends in the middle of a byte, at bit {at}")
        if vars(cls).get("size", at // 8) != at // 8:
            raise SpecError(cls.__name__, "", f"declared as {cls.size} bytes, its fields make {at // 8}")
        cls.fields = tuple(chain(*in_order.values()))
        cls.size = at // 8
        cls.title = vars(cls).get("title") or cls.__name__
        if "tail" in vars(cls) and cls.tail is not None:
            cls.tail.compile()

    def __init__(self, buffer: bytes | memoryview, offset: int = 0, stop: int | None = None) -> None:
        self.buffer, self.offset = buffer, offset
        if stop is None:
            stop = offset + type(self).size if type(self).tail is None else len(buffer)
        self.stop = stop

    def __repr__(self) -> str:
        inner = ", ".join(f"{f.name}={f.__get__(self, type(self))!r}" for f in self.fields if f.kind not in ("pad", "hole", "nested"))
        return f"{type(self).__name__}({inner})"


@cache
def _own_names() -> frozenset[str]:
    """What every structure uses itself."""
    return frozenset((*Struct.__slots__, *Struct.__annotations__))


def made(name: str, body: dict[str, Any]) -> type[Struct]:
    """A structure of this name from the body of its class, for those that are computed."""
    return cast("type[Struct]", _StructMeta(name, (Struct,), body))
