"""How does a plain Scapy packet of a plugin become a declared structure?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from scapy.fields import BitField, IP6Field, IPField, MACField, StrFixedLenField, XByteField, XIntField, XLongField, XShortField
from scapy.fields import Field as ScapyField
from scapy.packet import Packet

from ibdissect.errors import SpecError
from ibdissect.wire.places import Parsed
from ibdissect.wire.spec import Field, Struct, raw, rest, uint

from .derive import LAYERS, Layer

_HEX = (XByteField, XShortField, XIntField, XLongField)
_WIDTHS = {"B": 8, "H": 16, "I": 32, "Q": 64}


def _declared(owner: str, field: Any) -> Field[Any]:
    """One field; SpecError with its name where its layout depends on the packet or is not big-endian."""
    label = field.name.replace("_", " ")
    if isinstance(field, BitField) and not field.rev and isinstance(field.size, int) and field.size > 0:
        return _number(field, field.size, label)
    if isinstance(field, IP6Field):
        return Field("gid", 128, label)
    if isinstance(field, IPField):
        return Field("ip4", 32, label)
    if isinstance(field, MACField):
        return Field("mac", 48, label)
    if isinstance(field, StrFixedLenField) and _fixed(field):
        return raw(field.sz, label)
    plain = isinstance(field, ScapyField) and type(field).getfield is ScapyField.getfield and type(field).addfield is ScapyField.addfield
    if plain and not field.islist and not field.holds_packets and field.fmt[0] in "!>" and field.fmt[1:] in _WIDTHS:
        return _number(field, _WIDTHS[field.fmt[1:]], label)
    if plain and field.fmt in ("!b", "B", "=B", "<B"):
        return _number(field, 8, label)
    if plain and not field.islist and not field.holds_packets and field.fmt[0] == "<" and field.fmt[1:] in _WIDTHS:
        return _number(field, _WIDTHS[field.fmt[1:]], label, little=True)
    raise SpecError(owner, field.name, f"{type(field).__name__} has no fixed layout, a structure needs one")


def _fixed(field: Any) -> bool:
    """Whether a string field has a length of its own, not one counted by another field."""
    return bool(field.length_from.__defaults__ == (field.sz,))


def _attribute(name: str) -> str:
    """The attribute that a field becomes: what every structure has already (`size`, `key`) gets an underscore behind it."""
    return f"{name}_" if hasattr(Struct, name) else name


def _number(field: Any, bits: int, label: str, *, little: bool = False) -> Field[Any]:
    names = {number: str(name) for number, name in (getattr(field, "i2s", None) or {}).items() if isinstance(number, int)}
    made: Field[Any] = uint(bits, label, base="hex" if isinstance(field, _HEX) else "dec", little=little)
    made.values = names or None
    return made


def from_scapy(cls: type[Packet], **attributes: Any) -> type[Struct]:
    """A structure with the fields of a Scapy class of fixed layout; `attributes`: `key`, `carried_by`, ... as in any declaration.

    SpecError names the first field whose size or byte order is not fixed.
    """
    namespace: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    namespace |= {"key": cls.__name__.lower(), "section": cls.__module__}
    for field in cls.fields_desc:
        namespace[_attribute(field.name)] = _declared(cls.__name__, field)
    metaclass: Any = type(Struct)
    made: type[Struct] = metaclass(cls.__name__, (Struct,), {**namespace, **attributes})
    return made


def structures_of(cls: type[Packet]) -> list[type[Struct]]:
    """The structures of a Scapy class that says itself where it is carried (`carried_by`, perhaps `key`, `prefix`, `section`).

    Of fixed layout it is one structure. From the first field on whose size depends on the packet, Scapy's own dissection says where each
    field lies: it is a structure of its own, with one field, under the name that it would have had.
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
        raise SpecError(cls.__name__, loose[0].name, "starts in the middle of a byte, behind fields of fixed layout")
    given = {"key": cls.__name__.lower(), "section": cls.__module__, "title": cls.__name__, **given}
    whole = _made(cls, cls.__name__, {**given, **fixed, "scapy_body": rest("Body")})
    LAYERS[whole] = cast("type[Layer]", cls)
    made = [whole]
    for field in loose:
        declared = _or_none(cls.__name__, field)
        if declared is None or declared.bits % 8:
            declared = rest(field.name.replace("_", " "), show=_text)
        place = Parsed(whole.fields[-1], partial(_places, cls, field.name), whole=True)
        made.append(_made(cls, f"{cls.__name__}_{field.name}", {**given, "carried_by": (place,), _attribute(field.name): declared}))
    return made


def _made(cls: type[Packet], name: str, body: dict[str, Any]) -> type[Struct]:
    metaclass: Any = type(Struct)
    about = {"__module__": cls.__module__, "__doc__": cls.__doc__ or f"{cls.__name__}, a class of Scapy."}
    made: type[Struct] = metaclass(name, (Struct,), {**about, **body})
    return made


def _or_none(owner: str, field: Any) -> Field[Any] | None:
    try:
        return _declared(owner, field)
    except SpecError:
        return None


def _places(cls: type[Packet], name: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Where a field of a packet lies, as Scapy's own fields read their way to it; nothing where a condition leaves it out."""
    packet: Any = cls()
    left: Any = data
    for field in cls.fields_desc:
        before = left
        left, packet.fields[field.name] = field.getfield(packet, left)
        if field.name == name:
            if isinstance(before, bytes) and isinstance(left, bytes) and len(left) < len(before):
                yield len(data) - len(before), len(data) - len(left)
            return


def _text(value: bytes) -> str:
    """Text where it is some, else hex."""
    text = value.decode("utf-8", "replace")
    return text if text.isprintable() else value.hex()
