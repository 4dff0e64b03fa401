"""What is shown beside a layer's name in the tree?"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ibdissect.wire import encapsulation, link, network, transport
from ibdissect.wire.catalog import StructType
from ibdissect.wire.mad import MAD, class_name

from .tree import Node


def layer_text(layer: Node) -> str:
    """`Local Route Header, LID 4 → LID 1`; empty if there is nothing to add to the name."""
    struct = layer.struct
    if struct is None:
        return ""
    values = {node.field.name: node for node in layer.children if node.field is not None}
    about = _ABOUT.get(struct)
    what = _what(struct)
    said = about(values) if about is not None else ""
    return ", ".join(part for part in (what, said) if part)


def _what(struct: StructType) -> str:
    """The start of the structure's docstring, if its title is an abbreviation."""
    if struct is MAD or not struct.title.isupper() or len(struct.title) > 6:
        return ""
    return re.split(r"[.,;:(\n]", struct.__doc__ or "", maxsplit=1)[0].strip()


def _ends(source: str, destination: str, prefix: str = "") -> Callable[[dict[str, Any]], str]:
    return lambda values: f"{prefix}{values[source].text} → {prefix}{values[destination].text}"


_ABOUT: dict[StructType, Callable[[dict[str, Any]], str]] = {
    link.LRH: _ends("slid", "dlid", "LID "),
    network.GRH: _ends("sgid", "dgid"),
    encapsulation.Ethernet: _ends("source", "destination"),
    encapsulation.IPv4: _ends("source", "destination"),
    encapsulation.IPv6: _ends("source", "destination"),
    encapsulation.UDP: _ends("source_port", "destination_port"),
    transport.BTH: lambda values: values["opcode"].text.partition(" (")[0],
    MAD: lambda values: class_name(values["mgmt_class"].value),
}
