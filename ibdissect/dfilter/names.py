"""What does a name in a display filter mean: a declared field, a structure, or a property of the frame?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.dissect.named_values import MESSAGE_KINDS, MESSAGE_NAMES
from ibdissect.errors import FilterError
from ibdissect.wire import encapsulation
from ibdissect.wire.catalog import BOTH, Catalog, StructType
from ibdissect.wire.expr import Compare, Expr, Or, Present
from ibdissect.wire.link import FlowControl
from ibdissect.wire.mad import BASE_VERSION_OPA, MAD
from ibdissect.wire.spec import Field
from ibdissect.wire.ulp import ip
from ibdissect.wire.ulp.ipoib import IPoIB

Kind = Literal["uint", "bool", "bytes", "string", "ether", "ipv4", "ipv6", "abstime", "reltime", "none"]
"""The Wireshark field types that the language distinguishes; `none` can only be tested for presence."""

KIND_NAMES: Mapping[Kind, str] = {
    "uint": "an unsigned integer", "bool": "a flag", "bytes": "a byte sequence", "string": "a string", "ether": "a MAC address",
    "ipv4": "an IPv4 address", "ipv6": "a GID or IPv6 address", "abstime": "a date and time", "reltime": "a time in seconds",
    "none": "a mark without a value",
}  # fmt: skip

FIELD_KINDS: Mapping[str, Kind] = {
    "uint": "uint", "pad": "uint", "flag": "bool", "gid": "ipv6", "mac": "ether", "ip4": "ipv4", "raw": "bytes", "hole": "bytes",
    "nested": "bytes", "rest": "bytes", "text": "string",
}  # fmt: skip

COMPUTED: Mapping[str, Kind] = {
    "frame": "bytes", "frame.marked": "bool", "frame.number": "uint", "frame.len": "uint", "frame.cap_len": "uint",
    "frame.interface_id": "uint",
    "frame.time": "abstime", "frame.time_epoch": "abstime", "frame.time_relative": "reltime", "frame.time_delta": "reltime",
    "frame.comment": "string", "frame.interface_name": "string",
    "_ws.col.source": "string", "_ws.col.destination": "string", "_ws.col.protocol": "string",
    "_ws.col.info": "string", "infiniband": "bytes", "infiniband.payload": "bytes",
    "tcp.srcport": "uint", "tcp.dstport": "uint", "tcp.port": "uint",
    "_ws.malformed": "none", "ibdissect.code": "string", "ibdissect.request_frame": "uint", "ibdissect.response_frame": "uint",
    "ibdissect.response_time": "reltime", "ibdissect.node": "string", "ibdissect.src.node": "string", "ibdissect.dst.node": "string",
    **dict.fromkeys(sorted(MESSAGE_NAMES), "uint"), "ibdissect.message.kind": "string", "ibdissect.message.latency": "reltime",
    "ibdissect.message.complete": "bool",
}  # fmt: skip
"""Names whose values come from `computed.values_of`."""

LABELS: Mapping[str, str] = {
    "frame": "All bytes of the frame", "frame.marked": "The frame is marked in the terminal UI",
    "frame.number": "Frame number, from 1", "frame.len": "Bytes on the wire",
    "frame.cap_len": "Captured bytes", "frame.interface_id": "Capture interface", "frame.time": "Date and time",
    "frame.time_epoch": "Seconds since 1970", "frame.time_relative": "Seconds since the first frame",
    "frame.time_delta": "Seconds since the frame before", "infiniband": "An InfiniBand or RoCE packet",
    "frame.comment": "Comment of the packet in a pcapng", "frame.interface_name": "Name of the capture interface in a pcapng",
    "_ws.col.source": "Source, as in the list of frames",
    "_ws.col.destination": "Destination, as in the list of frames", "_ws.col.protocol": "Protocol, as in the list of frames",
    "_ws.col.info": "What the frame is, as in the list of frames",
    "infiniband.payload": "Bytes after the transport headers, except MADs", "tcp.port": "Source or destination port",
    "tcp.srcport": "Source port", "tcp.dstport": "Destination port", "_ws.malformed": "The frame is malformed",
    "ibdissect.code": "Code of a finding in the frame", "ibdissect.request_frame": "Frame of the request that this frame answers",
    "ibdissect.response_frame": "Frame of the answer to this request",
    "ibdissect.node": "Name of a node that has the source or the destination LID (--subnet)",
    "ibdissect.src.node": "Name of the node that has the source LID (--subnet)",
    "ibdissect.dst.node": "Name of the node that has the destination LID (--subnet)",
    "ibdissect.response_time": "Seconds from the request (its latest try) to this answer",
    "ibdissect.message.kind": "What message the frame belongs to: " + ", ".join(MESSAGE_KINDS),
    "ibdissect.message.first_frame": "First frame of the message", "ibdissect.message.last_frame": "Last frame of the message",
    "ibdissect.message.ack_frame": "Frame that completed the message: its acknowledgement or last response",
    "ibdissect.message.bytes": "Bytes of the message, without repetitions",
    "ibdissect.message.packets": "Packets of the message, both ways",
    "ibdissect.message.latency": "Seconds from the message's first packet to its ack_frame",
    "ibdissect.message.retries": "Packets of the message that were sent again",
    "ibdissect.message.naks": "NAKs and RNR NAKs of the message",
    "ibdissect.message.cnps": "Congestion notifications during the message",
    "ibdissect.message.complete": "The capture has all of the message, and its acknowledgement or responses",
    "arp": "ARP", "icmp": "ICMP", "icmpv6": "ICMPv6", "tcp": "TCP",
    "smp": "A subnet management datagram", "opa": "An Omni-Path management datagram", "infiniband_link": "A link flow-control packet",
}  # fmt: skip


def _ethertype(number: int) -> Expr:
    types = (encapsulation.Ethernet.type, encapsulation.VLAN.type, encapsulation.SLL.type, encapsulation.SLL2.type, IPoIB.type)
    return Or(tuple(Compare("==", field, number) for field in types))


def _ip_protocol(number: int) -> Expr:
    fields = (encapsulation.IPv4.protocol, encapsulation.IPv6.next_header, ip.InnerIPv4.protocol, ip.InnerIPv6.next_header)
    return Or(tuple(Compare("==", field, number) for field in fields))


MARKS: Mapping[str, Expr] = {
    "arp": _ethertype(0x0806), "tcp": _ip_protocol(6),
    "icmp": Or((Compare("==", encapsulation.IPv4.protocol, 1), Compare("==", ip.InnerIPv4.protocol, 1))),
    "icmpv6": Or((Compare("==", encapsulation.IPv6.next_header, 58), Compare("==", ip.InnerIPv6.next_header, 58))),
    "smp": Or((Compare("==", MAD.mgmt_class, 0x01), Compare("==", MAD.mgmt_class, 0x81))),
    "opa": Compare("==", MAD.base_version, BASE_VERSION_OPA),
    "infiniband_link": Present(FlowControl),
}  # fmt: skip
"""Protocols without a declared structure, recognised by the fields that announce them."""

_WHOLE = frozenset({"erf", "eth", "vlan", "sll", "sll2", "ip", "ipv6", "udp"})
"""Keys of structures that are protocols in Wireshark: `contains` and `matches` search from them to the end of the frame."""


class Source(Record, frozen=True):
    name: str
    kind: Kind
    fields: tuple[Field[Any], ...] = ()
    structs: tuple[StructType, ...] = ()
    mark: Expr | None = None
    whole: bool = False
    numbers: Mapping[str, int] = MappingProxyType({})
    """Further names of values: attributes for MAD.attribute_id, without those that mean different numbers."""

    @property
    def values(self) -> dict[int, str]:
        """Value names of all fields together."""
        return {number: text for field in self.fields for number, text in (field.values or {}).items()}

    @property
    def limit(self) -> int:
        """Largest number accepted in a comparison: the maximum of the next larger integer type, as in Wireshark."""
        bits = max((field.bits for field in self.fields), default=32)
        return (1 << next(width for width in (8, 16, 24, 32, 64) if width >= bits)) - 1 if bits <= 64 else (1 << 64) - 1


def kind_of(field: Field[Any]) -> Kind:
    """The filter type of a declared field; reserved bits are numbers, integers of more than 64 bits are bytes."""
    kind = FIELD_KINDS[field.kind]
    return "bytes" if kind == "uint" and field.bits > 64 else kind


class Names:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        structs: dict[str, list[StructType]] = {}
        for struct in catalog.structs:
            for name in (f"{struct.prefix}.{struct.key}", *(_WHOLE & {struct.key})):
                structs.setdefault(name, []).append(struct)
        structs["sll"] = [encapsulation.SLL, encapsulation.SLL2]
        for name, inner in (("ip", ip.InnerIPv4), ("ipv6", ip.InnerIPv6), ("udp", ip.InnerUDP)):
            structs[name].append(inner)
        numbers: dict[str, set[int]] = {}
        for (_, number), found in catalog.attributes.items():
            for _, struct in found:
                numbers.setdefault(struct.__name__, set()).add(number)
        self.attributes = {name: next(iter(found)) for name, found in numbers.items() if len(found) == 1}
        self._structs = {name: tuple(found) for name, found in structs.items()}

    def find(self, word: str) -> Source | None:
        """The meaning of `word`; a leading dot only marks a name, and `infiniband.` may be omitted."""
        word = word.removeprefix(".")
        if not word or word.startswith("."):
            return None
        for name in (word, f"infiniband.{word}"):
            if name in COMPUTED or name.lower() in COMPUTED:  # tshark writes _ws.col.Info
                return Source(name.lower(), COMPUTED[name.lower()])
            fields = tuple(field for each in BOTH.get(name, (name,)) for field in self.catalog.names.get(each, ()))
            if fields:
                source = _of_fields(name, fields)
                return replace(source, numbers=self.attributes) if fields == (MAD.attribute_id,) else source
            if name in MARKS:
                return Source(name, "none", mark=MARKS[name])
            structs = self._structs.get(name)
            if structs:
                return Source(name, "bytes", structs=structs, whole=structs[0].key in _WHOLE)
        return None

    def named(self, word: str) -> Source:
        """The meaning of a name; raises FilterError with the nearest names if it has none."""
        found = self.find(word)
        if found is None:
            near = self.nearest(word)
            raise FilterError(word, f'there is no field "{word}"', hint=f"did you mean {' or '.join(near)}?" if near else "")
        return found

    def every(self) -> Iterator[str]:
        """All full names, each once."""
        keys = (f"{s.prefix}.{s.key}" if s.key not in _WHOLE else s.key for s in self.catalog.structs)
        yield from dict.fromkeys((*COMPUTED, *BOTH, *MARKS, *self.catalog.names, *keys))

    def label(self, name: str) -> str:
        if name in LABELS:
            return LABELS[name]
        source = self.find(name)
        if source is None:
            return ""
        if source.structs:
            doc = (source.structs[0].__doc__ or "").strip()
            return f"{source.structs[0].title}: {doc.splitlines()[0]}" if doc else source.structs[0].title
        return " or ".join(dict.fromkeys(field.label for field in source.fields))

    def nearest(self, word: str) -> list[str]:
        """Up to three known names similar to `word`."""
        word = word.strip(".")
        near = self.catalog.nearest(word)
        others = (*COMPUTED, *BOTH, *MARKS, *self._structs)
        import difflib

        near += [name for name in difflib.get_close_matches(word, others, 3, 0.6) if name not in near]
        return sorted(near, key=lambda name: -difflib.SequenceMatcher(None, name.removeprefix("infiniband."), word).ratio())[:3]


def _of_fields(name: str, fields: tuple[Field[Any], ...]) -> Source:
    kinds = {kind_of(field) for field in fields}
    if kinds == {"uint", "bool"}:
        return Source(name, "uint", fields)
    kind = kind_of(fields[0])
    return Source(name, kind, tuple(field for field in fields if kind_of(field) == kind))


@cache
def names_of(catalog: Catalog) -> Names:
    return Names(catalog)
