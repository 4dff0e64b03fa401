"""Names of values whose meaning depends on the MAD's class, method or attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.mad import MAD
from ibdissect.wire.names import SM_CONTROL
from ibdissect.wire.numbers import SET, SM_INFO, SMP_CLASSES
from ibdissect.wire.opa import STLSMPDirected
from ibdissect.wire.sa import SAFormat, STLSAFormat, component_fields, components_set
from ibdissect.wire.sm import FIRST_HOP, SMPDirected
from ibdissect.wire.spec import Field
from ibdissect.wire.text import counted, hex_text

from .info_line_mad import MODIFIERS

Names = Callable[[Catalog, Any, tuple[int, ...]], str]
"""Catalog, value, and the values of the `ABOUT` fields and the OUI (-1: none) -> text."""

ABOUT: tuple[Field[int], ...] = (MAD.base_version, MAD.mgmt_class, MAD.method, MAD.attribute_id, MAD.class_specific)
"""The fields that names depend on. A class format starts where the common header does, so its bytes can be read as MAD."""


def _attribute(catalog: Catalog, value: int, about: tuple[int, ...]) -> str:
    base_version, mgmt_class, method, *_ = about
    name = catalog.attribute_name(mgmt_class, value, method, base_version, about[-1])
    return hex_text(value, 16) if name.startswith("attribute 0x") else f"{name} ({hex_text(value, 16)})"


def _method(catalog: Catalog, value: int, about: tuple[int, ...]) -> str:
    """The name that a plugin gives to a method; empty if none does."""
    named = catalog.vendor_class(about[1], about[-1])
    return f"{named.methods[value]} ({hex_text(value, 8)})" if named is not None and value in named.methods else ""


def _modifier(_catalog: Catalog, value: int, about: tuple[int, ...]) -> str:
    base_version, mgmt_class, method, attr_id, *_ = about
    meaning = ""
    if base_version == 1 and mgmt_class in SMP_CLASSES:
        shown = MODIFIERS.get(attr_id)
        if shown is not None:
            meaning = shown(value).strip()
        elif attr_id == SM_INFO and method == SET:
            meaning = SM_CONTROL.get(value, "")
    return hex_text(value, 32) + (f" ({meaning})" if meaning else "")


def _components(catalog: Catalog, value: int, about: tuple[int, ...]) -> str:
    base_version, mgmt_class, method, attr_id, *_ = about
    struct = catalog.attribute(mgmt_class, attr_id, method, base_version)
    labels = [component_label(struct, name) for name in components_set(struct, value)] if struct is not None else []
    return hex_text(value, 64) + (f" ({', '.join(labels)})" if labels else "")


def _path(_catalog: Catalog, value: bytes, about: tuple[int, ...]) -> str:
    hops = about[4] & 0xFF
    if hops >= len(value):
        return f"{value.hex()} ({hops} hops do not fit)"
    ports = ", ".join(map(str, value[FIRST_HOP : FIRST_HOP + hops]))
    return f"ports {ports} ({counted(hops, 'hop')})" if hops else "no hops"


def component_label(struct: StructType, name: str) -> str:
    """The label of a component in the tree: `SGID`, `PortInfo.LID`; an unknown name is returned unchanged."""
    labels = [field.label for field in component_fields(struct, name)]
    return ".".join(labels) + "".join(name.partition("[")[1:]) if labels else name


NAMES: dict[Field[Any], Names] = {
    SMPDirected.initial_path: _path,
    SMPDirected.return_path: _path,
    STLSMPDirected.initial_path: _path,
    STLSMPDirected.return_path: _path,
    MAD.status: lambda catalog, value, about: f"{hex_text(value, 16)} ({catalog.status_text(value, about[1], about[-1])})",
    MAD.method: _method,
    MAD.attribute_id: _attribute,
    MAD.attribute_modifier: _modifier,
    SAFormat.component_mask: _components,
    STLSAFormat.component_mask: _components,
}
"""The fields whose text depends on the common header of their MAD."""


def depends(catalog: Catalog, field: Field[Any]) -> bool:
    """Whether the text of a field depends on the common header of its MAD."""
    return field in NAMES and (field is not MAD.method or bool(catalog.vendor_classes))


def context_text(catalog: Catalog, field: Field[Any], value: Any, about: tuple[int, ...]) -> str:
    """The text of a value of a field in `NAMES`, empty for the usual one; `about`: the values of `ABOUT`, and the OUI (-1: none)."""
    return NAMES[field](catalog, value, about)
