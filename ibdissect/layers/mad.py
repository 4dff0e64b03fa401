"""MADs in Scapy: the class format as one layer, the attribute as its payload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from scapy.config import conf
from scapy.fields import ConditionalField
from scapy.packet import NoPayload, Packet, Padding

from ibdissect.wire import mad, numbers
from ibdissect.wire.cut import number_of
from ibdissect.wire.places import Mad, MadFormat, VendorOui
from ibdissect.wire.spec import Field, Struct, field_named

from .derive import MAKERS, Layer, StructType, layer, make
from .fields import scapy_field, scapy_fields
from .registry import attribute_of, catalog, format_of

_COMPUTED = dict.fromkeys(("base_version", "mgmt_class", "class_version", "method", "attribute_id"))
_VENDOR = range(0x30, 0x50)


CM_ANSWERS = {0x10: (0x11, 0x12, 0x13), 0x13: (0x11, 0x12, 0x14), 0x15: (0x16,), 0x17: (0x18,), 0x19: (0x11, 0x1A)}
"""Attributes of connection management that answer another: REQ by MRA, REJ and REP, and so on (IBA 12.6)."""


def _same_connection(answer: Packet, request: Packet) -> bool:
    """Whether the ids in two messages of connection management agree, as far as they have any."""
    mine = getattr(answer.payload, "remote_communication_id", None)
    return mine is None or mine == getattr(request.payload, "local_communication_id", mine)


class MadLayer(Layer):
    """A whole MAD, with the attribute as payload. Header fields that are None are computed from the attribute.

    Fields after the attribute on the wire (the paths of a directed-route SMP) belong to this layer.
    """

    match_subclass = True  # pkt[MadLayer] is the MAD, whatever its class
    classes: ClassVar[tuple[int, ...]] = ()
    """Management classes with this format; the first is the default."""
    version: ClassVar[int] = mad.BASE_VERSION_IB
    hole: ClassVar[tuple[int, int | None]] = (mad.MAD.size, None)
    """Start and end of the attribute in bytes (end None: up to the end of the MAD)."""
    early: ClassVar[dict[int, int]] = {}
    """Attributes that start elsewhere: attribute id -> offset."""

    def haslayer(self, cls: Any, _subclass: bool | None = None) -> Any:
        """`MAD in pkt` holds for every MAD, whatever its class."""
        return super().haslayer(MadLayer if cls is MAD else cls, _subclass)

    def getlayer(self, cls: Any, *args: Any, **kargs: Any) -> Any:
        """`pkt[MAD]` is the MAD, whatever its class."""
        return super().getlayer(MadLayer if cls is MAD else cls, *args, **kargs)

    def hashret(self) -> bytes:
        """Equal for a request and its answer: class and transaction."""
        return bytes([self.place()[0]]) + int(self.transaction_id or 0).to_bytes(8, "big")

    def answers(self, other: Packet) -> bool:
        """Whether it answers another MAD: of the same class, attribute and transaction, with the method that answers the other's."""
        if not isinstance(other, MadLayer) or self.hashret() != other.hashret():
            return False
        if self.mgmt_class == numbers.CM_CLASS:
            return self.attribute_id in CM_ANSWERS.get(other.attribute_id, ()) and _same_connection(self, other)
        asked = mad.is_response(other.method, other.attribute_modifier, other.mgmt_class)
        return not asked and self.method in mad.RESPONSE_OF.get(other.method, ()) and self.attribute_id == other.attribute_id

    def place(self) -> tuple[int, int, Mad | VendorOui | None]:
        """Class and attribute id, taken from the payload's place if not set, and that place."""
        mgmt_class, attr_id = self.getfieldval("mgmt_class"), self.getfieldval("attribute_id")
        chosen = None
        for place in self.payload.declared.carried_by if isinstance(self.payload, Layer) else ():
            if not isinstance(place, (Mad, VendorOui)) or (self.classes and place.mgmt_class not in self.classes):
                continue
            if mgmt_class in (None, place.mgmt_class) and attr_id in (None, place.attr_id):
                chosen = place
                break
        if mgmt_class is None:
            mgmt_class = chosen.mgmt_class if chosen is not None else next(iter(self.classes), 0)
        if attr_id is None:
            attr_id = (chosen.attr_id if chosen is not None else 0) or 0
        return mgmt_class, attr_id, chosen

    def start(self) -> int:
        """Offset of the attribute."""
        return self.early.get(self.place()[1], self.hole[0])

    def pre_dissect(self, s: bytes) -> bytes:
        s = super().pre_dissect(s)
        start, end = self.early.get(number_of(s, mad.MAD.attribute_id), self.hole[0]), self.hole[1]
        size = self.declared.size
        return s if end is None else s[:start] + s[end:size] + s[start:end] + s[size:]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The attribute's layer if it is known, fits, and is not in a later RMPP segment."""
        room = self.room(len(payload))
        version = _version(self.base_version)
        found = attribute_of(self.mgmt_class, self.attribute_id, version, self.method, self.fields.get("oui")) if room else None
        if found is not None and found.size <= room:
            return layer(found)
        return conf.raw_layer if not room else super().guess_payload_class(payload)

    def room(self, size: int) -> int:
        """How many of `size` bytes after the headers may be an attribute: 0 in later RMPP segments and failed responses, but SA's."""
        rmpp, mgmt_class = self.fields.get("rmpp"), self.mgmt_class
        if rmpp is None:
            return size
        used = rmpp.rmpp_type <= numbers.DATA or rmpp.rmpp_flags & 1  # as `decode.ignored_data.segment` has it
        segmented = rmpp.rmpp_type and used and (mgmt_class != numbers.DM_CLASS or rmpp.rmpp_version)
        if segmented and (rmpp.rmpp_type != numbers.DATA or rmpp.data1 != 1):
            return 0
        if mgmt_class not in mad.RMPP_CLASSES or mgmt_class in _VENDOR:
            return size
        if self.method & numbers.RESPONSE_BIT and self.status & numbers.NO_DATA:
            if mgmt_class != numbers.SA_CLASS:  # an SA answer repeats the request's record
                return 0
        elif mgmt_class == numbers.SA_CLASS and self.method in numbers.TABLE_RESPONSES and not self.attribute_offset:
            return 0
        data = rmpp.data2 - (self.hole[0] - mad.MAD.size - mad.RMPP.size)
        return max(data, 0) if segmented and rmpp.rmpp_flags & numbers.LAST_SEGMENT and data <= size else size

    def do_dissect_payload(self, s: bytes) -> None:
        """Drop zero padding at the end of the MAD; building adds it again."""
        end = self.hole[1]
        if end is not None and len(s) == end - self.start():
            found = self.guess_payload_class(s)
            if issubclass(found, Layer) and found.declared.fields[-1].kind != "rest" and not any(s[found.declared.size :]):
                s = s[: found.declared.size]
        super().do_dissect_payload(s)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        built, end = self.completed(pkt), self.hole[1]
        if end is None:
            return built + pay
        start = self.start()
        room = end - start
        return built[:start] + pay[:room].ljust(room, b"\0") + built[start:] + pay[room:]

    def completed(self, header: bytes) -> bytes:
        """The layer's own bytes with the computed fields filled in."""
        mgmt_class, attr_id, place = self.place()
        version = self.getfieldval("base_version")
        if version is None:
            version = place.base_version if isinstance(place, Mad) else self.version
        methods = place.methods if isinstance(place, Mad) else None
        opa_smp = version == mad.BASE_VERSION_OPA and mgmt_class in numbers.SMP_CLASSES
        default = {
            "base_version": version,
            "mgmt_class": mgmt_class,
            "class_version": mad.BASE_VERSION_OPA if opa_smp else mad.CLASS_VERSION.get(mgmt_class, 1),
            "method": min(methods) if methods else numbers.SEND if mgmt_class == numbers.CM_CLASS else numbers.GET,
            "attribute_id": attr_id,
        }
        built = bytearray(header)
        for name, value in default.items():
            if self.getfieldval(name) is None:
                low, high = getattr(mad.MAD, name).span
                built[low:high] = value.to_bytes(high - low, "big")
        oui = field_named(self.declared, "oui")
        if isinstance(place, VendorOui) and oui is not None and self.fields.get("oui") is None and "oui" in self.default_fields:
            low, high = oui.span
            built[low:high] = place.oui.to_bytes(high - low, "big")
        return bytes(built)


class _Bare(MadLayer):
    """A MAD of a class without its own format, or a truncated one: the common header, then data."""

    def full(self) -> int:
        return mad.MAD_SIZE[_version(self.getfieldval("base_version"))]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        if mad.MAD.size + len(payload) < self.full():
            return conf.raw_layer
        return super().guess_payload_class(payload)

    def do_dissect_payload(self, s: bytes) -> None:
        if not s:  # an empty Raw payload prevents padding when a bare header is built
            self.add_payload(conf.raw_layer(b""))
            return
        found = self.guess_payload_class(s)
        if issubclass(found, Layer) and mad.MAD.size + len(s) == self.full() and not any(s[found.declared.size :]):
            s = s[: found.declared.size]
        super().do_dissect_payload(s)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Pad an attribute, or no payload, to a whole MAD; raw bytes are not padded."""
        built = self.completed(pkt) + pay
        filled = isinstance(self.payload, (Layer, NoPayload, Padding))
        return built.ljust(self.full(), b"\0") if filled else built


def _format_fields(struct: StructType) -> Iterator[tuple[Field[Any], bool]]:
    """Fields of a class format, with those of the common header in place of its hole; True for the common header's."""
    for field in struct.fields:
        if field.kind == "hole" and field.bit + field.bits <= mad.MAD.size * 8:
            inside = (h for h in mad.MAD.fields if field.bit <= h.bit and h.bit + h.bits <= field.bit + field.bits)
            yield from ((header, True) for header in inside)
        elif field.name != "data":
            yield field, False


def _early_starts(places: Iterable[MadFormat]) -> dict[int, int]:
    found = {}
    for place in places:
        for candidates in catalog().attributes.values():
            for mad_place, _ in candidates:
                if mad_place.data_at is not None and mad_place.mgmt_class in place.classes and mad_place.base_version == place.base_version:
                    found[mad_place.attr_id] = mad_place.data_at
    return found


def _late(pkt: Any) -> bool:
    start: int = pkt.start()
    first: int = pkt.hole[0]
    return start == first


def make_format(struct: type[Struct]) -> type[Layer]:
    places = [place for place in struct.carried_by if isinstance(place, MadFormat)]
    data = field_named(struct, "data")
    first = data.bit // 8 if data is not None else struct.size
    end = None if data is None or data.kind == "rest" else first + data.bits // 8
    early = _early_starts(places)
    sources = list(_format_fields(struct))
    taken = {field.name for field, common in sources if not common}
    fields = []
    for field, common in sources:
        if field.part_of is not None:
            continue
        default = None if (common and field.name in _COMPUTED) or field.name == "oui" else 0
        made = scapy_field(field, layer, default)
        if common and made.name in taken:
            made.name = f"mad_{made.name}"
        if any(start <= field.bit // 8 < first for start in early.values()):
            made = ConditionalField(made, _late)
        fields.append(made)
    return make(
        struct,
        MadLayer,
        fields=fields,
        sources=tuple(field for field, _ in sources),
        classes=tuple(sorted(number for place in places for number in place.classes)),
        version=places[0].base_version,
        hole=(first, end),
        early=early,
    )


MAKERS[MadFormat] = make_format
MAD = make(mad.MAD, _Bare, fields=scapy_fields(mad.MAD.fields, layer, _COMPUTED))


def _version(base_version: int) -> int:
    """The Omni-Path base version, or InfiniBand's for any other value."""
    return mad.BASE_VERSION_OPA if base_version == mad.BASE_VERSION_OPA else mad.BASE_VERSION_IB


def mad_class(s: bytes) -> type[Packet]:
    """The layer of the MAD at the start of `s`: its class format, the common header if that does not fit, else Raw."""
    if len(s) < mad.MAD.size:
        return conf.raw_layer
    form = format_of(number_of(s, mad.MAD.mgmt_class), _version(number_of(s, mad.MAD.base_version)))
    return layer(form) if form is not None and form.size <= len(s) else MAD
