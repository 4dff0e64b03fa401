"""The ComponentMask of the components set in an SA record, and queries built with it."""

from __future__ import annotations

from typing import Any

from scapy.packet import Packet

from ibdissect.wire.mad import BASE_VERSION_OPA
from ibdissect.wire.numbers import GET_TABLE
from ibdissect.wire.sa import SAFormat, STLSAFormat, components_of, mask_for
from ibdissect.wire.spec import field_named

from .derive import Layer, layer


def component_mask(record: Layer, *names: str) -> int:
    """The mask of the fields that were given a value in the record, plus the components in `names`.

    A given field is selected even if it is zero; an array whose entries are components is selected entry by entry, nonzero entries
    only. Raises ValueError for a name that is not a component of the record.
    """
    struct = record.declared
    chosen = [name for name in components_of(struct) if name and _given(record, name)]
    return mask_for(struct, [*chosen, *names])


def sa_query(record: Layer, *names: str, method: int = GET_TABLE, **header: Any) -> Packet:
    """An SA MAD that requests the records with the given components: `sa_query(PathRecord(sgid=..., dgid=...))`.

    `names`: further components to select; `header`: fields of the MAD. A `component_mask` in `header` is used unchanged.
    """
    header.setdefault("component_mask", component_mask(record, *names))
    form = STLSAFormat if header.get("base_version") == BASE_VERSION_OPA else SAFormat
    return layer(form)(method=method, **header) / record


def _given(record: Layer, component: str) -> bool:
    *outer, last = component.split(".")
    for name in outer:
        record = record.getfieldval(name)
        if not isinstance(record, Layer):
            return False
    base, _, index = last.partition("[")
    field = field_named(record.declared, base)
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
