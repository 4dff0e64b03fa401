"""Which Scapy packet is a declared structure: made once, on demand, from the declaration alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from scapy.config import conf
from scapy.packet import Packet

from ibdissect.wire.spec import Field, Struct

from .fields import field_name, scapy_fields

StructType = type[Struct]


class Layer(Packet):
    """A packet derived from a declaration (`declared`).

    Building always passes through `post_build`, even for bytes just read: what stands behind the payload is put there.
    """

    __slots__ = ["behind", "tail", "whole"]
    fields_desc: list[Any] = []
    declared: ClassVar[StructType] = Struct
    parts: ClassVar[frozenset[str]] = frozenset()
    """Names of the sub-fields, which are properties."""

    def pre_dissect(self, s: bytes) -> bytes:
        """Resets what dissecting finds: `tail` (fields behind the payload), `behind` (bytes of no layer), `whole` (nothing cut off)."""
        self.tail, self.behind, self.whole = {}, b"", False
        return s

    def do_dissect(self, s: bytes) -> bytes:
        rest = super().do_dissect(s)
        if self.packetfields:
            # Scapy notices a change in a nested packet, not in one nested twice: rebuild from the fields.
            self.raw_packet_cache = None
        return rest

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        return s, self.behind or None

    def do_build(self) -> bytes:
        ready = self if self.explicit else next(iter(self))
        built = ready.self_build()
        for transform in ready.post_transforms:
            built = transform(built)
        return ready.post_build(built, ready.do_build_payload())

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in self.parts:
            object.__setattr__(self, attr, val)
        else:
            super().__setattr__(attr, val)


def _part(field: Field[Any]) -> property:
    """Reading and writing bits of another field."""
    assert field.part_of is not None
    whole, low = field_name(field.part_of[0].name), field.part_of[1]
    mask = (1 << field.bits) - 1

    def get(self: Layer) -> int | bool:
        bits = (self.getfieldval(whole) or 0) >> low & mask
        return bool(bits) if field.kind == "flag" else bits

    def put(self: Layer, value: int) -> None:
        self.setfieldval(whole, (self.getfieldval(whole) or 0) & ~(mask << low) | (int(value) & mask) << low)

    return property(get, put, doc=field.label)


def part_properties(fields: tuple[Field[Any], ...], taken: set[str]) -> dict[str, property]:
    """Properties for the sub-fields among `fields`, but for names that are `taken` or Scapy's own, and for parts of arrays."""
    return {
        field.name: _part(field)
        for field in fields
        if field.part_of is not None and field.part_of[0].count == 1 and field.name not in taken and not hasattr(Packet, field.name)
    }


def _hook(least: int) -> Any:
    """Bytes too short for the structure are Raw, never an exception."""

    def dispatch_hook(cls: type[Packet], _pkt: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        return cls if not _pkt or len(_pkt) >= least else conf.raw_layer

    return classmethod(dispatch_hook)


def make(
    struct: StructType,
    base: type[Layer] = Layer,
    *,
    fields: list[Any] | None = None,
    sources: tuple[Field[Any], ...] | None = None,
    least: int | None = None,
    **attributes: Any,
) -> type[Layer]:
    """The packet class of a structure. `fields`: instead of the declared ones; `sources`: whose sub-fields become properties;

    `least`: bytes below which the data is Raw; `attributes`: class attributes of the packet class.
    """
    described = scapy_fields(struct.fields, layer) if fields is None else fields
    properties = part_properties(struct.fields if sources is None else sources, {field.name for field in described})
    namespace: dict[str, Any] = {
        "__module__": "ibdissect.layers",
        "__doc__": struct.__doc__,
        "name": struct.title,
        "fields_desc": described,
        "declared": struct,
        "parts": frozenset(properties),
        "dispatch_hook": _hook(struct.size if least is None else least),
        **properties,
        **attributes,
    }
    made: type[Layer] = type(Packet)(struct.__name__, (base,), namespace)
    LAYERS[struct] = made
    return made


LAYERS: dict[StructType, type[Layer]] = {}
"""Every packet class made so far."""
MAKERS: dict[type, Callable[[StructType], type[Layer]]] = {}
"""By kind of place (`ibdissect.wire.places`): who makes the layer of a structure found there, where it is not `make`."""


def layer(struct: StructType) -> type[Layer]:
    """The packet class of a structure, made at the first call."""
    found = LAYERS.get(struct)
    if found is None:
        makers = (MAKERS.get(type(place)) for place in struct.carried_by)
        found = next((maker for maker in makers if maker is not None), make)(struct)
    return found
