"""Places of structures on the wire, for `carried_by`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, cast

from msgspec import Struct as Record
from msgspec.structs import force_setattr

from .spec import Field


class Place:
    """Base of all places. A new kind needs a subclass here and a finder in `decode.payloads.FINDERS`."""

    __slots__ = ()
    in_mads: ClassVar[bool] = False
    """Whether `scrub` treats the structure as management data; otherwise it is payload and dropped."""
    shared: ClassVar[bool] = False
    """Whether structures of several files may use the same place."""

    def __post_init__(self) -> None:
        """Let authors write sets and lists: places are keys."""
        for name in getattr(self, "__struct_fields__", ()):
            if type(value := getattr(self, name)) in (set, list, tuple):
                force_setattr(cast("Record", self), name, _fixed(value))


def _fixed(value: Any) -> Any:
    """The same without sets and lists, which cannot be keys."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_fixed, value))
    return frozenset(value) if isinstance(value, set) else value


class MadFormat(Place):
    """The class-specific format of a whole MAD (from byte 0); its field named `data` locates the attribute."""

    __slots__ = ("base_version", "classes", "unclaimed")
    in_mads = True

    def __init__(self, *classes: int, base_version: int = 1, unclaimed: bool = False) -> None:
        """`base_version`: 1 for InfiniBand, 0x80 for Omni-Path. `unclaimed`: only of MADs whose attribute no structure claims."""
        self.classes, self.base_version, self.unclaimed = frozenset(classes), base_version, unclaimed


class Mad(Place, Record, frozen=True):
    """An attribute of a management class, in the `data` of the class format. `methods`: only with these; None for all."""

    in_mads = True
    mgmt_class: int
    attr_id: int
    methods: Collection[int] | None = None
    base_version: int = 1
    """1 for InfiniBand, 0x80 for Omni-Path."""
    data_at: int | None = None
    """Offset of the attribute in the MAD, if it differs from the class format (CongestionLog: 32)."""

    def takes(self, method: int, base_version: int) -> bool:
        """Whether the attribute is in MADs with this method."""
        return base_version == self.base_version and (self.methods is None or method in self.methods)


class Inside(Place, Record, frozen=True):
    """In the bytes of a field of another structure, if all conditions ((field, values), ...) hold."""

    field: Field[Any]
    when: tuple[tuple[Field[Any], Collection[int]], ...] = ()
    skip: tuple[Field[int], int, int] | None = None
    """(field, unit, add): the structure starts `value * unit + add` bytes into `field`, for example after a header with options."""
    modifier: tuple[int, int] | None = None
    """(mask, value): only in MADs with this attribute modifier."""
    at: int = 0
    """It starts so many bytes into `field`."""


class Behind(Place, Record, frozen=True):
    """Directly after a header whose length is given by one of its fields, up to the end of the frame, if all conditions hold."""

    shared = True
    length: tuple[Field[int], int, int]
    """(field, unit, add): the header is `value * unit + add` bytes long."""
    when: tuple[tuple[Field[int], frozenset[int]], ...] = ()


class Parsed(Place, Record, frozen=True):
    """Where a function finds it in the bytes of a field, for formats of variable layout (lists, TLVs, text).

    `find` gets the bytes and yields each start of the structure, or (start, stop) if it ends with `rest`; results that do not
    fit into the bytes are dropped.
    """

    shared = True
    field: Field[Any]
    find: Callable[[bytes], Iterable[int | tuple[int, int]]]
    when: tuple[tuple[Field[int], frozenset[int]], ...] = ()
    """As in `Inside`."""
    whole: bool = False
    """Whether `find` gets the bytes from the start of the structure, which must end with the field, and counts from there."""


class SaPiece(Place, Record, frozen=True):
    """The bytes of an SA RMPP segment that belong to a record which is not whole in the segment."""

    shared = True


class VendorOui(Place, Record, frozen=True):
    """The data of a vendor-class (0x30-0x4F) MAD with OUI `oui`; `attr_id` None: every attribute.

    What comes in several RMPP segments is put together, and belongs to the frame that completes it.
    """

    in_mads = True
    oui: int
    mgmt_class: int
    attr_id: int | None = None
    methods: Collection[int] | None = None
    """Only in MADs with these methods, such as {0x81}: a Get carries no data. None for all."""

    def takes(self, mgmt_class: int, attr_id: int, oui: int | None, method: int) -> bool:
        """Whether it is in MADs of this class and vendor with this method."""
        same = (self.oui, self.mgmt_class) == (oui, mgmt_class) and self.attr_id in (None, attr_id)
        return same and (self.methods is None or method in self.methods)


class UdpPort(Place, Record, frozen=True):
    """The payload of UDP datagrams to or from a port."""

    port: int


class TcpData(Place, Record, frozen=True):
    """The data of TCP segments that begin with these bytes."""

    start: bytes


class TcpPort(Place, Record, frozen=True):
    """The data of TCP segments to or from a port; in a `Stream`, the bytes of the connections, from their SYN on."""

    port: int


class Ethertype(Place, Record, frozen=True):
    """The payload of Ethernet, RWH or IPoIB frames with this type."""

    ethertype: int


class DestQP(Place, Record, frozen=True):
    """The payload of transport packets to this queue pair number."""

    qp: int


class QKey(Place, Record, frozen=True):
    """The payload of UD packets with this Q_Key."""

    q_key: int


class CmService(Place, Record, frozen=True):
    """The private data of a CM message about a service whose id equals `service_id` in the bits of `mask`."""

    service_id: int
    mask: int = (1 << 64) - 1
    messages: Collection[int] = frozenset({0x0010, 0x0017})
    """Attribute ids of the messages. REQ and SIDR_REQ contain the service id; for others it is that of their connection."""
    named: str = ""
    """Instead of an id: services whose name, as listed by an I/O controller, starts with this text (SRP)."""
    starts: tuple[bytes, bytes] | None = None
    """(mask, value): only private data that begins so, for protocols that use any service id."""


class CmWrite(Place, Record, frozen=True):
    """The data of an RDMA WRITE Only with Immediate on a connection to a service whose id equals `service_id` in the bits of `mask`, if
    its immediate data equals `value` in the bits of `which`."""

    service_id: int
    mask: int
    which: int
    value: int


class CmPayload(Place, Record, frozen=True):
    """The first packet of a message (SEND) on a connection to a service, or to the queue pair of a datagram service.

    Only for connections whose REQ is in the capture: payloads are never guessed.
    """

    service_id: int
    mask: int = (1 << 64) - 1
    toward: str = ""
    """`passive`: only messages to the listening side; `active`: only to the requesting side."""
    starts: tuple[int, int] | None = None
    """(mask, value) of the first byte, for services whose messages have their type there."""
    named: str = ""
    """As in `CmService`."""


class Stream(Place, Record, frozen=True):
    """PDUs of a stream of bytes: one may lie in several messages, several in one. It belongs to the frame that completes it.

    Only in order and without a gap from the beginning of the connection on: a PDU is never guessed.
    """

    over: CmPayload | TcpPort
    """The messages, or TCP connections, whose bytes, one after the other in each direction, are the stream."""
    length: object
    """Bytes of a whole PDU: a field of the structure, or arithmetic on its fields (`length + 8`). `carried_by` follows the fields then."""


def smp(attr_id: int) -> tuple[Mad, ...]:
    """An SM attribute in LID-routed and in directed-route SMPs."""
    return Mad(0x01, attr_id), Mad(0x81, attr_id)
