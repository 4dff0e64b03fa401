"""Scapy packet classes derived from declared structures: made once, on demand, from the declaration alone."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from scapy.config import conf
from scapy.packet import Packet

from ibdissect.wire.spec import Field, Struct

from .fields import NumberField, field_name, scapy_fields

StructType = type[Struct]


class Layer(Packet):
    """A packet class derived from a declared structure (`declared`).

    Building always calls `post_build`, even for dissected bytes, because it adds the fields after the payload.
    """

    __slots__ = ["behind", "cut", "tail", "whole"]
    tail: dict[str, int | bytes]
    behind: bytes
    whole: bool
    cut: int
    fields_desc: ClassVar[list[Any]] = []
    declared: ClassVar[StructType] = Struct
    parts: ClassVar[frozenset[str]] = frozenset()
    """Names of the sub-fields, which are implemented as properties."""

    def pre_dissect(self, s: bytes) -> bytes:
        """Reset the dissection state.

        `tail`: fields after the payload. `behind`: bytes without a layer. `whole`: not truncated; `cut`: how many of the bytes that
        outer lengths promise are missing, 0 if that is unknown.
        """
        self.tail, self.behind, self.whole, self.cut = {}, b"", False, 0
        return s

    def do_dissect(self, s: bytes) -> bytes:
        rest = super().do_dissect(s)
        if self.packetfields:
            # Scapy misses changes in packets nested twice: always rebuild from the fields.
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

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: the class is made again from the structure, which is found by its module and name."""
        _, arguments, *state = super().__reduce__()
        return _again, (self.declared.__module__, self.declared.__qualname__, *arguments), *state

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in self.parts:
            object.__setattr__(self, attr, val)
        else:
            super().__setattr__(attr, val)


def _again(module: str, name: str, data: bytes = b"") -> Layer:
    """A packet from its bytes, of the layer of a structure. ImportError if its plugin is not loaded (`ibdissect.plugins.layers`)."""
    if module.startswith("ibdissect_plugin_") and module not in sys.modules:
        raise ImportError(f"{name} is of a plugin that is not loaded: call ibdissect.plugins.layers([FILE]) first")
    struct: StructType = getattr(import_module(module), name)
    return layer(struct)(data)


def _part(field: Field[Any]) -> property:
    """A property for bits of another field: a number, bool, IPv4 address as text, or bytes."""
    assert field.part_of is not None
    whole, low = field_name(field.part_of[0].name), field.part_of[1]
    size, mask = (field.part_of[0].bits + 7) // 8, (1 << field.bits) - 1

    def bits_of(self: Layer) -> int:
        found, value = self.getfield_and_val(whole)
        if value is None or isinstance(value, int):
            return value or 0
        return int.from_bytes(found.addfield(self, b"", value), "big")

    def get(self: Layer) -> int | bool | str | bytes:
        bits = bits_of(self) >> low & mask
        if field.kind == "flag":
            return bool(bits)
        if field.kind == "ip4":
            return str(ipaddress.IPv4Address(bits))
        return bits if field.kind == "uint" else bits.to_bytes(field.bits // 8, "big")

    def put(self: Layer, value: int | str | bytes) -> None:
        if field.kind == "ip4":
            value = int(ipaddress.IPv4Address(value))
        number = int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)
        bits = bits_of(self) & ~(mask << low) | (number & mask) << low
        found = self.getfield_and_val(whole)[0]
        numeric = isinstance(found, NumberField)
        self.setfieldval(whole, bits if numeric else found.getfield(self, bits.to_bytes(size, "big"))[1])

    return property(get, put, doc=field.label)


def part_properties(fields: tuple[Field[Any], ...], taken: set[str]) -> dict[str, property]:
    """Properties for the sub-fields among `fields`, except names `taken` or used by Scapy, and parts of arrays and of `rest`."""
    return {
        field.name: _part(field)
        for field in fields
        if field.part_of is not None
        and field.part_of[0].count == 1
        and field.part_of[0].bits
        and field.name not in taken
        and not hasattr(Packet, field.name)
    }


def _dispatch(cls: type[Layer], _pkt: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
    """Bytes too short for the structure are Raw instead of an error."""
    return cls if not _pkt or len(_pkt) >= cls.declared.size else conf.raw_layer


def make(
    struct: StructType,
    base: type[Layer] = Layer,
    *,
    fields: list[Any] | None = None,
    sources: tuple[Field[Any], ...] | None = None,
    **attributes: Any,
) -> type[Layer]:
    """Make the packet class of a structure.

    `fields` replace the declared ones; sub-fields in `sources` become properties; `attributes` are class attributes of the packet class.
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
        "dispatch_hook": classmethod(_dispatch),
        **properties,
        **attributes,
    }
    metaclass: Any = type(Packet)
    made: type[Layer] = metaclass(struct.__name__, (base,), namespace)
    LAYERS[struct] = made
    return made


LAYERS: dict[StructType, type[Layer]] = {}
"""Every packet class made so far."""
MAKERS: dict[type, Callable[[StructType], type[Layer]]] = {}
"""By kind of place (`ibdissect.wire.places`): the function that makes the layer of a structure found there; default `make`."""


def layer(struct: StructType) -> type[Layer]:
    """The packet class of a structure, made on first use."""
    found = LAYERS.get(struct)
    if found is None:
        makers = (MAKERS.get(type(place)) for place in struct.carried_by)
        found = next((maker for maker in makers if maker is not None), make)(struct)
    return found
