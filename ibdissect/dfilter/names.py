"""Names in display filters: declared fields, structures, and properties of the frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.dissect.named_values import MESSAGE, MESSAGE_KINDS
from ibdissect.errors import FilterError
from ibdissect.wire import encapsulation
from ibdissect.wire.catalog import BOTH, Catalog, StructType, is_plugin
from ibdissect.wire.expr import Compare, Expr, Or, Present
from ibdissect.wire.headers import FlowControl
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

HEADERS = ("lrh", "grh", "bth", "deth")
"""Headers whose fields are meant by the ends of their names."""
SHORT: Mapping[str, tuple[str, ...]] = {
    "nak": ("infiniband.aeth.syndrome.opcode", "infiniband.aeth.syndrome.error_code"),
    "rnr": ("infiniband.aeth.syndrome.opcode", "infiniband.aeth.syndrome.timer"), "name": ("ibdissect.node",),
}  # fmt: skip
"""Other words that people use for fields."""

COMPUTED: Mapping[str, tuple[Kind, str]] = {
    "frame": ("bytes", "All bytes of the frame"), "frame.marked": ("bool", "The frame is marked in the terminal UI"),
    "frame.number": ("uint", "Frame number, from 1"), "frame.len": ("uint", "Bytes on the wire"),
    "frame.cap_len": ("uint", "Captured bytes"), "frame.interface_id": ("uint", "Capture interface"),
    "frame.time": ("abstime", "Date and time"), "frame.time_epoch": ("abstime", "Seconds since 1970"),
    "frame.time_relative": ("reltime", "Seconds since the first frame"), "frame.time_delta": ("reltime", "Seconds since the frame before"),
    "frame.comment": ("string", "Comment of the packet in a pcapng"),
    "frame.interface_name": ("string", "Name of the capture interface in a pcapng"),
    "_ws.col.source": ("string", "Source, as in the list of frames"),
    "_ws.col.destination": ("string", "Destination, as in the list of frames"),
    "_ws.col.protocol": ("string", "Protocol, as in the list of frames"),
    "_ws.col.info": ("string", "What the frame is, as in the list of frames"),
    "infiniband": ("bytes", "An InfiniBand or RoCE packet"),
    "infiniband.payload": ("bytes", "Bytes after the transport headers, except MADs"),
    "tcp.srcport": ("uint", "Source port"), "tcp.dstport": ("uint", "Destination port"), "tcp.port": ("uint", "Source or destination port"),
    "_ws.malformed": ("none", "The frame is malformed"), "ibdissect.code": ("string", "Code of a finding in the frame"),
    "ibdissect.rule": ("string", "Name of the rule of a finding in the frame"),
    "ibdissect.severity": ("string", "Severity of a finding in the frame: error, warning or info"),
    "ibdissect.request_frame": ("uint", "Frame of the request that this frame answers"),
    "ibdissect.response_frame": ("uint", "Frame of the answer to this request"),
    "ibdissect.response_time": ("reltime", "Seconds from the request (its latest try) to this answer"),
    "ibdissect.node": ("string", "Name of the node, or of its port, that sent the packet, or that it went to"),
    "ibdissect.src.node": ("string", "Name of the node, or of its port, that sent the packet: by LID, GID, address or directed route"),
    "ibdissect.dst.node": ("string", "Name of the node, or of its port, that the packet went to: by LID, GID, address or directed route"),
    f"{MESSAGE}ack_frame": ("uint", "Frame that completed the message: its acknowledgement or last response"),
    f"{MESSAGE}bytes": ("uint", "Bytes of the message, without repetitions"),
    f"{MESSAGE}cnps": ("uint", "Congestion notifications during the message"),
    f"{MESSAGE}complete": ("bool", "The capture has all of the message, and its acknowledgement or responses"),
    f"{MESSAGE}first_frame": ("uint", "First frame of the message"),
    f"{MESSAGE}kind": ("string", "What message the frame belongs to: " + ", ".join(MESSAGE_KINDS)),
    f"{MESSAGE}last_frame": ("uint", "Last frame of the message"),
    f"{MESSAGE}latency": ("reltime", "Seconds from the message's first packet to its ack_frame"),
    f"{MESSAGE}naks": ("uint", "NAKs and RNR NAKs of the message"), f"{MESSAGE}packets": ("uint", "Packets of the message, both ways"),
    f"{MESSAGE}retries": ("uint", "Packets of the message that were sent again"),
}  # fmt: skip
"""Names whose values come from `computed.values_of`: kind, and what they are."""
_ETHERTYPES = (encapsulation.Ethernet.type, encapsulation.VLAN.type, encapsulation.SLL.type, encapsulation.SLL2.type, IPoIB.type)
_PROTOCOL4 = encapsulation.IPv4.protocol, ip.InnerIPv4.protocol
_PROTOCOL6 = encapsulation.IPv6.next_header, ip.InnerIPv6.next_header


def _any_is(number: int, *fields: Field[int]) -> Expr:
    return Or(tuple(Compare("==", field, number) for field in fields))


MARKS: Mapping[str, tuple[Expr, str]] = {
    "arp": (_any_is(encapsulation.ETHERTYPE_ARP, *_ETHERTYPES), "ARP"),
    "tcp": (_any_is(encapsulation.PROTOCOL_TCP, *_PROTOCOL4, *_PROTOCOL6), "TCP"),
    "icmp": (_any_is(encapsulation.PROTOCOL_ICMP, *_PROTOCOL4), "ICMP"),
    "icmpv6": (_any_is(encapsulation.PROTOCOL_ICMPV6, *_PROTOCOL6), "ICMPv6"),
    "smp": (Or((Compare("==", MAD.mgmt_class, 0x01), Compare("==", MAD.mgmt_class, 0x81))), "A subnet management datagram"),
    "opa": (Compare("==", MAD.base_version, BASE_VERSION_OPA), "An Omni-Path management datagram"),
    "infiniband_link": (Present(FlowControl), "A link flow-control packet"),
}  # fmt: skip
"""Protocols without a declared structure: the fields that announce them, and what they are."""

WHOLE = frozenset({"erf", "eth", "vlan", "sll", "sll2", "ip", "ipv6", "udp", "vxlan", "geneve", "gre", "mpls"})
"""Keys of structures that are protocols in Wireshark: `contains` and `matches` search from them to the end of the frame."""

_OF_PROTOCOL: dict[StructType, str] = {
    ip.InnerIPv4: "ip", ip.InnerIPv6: "ipv6", ip.InnerUDP: "udp", encapsulation.VXLANGPE: "vxlan", encapsulation.ERSPAN2: "erspan",
    encapsulation.ERSPAN3: "erspan", **encapsulation.AROUND_TUNNELS,
}  # fmt: skip
"""Structures that count as a protocol of another name, too."""


class NameSource(Record, frozen=True):
    """What a name means, and where its values come from: fields, structures, a condition (`mark`), or `frame_properties`."""

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
    kind: Kind = "string" if field.is_text else FIELD_KINDS[field.kind]
    return "bytes" if kind == "uint" and field.bits > 64 else kind


class FilterNames:
    """All names of a catalog that a display filter may use: get it with `names_of`."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        structs: dict[str, list[StructType]] = {}
        for struct in catalog.structs:
            if struct in catalog.tail_parts:
                continue  # the structure that ends with it has the name
            for name in (f"{struct.prefix}.{struct.key}", *(WHOLE & {struct.key})):
                structs.setdefault(name, []).append(struct)
        structs["sll"] = [encapsulation.SLL, encapsulation.SLL2]
        for struct, name in _OF_PROTOCOL.items():
            structs.setdefault(name, []).append(struct)
        numbers: dict[str, set[int]] = {}
        for (_, number), found in catalog.attributes.items():
            for _, struct in found:
                numbers.setdefault(struct.__name__, set()).add(number)
        self.attributes = {name: next(iter(found)) for name, found in numbers.items() if len(found) == 1}
        self._structs = {name: tuple(found) for name, found in structs.items()}
        carried: dict[str, list[Expr]] = {}
        for struct in catalog.structs:
            if is_plugin(struct) and struct.carried_by and struct not in catalog.tail_parts:
                carried.setdefault(struct.prefix, []).append(Present(struct))
        self.prefixes = {prefix: Or(tuple(found)) for prefix, found in carried.items()}
        """The protocols of plugins, by the prefix of their structures: any of these is in the frame."""

    def find(self, word: str) -> NameSource | None:
        """The meaning of `word`; a leading dot only marks a name, and `infiniband.` may be omitted."""
        word = word.removeprefix(".")
        if not word or word.startswith("."):
            return None
        for name in (word, f"infiniband.{word}"):
            if name in COMPUTED or name.lower() in COMPUTED:  # tshark writes _ws.col.Info
                return NameSource(name.lower(), COMPUTED[name.lower()][0])
            fields = tuple(field for each in BOTH.get(name, (name,)) for field in self.catalog.names.get(each, ()))
            if fields:
                source = _of_fields(name, fields)
                return replace(source, numbers=self.attributes) if fields == (MAD.attribute_id,) else source
            if name in MARKS:
                return NameSource(name, "none", mark=MARKS[name][0])
            structs = self._structs.get(name)
            if structs:
                return NameSource(name, "bytes", structs=structs, whole=structs[0].key in WHOLE)
            if name in self.prefixes:
                return NameSource(name, "none", mark=self.prefixes[name])
        return None

    def named(self, word: str) -> NameSource:
        """The meaning of a name; raises FilterError with the nearest names if it has none."""
        found = self.find(word)
        if found is None:
            near = self.nearest(word)
            raise FilterError(word, f'there is no field "{word}"', hint=f"did you mean {' or '.join(near)}?" if near else "")
        return found

    def every(self) -> Iterator[str]:
        """All full names, each once."""
        keys = (f"{s.prefix}.{s.key}" if s.key not in WHOLE else s.key for s in self.catalog.structs)
        yield from dict.fromkeys((*COMPUTED, *BOTH, *MARKS, *self.catalog.names, *keys))

    def label(self, name: str) -> str:
        """What a name means, in a few words; empty if it is unknown."""
        if name in COMPUTED or name in MARKS:
            return (COMPUTED.get(name) or MARKS[name])[1]
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
        if common := self._common(word):
            return common
        near = self.catalog.nearest(word)
        others = (*COMPUTED, *BOTH, *MARKS, *self._structs)
        import difflib

        near += [name for name in difflib.get_close_matches(word, others, 3, 0.6) if name not in near]
        return sorted(near, key=lambda name: -difflib.SequenceMatcher(None, name.removeprefix("infiniband."), word).ratio())[:3]

    def _common(self, word: str) -> list[str]:
        """Fields of packet headers that a short word stands for: `lid`, `qp`, `p_key`."""
        short = word.lower().replace("_", "")
        if short in SHORT:
            return [*SHORT[short]]
        fields = (f"infiniband.{header}" for header in HEADERS)
        return [
            name for header in fields for name in self.catalog.names
            if name.startswith(f"{header}.") and short and name.removeprefix(f"{header}.").replace("_", "").endswith(short)
        ][:3]  # fmt: skip


def _of_fields(name: str, fields: tuple[Field[Any], ...]) -> NameSource:
    kinds = {kind_of(field) for field in fields}
    if kinds == {"uint", "bool"}:
        return NameSource(name, "uint", fields)
    kind = kind_of(fields[0])
    return NameSource(name, kind, tuple(field for field in fields if kind_of(field) == kind))


@cache
def names_of(catalog: Catalog) -> FilterNames:
    """The names of a catalog, made once."""
    return FilterNames(catalog)
