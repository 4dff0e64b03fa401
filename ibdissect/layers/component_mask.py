"""Which ComponentMask asks for the components that were set in an SA record, and what does such a query look like?"""

from __future__ import annotations

from typing import Any

from scapy.packet import Packet

from ibdissect.wire.component_mask import components_of, mask_for
from ibdissect.wire.mad import BASE_VERSION_OPA
from ibdissect.wire.sa import SAFormat, STLSAFormat

from .derive import Layer, layer

GET_TABLE = 0x12


def component_mask(record: Layer, *names: str) -> int:
    """The mask of the fields that were given a value when the record was made, and of the components in `names`.

    A field that was given is chosen even if it is zero; a run of bytes or a table that has components of its own is
    chosen entry by entry, where an entry is not zero. ValueError for a name that is no component of the record.
    """
    struct = record.declared
    chosen = [name for name in components_of(struct) if name and _given(record, name)]
    return mask_for(struct, [*chosen, *names])


def sa_query(record: Layer, *names: str, method: int = GET_TABLE, **header: Any) -> Packet:
    """An SA MAD that asks for the records with the given components: `sa_query(PathRecord(sgid=..., dgid=...))`.

    `names`: components to choose besides; `header`: fields of the MAD. A mask in `header` is taken as it is.
    """
    header.setdefault("component_mask", component_mask(record, *names))
    form = STLSAFormat if header.get("base_version") == BASE_VERSION_OPA else SAFormat
    return layer(form)(method=method, **header) / record


def _given(record: Layer, component: str) -> bool:
    """Whether a component was given a value."""
    *outer, last = component.split(".")
    for name in outer:
        record = record.getfieldval(name)
        if not isinstance(record, Layer):
            return False
    base, _, index = last.partition("[")
    field = next((field for field in record.declared.fields if field.name == base), None)
    if field is None:
        return False
    if index:
        entries = record.getfieldval(base)
        number = int(index.rstrip("]"))
        return base in record.fields and number < len(entries) and bool(entries[number])
    if field.part_of is not None:
        return field.part_of[0].name in record.fields and bool(getattr(record, base))
    if field.kind == "nested":
        inner = record.getfieldval(base)
        return isinstance(inner, Layer) and any(_given(inner, each.name) for each in inner.declared.fields if each.part_of is None)
    if field.count > 1:
        return base in record.fields and any(record.getfieldval(base))
    return base in record.fields
