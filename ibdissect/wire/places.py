"""Where a structure is found on the wire: the words a `carried_by` may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ibdissect.record import record

from .spec import Field


@record(eq=True)
class MadFormat:
    """The class-specific form of a whole MAD (from byte 0); its field named `data` is where the attribute lies."""

    classes: frozenset[int]
    base_version: int
    """1 for InfiniBand, 0x80 for Omni-Path."""

    def __init__(self, *classes: int, base_version: int = 1) -> None:
        object.__setattr__(self, "classes", frozenset(classes))
        object.__setattr__(self, "base_version", base_version)


@record(eq=True)
class Mad:
    """An attribute of a management class, in the `data` of the class's format. `methods`: only with these, None for all."""

    mgmt_class: int
    attr_id: int
    methods: frozenset[int] | None = None
    base_version: int = 1
    """1 for InfiniBand, 0x80 for Omni-Path."""
    data_at: int | None = None
    """Byte of the MAD where the attribute starts, where it differs from the class's format (CongestionLog: 32)."""


@record(eq=True)
class Inside:
    """In the bytes of a field of another structure, when all conditions hold: ((field, values), ...)."""

    field: Field[Any]
    when: tuple[tuple[Field[int], frozenset[int]], ...] = ()
    skip: tuple[Field[int], int, int] | None = None
    """(field, unit, add): the structure starts `value * unit + add` bytes into `field`, as behind a header with options."""


@record(eq=True)
class Behind:
    """Right behind a header whose length one of its fields tells, when all conditions hold; up to the end of the frame."""

    length: tuple[Field[int], int, int]
    """(field, unit, add): the header is `value * unit + add` bytes long."""
    when: tuple[tuple[Field[int], frozenset[int]], ...] = ()


@record(eq=True)
class Parsed:
    """Where a function finds it in the bytes of a field: formats whose layout depends on what they hold (lists, TLVs, text).

    `find` gets the bytes and yields where the structure starts, or (start, stop) when it ends with `rest`; whatever does not
    fit into the bytes is left out.
    """

    field: Field[Any]
    find: Callable[[bytes], Iterable[int | tuple[int, int]]]
    when: tuple[tuple[Field[int], frozenset[int]], ...] = ()
    """As in `Inside`."""
    whole: bool = False
    """`find` gets the bytes from the start of the structure that the field is the end of, and counts from there."""


@record(eq=True)
class SaPiece:
    """The bytes of an RMPP segment of subnet administration that belong to a record which the segment does not hold whole."""


@record(eq=True)
class VendorOui:
    """The data of a vendor-class (0x30-0x4F) MAD whose OUI is `oui`; `attr_id` None means every attribute."""

    oui: int
    mgmt_class: int
    attr_id: int | None = None


@record(eq=True)
class UdpPort:
    """The payload of UDP datagrams to (or from) a port."""

    port: int


@record(eq=True)
class Ethertype:
    """The payload of Ethernet, RWH or IPoIB frames with this type."""

    ethertype: int


@record(eq=True)
class DestQP:
    """The payload of transport packets to this queue pair number."""

    qp: int


@record(eq=True)
class QKey:
    """The payload of UD packets that carry this Q_Key."""

    q_key: int


@record(eq=True)
class CmService:
    """The private data of a CM message about a service whose id agrees with `service_id` in the bits of `mask`."""

    service_id: int
    mask: int = (1 << 64) - 1
    messages: frozenset[int] = frozenset({0x0010, 0x0017})
    """Attribute ids of the messages: REQ and SIDR_REQ name their service, any other is known by the connection it belongs to."""
    named: str = ""
    """Instead of an id: services whose name begins so, as an I/O controller lists them (SRP)."""


@record(eq=True)
class CmPayload:
    """The first bytes of a message (SEND) on a connection that was set up for a service, or to the queue pair of a datagram service.

    Only of connections whose REQ the capture holds: a payload is never guessed.
    """

    service_id: int
    mask: int = (1 << 64) - 1
    toward: str = ""
    """`passive`: only messages to the side that listened, `active`: only to the side that asked."""
    starts: tuple[int, int] | None = None
    """(mask, value) of the first byte, for services whose messages say there what they are."""
    named: str = ""
    """As in `CmService`."""


def smp(attr_id: int) -> tuple[Mad, Mad]:
    """An SM attribute, in LID-routed and in directed-route SMPs."""
    return Mad(0x01, attr_id), Mad(0x81, attr_id)
