"""Conversion of a plugin's plain Scapy packet class to a declared structure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from scapy.fields import BitField, IP6Field, IPField, MACField, StrFixedLenField, XByteField, XIntField, XLongField, XShortField
from scapy.fields import Field as ScapyField
from scapy.packet import Packet

from ibdissect.errors import SpecError
from ibdissect.wire.places import Parsed
from ibdissect.wire.spec import Field, Struct, enum, made, raw, rest, uint

from .derive import LAYERS, Layer

_HEX = (XByteField, XShortField, XIntField, XLongField)
_WIDTHS = {"B": 8, "H": 16, "I": 32, "Q": 64}


def _declared(owner: str, field: Any) -> Field[Any]:
    """Convert one field; raises SpecError with its name if its layout depends on the packet or is not supported."""
    label = field.name.replace("_", " ")
    if isinstance(field, BitField) and not field.rev and isinstance(field.size, int) and field.size > 0:
        return _number(field, field.size, label)
    if isinstance(field, IP6Field):
        return Field("gid", 128, label)
    if isinstance(field, IPField):
        return Field("ip4", 32, label)
    if isinstance(field, MACField):
        return Field("mac", 48, label)
    if isinstance(field, StrFixedLenField) and field.length_from.__defaults__ == (field.sz,):  # not given by another field
        return raw(field.sz, label)
    plain = isinstance(field, ScapyField) and type(field).getfield is ScapyField.getfield and type(field).addfield is ScapyField.addfield
    if plain and field.fmt in ("!b", "B", "=B", "<B"):
        return _number(field, 8, label)
    if plain and not field.islist and not field.holds_packets and field.fmt[0] in "!><" and field.fmt[1:] in _WIDTHS:
        return _number(field, _WIDTHS[field.fmt[1:]], label, little=field.fmt[0] == "<")
    raise SpecError(owner, field.name, f"{type(field).__name__} has no fixed layout, a structure needs one")


def _attribute(name: str) -> str:
    """The attribute name of a field: a name that Struct already uses (`size`, `key`) gets a trailing underscore."""
    return f"{name}_" if hasattr(Struct, name) else name


def _number(field: Any, bits: int, label: str, *, little: bool = False) -> Field[Any]:
    names = {number: str(name) for number, name in (getattr(field, "i2s", None) or {}).items() if isinstance(number, int)}
    base = "hex" if isinstance(field, _HEX) else "dec"
    return enum(bits, names, label, base=base, little=little) if names else uint(bits, label, base=base, little=little)


def from_scapy(cls: type[Packet], **attributes: Any) -> type[Struct]:
    """A structure with the fields of a Scapy class of fixed layout; `attributes`: `key`, `carried_by`, ... as in a declaration.

    Raises SpecError with the first field whose size or byte order is not fixed.
    """
    namespace: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    namespace |= {"key": cls.__name__.lower(), "section": cls.__module__}
    for field in cls.fields_desc:
        namespace[_attribute(field.name)] = _declared(cls.__name__, field)
    return made(cls.__name__, {**namespace, **attributes})


def structures_of(cls: type[Packet]) -> list[type[Struct]]:
    """The structures of a Scapy class that declares its places (`carried_by`, optionally `key`, `prefix`, `section`).

    A class of fixed layout becomes one structure. From the first field whose size depends on the packet, every field becomes a
    structure with this one field, located by Scapy's own dissection; its filter name stays the same.
    """
    given = {name: vars(cls)[name] for name in ("key", "prefix", "section", "carried_by") if name in vars(cls)}
    fixed: dict[str, Any] = {}
    loose: list[Any] = []
    for field in cls.fields_desc:
        declared = None if loose else _or_none(cls.__name__, field)
        if declared is None:
            loose.append(field)
        else:
            fixed[_attribute(field.name)] = declared
    if not loose:
        return [from_scapy(cls, **given)]
    if sum(field.bits for field in fixed.values()) % 8:
        raise SpecError(cls.__name__, loose[0].name, "starts in the middle of a byte, after fields of fixed layout")
    given = {"key": cls.__name__.lower(), "section": cls.__module__, "title": cls.__name__, **given}
    whole = _made(cls, cls.__name__, {**given, **fixed, "scapy_body": rest("Body")})
    LAYERS[whole] = cast("type[Layer]", cls)
    found = [whole]
    for field in loose:
        declared = _or_none(cls.__name__, field)
        if declared is None or declared.bits % 8:
            declared = rest(field.name.replace("_", " "), show=_text)
        place = Parsed(whole.fields[-1], partial(_places, cls, field.name), whole=True)
        found.append(_made(cls, f"{cls.__name__}_{field.name}", {**given, "carried_by": (place,), _attribute(field.name): declared}))
    return found


def _made(cls: type[Packet], name: str, body: dict[str, Any]) -> type[Struct]:
    return made(name, {"__module__": cls.__module__, "__doc__": cls.__doc__ or f"{cls.__name__}, a class of Scapy.", **body})


def _or_none(owner: str, field: Any) -> Field[Any] | None:
    try:
        return _declared(owner, field)
    except SpecError:
        return None


def _places(cls: type[Packet], name: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Where a field of a packet is, found by dissecting the fields before it with Scapy; nothing if the field is absent."""
    packet: Any = cls()
    left: Any = data
    for field in cls.fields_desc:
        before = left
        try:
            left, packet.fields[field.name] = field.getfield(packet, left)
        except struct.error:  # the bytes end within the field
            return
        if field.name == name:
            if isinstance(before, bytes) and isinstance(left, bytes) and len(left) < len(before):
                yield len(data) - len(before), len(data) - len(left)
            return


def _text(value: bytes) -> str:
    """The value as text if printable, else as hex."""
    text = value.decode("utf-8", "replace")
    return text if text.isprintable() else value.hex()
