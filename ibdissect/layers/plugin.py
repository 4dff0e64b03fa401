"""How does a plain Scapy packet of a plugin become a declared structure?"""

from __future__ import annotations

from typing import Any

from scapy.fields import BitField, IP6Field, IPField, MACField, StrFixedLenField, XByteField, XIntField, XLongField, XShortField
from scapy.fields import Field as ScapyField
from scapy.packet import Packet

from ibdissect.errors import SpecError
from ibdissect.wire.spec import Field, Struct, raw, uint

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
    if plain and field.fmt in ("!b", "B", "=B"):
        return _number(field, 8, label)
    raise SpecError(owner, field.name, f"{type(field).__name__} has no fixed big-endian layout, a structure needs one")


def _fixed(field: Any) -> bool:
    """Whether a string field has a length of its own, not one counted by another field."""
    return bool(field.length_from.__defaults__ == (field.sz,))


def _number(field: Any, bits: int, label: str) -> Field[Any]:
    names = {number: str(name) for number, name in (getattr(field, "i2s", None) or {}).items() if isinstance(number, int)}
    made: Field[Any] = uint(bits, label, base="hex" if isinstance(field, _HEX) else "dec")
    made.values = names or None
    return made


def from_scapy(cls: type[Packet], **attributes: Any) -> type[Struct]:
    """A structure with the fields of a Scapy class of fixed layout; `attributes`: `key`, `carried_by`, ... as in any declaration.

    SpecError names the first field whose size or byte order is not fixed.
    """
    namespace: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    namespace |= {"key": cls.__name__.lower(), "section": cls.__module__}
    for field in cls.fields_desc:
        namespace[field.name] = _declared(cls.__name__, field)
    metaclass: Any = type(Struct)
    made: type[Struct] = metaclass(cls.__name__, (Struct,), {**namespace, **attributes})
    return made
