"""Scapy fields for declared fields: same name, same bits, same text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from scapy.fields import BitEnumField, BitField, EnumField, IP6Field, IPField, MACField, PacketField, StrField, StrFixedLenField
from scapy.fields import Field as ScapyField
from scapy.packet import Packet

from ibdissect.wire.spec import BIT_KINDS, Struct
from ibdissect.wire.spec import Field as Declared
from ibdissect.wire.text import hex_text, value_text


class NumberField:
    """Numbers and flags: value names are accepted as input, and the text shown is that of the tree."""

    __slots__ = ()
    declared: Declared[Any]

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Converts the name of a value to its number (ValueError if unknown); numbers are returned unchanged."""
        if not isinstance(x, str):
            return x
        for number, name in (self.declared.values or {}).items():
            if name == x:
                return number
        raise ValueError(f"{self.declared.name} has no value named {x!r}")

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """The text shown in the tree; None is a value to be computed."""
        return value_text(self.declared, x) if isinstance(x, int) else repr(x)


_WIDTHS = {8: ("Byte", "B"), 16: ("Short", "H"), 32: ("Int", "I"), 64: ("Long", "Q")}


@cache
def _number_class(bits: int, little: bool, named: bool) -> type[Any]:
    """A class of numbers of 1, 2, 4 or 8 whole bytes, or of any bits (0); `ls` tells width, byte order and enumeration by its name."""
    if bits:
        width, order = _WIDTHS[bits]
        base: Any = EnumField if named else ScapyField
    else:
        width, base = "Bit", BitEnumField if named else BitField

    def init(self: Any, name: str, default: int | None, declared: Declared[Any]) -> None:
        self.declared = declared
        names = (declared.values,) if named else ()
        if bits:
            base.__init__(self, name, default, *names, ("<" if little else "!") + order)
        else:
            base.__init__(self, name, default, declared.bits, *names)

    title = f"{'LE' if little else ''}{width}{'Enum' if named else ''}Field"
    return type(title, (NumberField, base), {"__slots__": ["declared"], "__init__": init, "__doc__": "A number of a declared structure."})


class Text(StrFixedLenField):
    """NUL-padded bytes; the value is bytes without trailing NULs and is not decoded."""

    def m2i(self, pkt: Packet | None, x: bytes) -> bytes:
        return x.rstrip(b"\0")


class Fixed(StrFixedLenField):
    """Bytes without a known structure, shown in hex."""

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return x.hex() if isinstance(x, bytes) else repr(x)


class Nested(PacketField):
    """A nested structure of fixed size."""

    __slots__ = ["size"]

    def __init__(self, name: str, cls: type[Packet], size: int) -> None:
        self.size = size
        PacketField.__init__(self, name, cls(), cls)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        return s[self.size :], self.m2i(pkt, s[: self.size])


class Entries(list[Any]):
    """Default entries of an array of structures; copying the list copies the entries, so that packets do not share them."""

    def copy(self) -> Entries:
        return Entries(entry.copy() for entry in self)


class Array(ScapyField):  # type: ignore[type-arg]
    """A fixed number of entries of one field; a shorter list is padded with the entry's default."""

    __slots__ = ["count", "entry"]
    islist = 1

    def __init__(self, entry: Any, count: int) -> None:
        self.entry, self.count = entry, count
        ScapyField.__init__(self, entry.name, [], "s")

    def _blank(self) -> Any:
        default = self.entry.default
        return default.copy() if isinstance(default, Packet) else default

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """A list of exactly `count` entries; raises ValueError for more."""
        given = [] if x is None else list(x) if isinstance(x, (list, tuple)) else [x]
        if len(given) > self.count:
            raise ValueError(f"{self.name} has {self.count} entries, not {len(given)}")
        entries = [self.entry.any2i(pkt, one) for one in given]
        entries += [self._blank() for _ in range(self.count - len(entries))]
        return Entries(entries) if self.holds_packets else entries

    def randval(self) -> Any:
        """Nothing: `fuzz()` leaves arrays at their defaults, as Scapy's own lists."""

    def getfield(self, pkt: Packet, s: Any) -> tuple[Any, Any]:
        entries = []
        for _ in range(self.count):
            s, one = self.entry.getfield(pkt, s)
            entries.append(one)
        return s, entries

    def addfield(self, pkt: Packet, s: Any, val: Any) -> Any:
        for one in self.any2i(pkt, val):
            s = self.entry.addfield(pkt, s, one)
        return s

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return "[" + ", ".join(self.entry.i2repr(pkt, one) for one in x or ()) + "]"

    def i2count(self, pkt: Packet | None, x: Any) -> int:
        return self.count


class PacketArray(Array):
    """A fixed number of structures."""

    holds_packets = 1


class TrailerField(ScapyField):  # type: ignore[type-arg]
    """A field after the payload (ICRC, VCRC, pad bytes): shown with its layer, appended when the layer is built.

    None: to be computed; empty bytes: absent (truncated capture); a number or bytes: used unchanged.
    """

    __slots__ = ["bits"]

    def __init__(self, name: str, bits: int) -> None:
        self.bits = bits
        ScapyField.__init__(self, name, None, "s")

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        return s, pkt.tail.get(self.name, b"")

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return hex_text(x, self.bits) if isinstance(x, int) else repr(x)


def trailer_bytes(val: int | bytes, bits: int) -> bytes:
    """The bytes of a trailer's value that is not None; numbers are big-endian, in wire order."""
    return val.to_bytes(bits // 8, "big") if isinstance(val, int) else bytes(val)


def field_name(name: str) -> str:
    """The name in Scapy: a name that Packet already uses gets a trailing underscore."""
    return f"{name}_" if hasattr(Packet, name) else name


def scapy_field(declared: Declared[Any], layer: Callable[[type[Struct]], type[Packet]], default: Any = 0) -> Any:
    """The Scapy field of a declared field; `layer` returns the class of a nested structure, `default` applies to numbers."""
    name, size = field_name(declared.name), declared.bits // 8
    entry: Any
    if declared.kind in BIT_KINDS:
        whole = declared.bit % 8 == 0 and declared.bits in _WIDTHS
        entry = _number_class(declared.bits if whole else 0, declared.little and whole, bool(declared.values))(name, default, declared)
    elif declared.kind == "nested":
        assert declared.of is not None
        entry = Nested(name, layer(declared.of), size)
    elif declared.kind == "gid":
        entry = IP6Field(name, "::")
    elif declared.kind == "mac":
        entry = MACField(name, "00:00:00:00:00:00")
    elif declared.kind == "ip4":
        entry = IPField(name, "0.0.0.0")
    elif declared.kind == "rest":
        entry = StrField(name, b"")
    elif declared.kind == "text":
        entry = Text(name, b"", length=size)
    else:
        entry = Fixed(name, bytes(size), length=size)
    if declared.count == 1:
        return entry
    return (PacketArray if declared.kind == "nested" else Array)(entry, declared.count)


def scapy_fields(
    declared: Iterable[Declared[Any]], layer: Callable[[type[Struct]], type[Packet]], defaults: dict[str, Any] | None = None
) -> list[Any]:
    """Scapy fields of all declared fields except sub-fields; `defaults` by declared name, else 0."""
    given = defaults or {}
    return [scapy_field(field, layer, given.get(field.name, 0)) for field in declared if field.part_of is None]
