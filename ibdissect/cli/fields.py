"""`ibdissect fields`: lists the filter names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click

from ibdissect.cli.common_options import OF_CAPTURES, CommonOptions, common_options, without
from ibdissect.cli.console import echo
from ibdissect.dfilter.names import COMPUTED, MARKS, names_of
from ibdissect.errors import FilterError

TYPES = {"uint": "integer", "flag": "boolean", "gid": "GID", "mac": "MAC address", "ip4": "IPv4 address", "raw": "bytes", "rest": "bytes",
         "text": "text", "pad": "reserved"}  # fmt: skip
KINDS = {"uint": "integer", "bool": "boolean", "bytes": "bytes", "string": "text", "abstime": "time", "reltime": "seconds", "none": "mark"}
"""Types of names that no structure declares."""


@click.command()
@click.argument("prefix", default="", metavar="[PREFIX]")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@without(*OF_CAPTURES, reason="cannot be used here: no capture is read")
@common_options
def command(prefix: str, format_: str, common: CommonOptions) -> None:
    """List all filter names that start with PREFIX (`infiniband.` is optional), with type, label, place and bits.

    If none starts with it, those that contain it are listed, in their name or label: `pkey` finds P_Key, too.
    """
    from ibdissect.wire.catalog import builtin

    catalog = common.loaded()[0] or builtin()
    extra = catalog.computed
    found = [row for struct in catalog.structs for row in _rows(struct, extra.get(struct, ()), catalog.places(struct))]
    found += [row for row in _of_frames(catalog) if not any(row["name"] == one["name"] for one in found)]
    word = squeezed(prefix)
    found = [row for row in found if matches(row["name"], prefix)] or [
        row for row in found if word in squeezed(row["name"]) or word in squeezed(row["label"])
    ]
    if not found:
        near = " or ".join(names_of(catalog).nearest(prefix))
        raise FilterError(prefix, f'no field has "{prefix}" in its name or label', hint=f"did you mean {near}?" if near else "")
    found.sort(key=lambda row: (row["name"], row["structure"]))
    if format_ == "json":
        echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    width = max(len(row["name"]) for row in found)
    lines = (f"{row['name']:<{width}}  {row['type']:<8}  {row['bits']:<12}  {row['label']}  ({row['carried_by']})" for row in found)
    echo("\n".join(dict.fromkeys(lines)))  # several structures in the same place may have a field alike


def matches(name: str, prefix: str) -> bool:
    """Whether a filter name starts with the prefix; `infiniband.` is optional."""
    return name.startswith(prefix) or name.removeprefix("infiniband.").startswith(prefix)


def squeezed(text: str) -> str:
    """A text without case and without what people leave out of names: `P_Key`, `p.key` and `pkey` are the same."""
    return re.sub(r"[^a-z0-9]+", "", text.casefold()) or text.casefold()


def _of_frames(catalog: Any) -> Iterator[dict[str, Any]]:
    """Names that no structure declares: properties of frames, protocols."""
    names = names_of(catalog)
    for name in (*COMPUTED, *MARKS):
        yield {"name": name, "type": KINDS[names.named(name).kind], "label": names.label(name), "structure": "", "carried_by": "frame",
               "bits": "computed", "section": ""}  # fmt: skip


def _rows(struct: Any, computed: Any = (), places: Any = ()) -> list[dict[str, Any]]:
    carried = where(struct, places)
    rows = []
    for field in (*struct.fields, *computed):
        if field.kind in ("hole", "nested"):
            continue
        bits = f"{field.bit // 8}[{field.bit % 8}]+{field.bits}" if field.bit % 8 or field.bits % 8 else f"{field.bit // 8}+{field.bits}"
        if field in computed:
            bits = "computed"
        kind = "text" if field.is_text else TYPES.get(field.kind, field.kind)
        row = {
            "name": field.filter_name, "type": kind, "label": field.label, "structure": struct.__name__,
            "carried_by": carried, "bits": bits if field.count == 1 else f"{bits} x{field.count}", "section": struct.section,
        }  # fmt: skip
        rows.append(row)
    return rows


def where(struct: Any, places: Any = ()) -> str:
    """The places of a structure (`Catalog.places`; else those that it names) in words: `SMP 0x0015`, `inside Notice.data_details`."""
    from ibdissect.wire.mad import CLASS_PREFIX
    from ibdissect.wire.places import Behind, CmPayload, CmService, Inside, Mad, MadFormat, Parsed, Stream
    from ibdissect.wire.tail import Laid

    said = []
    for place in places or struct.carried_by:
        if isinstance(place, Stream):
            said.append(f"stream of {where(struct, (place.over,))}")
            continue
        if isinstance(place, MadFormat):
            said.append("class " + ", ".join(f"0x{number:02x}" for number in sorted(place.classes)))
        elif isinstance(place, Mad):
            said.append(f"{CLASS_PREFIX.get(place.mgmt_class, f'class 0x{place.mgmt_class:02x}')} attribute 0x{place.attr_id:04x}")
        elif isinstance(place, Inside):
            said.append(f"inside {_field(place.field)}")
        elif isinstance(place, Laid):
            chosen = "" if place.values is None else f", if {_list(place.values)}"
            said.append(f"in {place.field.owner.__name__}.{place.part.field.name}{chosen}")
        elif isinstance(place, Parsed):
            said.append(f"found in {_field(place.field)}")
        elif isinstance(place, Behind):
            said.append(f"after {place.length[0].owner.__name__}")
        elif isinstance(place, (CmService, CmPayload)):
            what = "private data" if isinstance(place, CmService) else "messages"
            side = f" to the {place.toward} side" if isinstance(place, CmPayload) and place.toward else ""
            mask = "" if place.mask == (1 << 64) - 1 else f"/0x{place.mask:x}"
            said.append(f"{what}{side} of service " + (f"{place.named}*" if place.named else f"0x{place.service_id:x}{mask}"))
        else:
            said.append(f"{type(place).__name__} {', '.join(_value(place, name) for name in place.__struct_fields__)}")
    return "; ".join(dict.fromkeys(said)) or struct.title


def _list(values: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(values)))


def _field(field: Any) -> str:
    return f"{field.owner.__name__}.{field.name}"


def _value(place: Any, name: str) -> str:
    value = getattr(place, name)
    if isinstance(value, frozenset):
        return ",".join(f"0x{number:x}" for number in sorted(value))
    return f"0x{value:x}" if isinstance(value, int) else str(value)
