"""Structures that packets may contain, as the Scapy layers look them up: those of the catalog in use, and those of plugins."""

from __future__ import annotations

from scapy.config import conf
from scapy.layers.inet import UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, bind_layers

from ibdissect.wire import catalog as _catalog
from ibdissect.wire.places import DestQP, Ethertype, Mad, MadFormat, UdpPort, VendorOui

from .derive import Layer, StructType, layer

_own: list[tuple[object, StructType]] = []
_in_use: list[_catalog.Catalog] = []


def catalog() -> _catalog.Catalog:
    """The catalog in which layers are looked up."""
    return _in_use[-1] if _in_use else _catalog.builtin()


def use_catalog(chosen: _catalog.Catalog) -> None:
    """Look layers up in another catalog, which may contain structures of plugins."""
    _in_use[:] = [chosen]
    for place, struct in chosen.others:
        if struct not in _catalog.builtin().structs:
            _bind(place, struct)


def register(struct: StructType) -> type[Layer]:
    """Make the layer of a plugin's structure and dissect it at its places (`carried_by`).

    Layers support MadFormat, Mad, VendorOui, DestQP, UdpPort and Ethertype; other places work in the tree only.
    """
    made = layer(struct)
    for place in struct.carried_by:
        _bind(place, struct)
        _own.append((place, struct))
    return made


def _bind(place: object, struct: StructType) -> None:
    """Bind a structure to Scapy's own layers."""
    if isinstance(place, UdpPort):
        bind_layers(UDP, layer(struct), dport=place.port)
        bind_layers(UDP, layer(struct), sport=place.port)
    elif isinstance(place, Ethertype):
        bind_layers(Ether, layer(struct), type=place.ethertype)
        bind_layers(Dot1Q, layer(struct), type=place.ethertype)


def format_of(mgmt_class: int, base_version: int) -> StructType | None:
    """The class-specific format of a MAD; None if there is only the common header."""
    for place, struct in reversed(_own):
        if isinstance(place, MadFormat) and mgmt_class in place.classes and place.base_version == base_version:
            return struct
    return next(iter(catalog().formats.get((mgmt_class, base_version), ())), None)


def attribute_of(mgmt_class: int, attr_id: int, base_version: int, method: int, oui: int | None) -> StructType | None:
    """The structure of an attribute, or of a vendor's by its OUI; None if unknown."""
    for place, struct in reversed(_own):
        if isinstance(place, Mad) and (place.mgmt_class, place.attr_id) == (mgmt_class, attr_id) and place.takes(method, base_version):
            return struct
        if isinstance(place, VendorOui) and place.takes(mgmt_class, attr_id, oui, method):
            return struct
    return catalog().attribute(mgmt_class, attr_id, method, base_version) or catalog().of_vendor(mgmt_class, attr_id, oui, method)


def payload_of_qp(qp: int) -> type[Packet]:
    """The layer that a plugin declares for a queue pair; else Raw."""
    for place, struct in (*reversed(_own), *catalog().others):
        if isinstance(place, DestQP) and place.qp == qp:
            return layer(struct)
    return conf.raw_layer
