"""Where a structure is found on the wire: the words a `carried_by` may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .spec import Field


@dataclass(frozen=True, slots=True)
class MadFormat:
    """The class-specific form of a whole MAD (from byte 0); its field named `data` is where the attribute lies."""

    classes: frozenset[int]
    base_version: int
    """1 for InfiniBand, 0x80 for Omni-Path."""

    def __init__(self, *classes: int, base_version: int = 1) -> None:
        object.__setattr__(self, "classes", frozenset(classes))
        object.__setattr__(self, "base_version", base_version)


@dataclass(frozen=True, slots=True)
class Mad:
    """An attribute of a management class, in the `data` of the class's format. `methods`: only with these, None for all."""

    mgmt_class: int
    attr_id: int
    methods: frozenset[int] | None = None
    base_version: int = 1
    """1 for InfiniBand, 0x80 for Omni-Path."""
    data_at: int | None = None
    """Byte of the MAD where the attribute starts, where it differs from the class's format (CongestionLog: 32)."""


@dataclass(frozen=True, slots=True)
class Inside:
    """In the bytes of a field of another structure, when all conditions hold: ((field, values), ...)."""

    field: Field[Any]
    when: tuple[tuple[Field[int], frozenset[int]], ...] = ()


@dataclass(frozen=True, slots=True)
class SaPiece:
    """The bytes of an RMPP segment of subnet administration that belong to a record which the segment does not hold whole."""


@dataclass(frozen=True, slots=True)
class VendorOui:
    """The data of a vendor-class (0x30-0x4F) MAD whose OUI is `oui`; `attr_id` None means every attribute."""

    oui: int
    mgmt_class: int
    attr_id: int | None = None


@dataclass(frozen=True, slots=True)
class UdpPort:
    """The payload of UDP datagrams to (or from) a port."""

    port: int


@dataclass(frozen=True, slots=True)
class Ethertype:
    """The payload of Ethernet, RWH or IPoIB frames with this type."""

    ethertype: int


@dataclass(frozen=True, slots=True)
class DestQP:
    """The payload of transport packets to this queue pair number."""

    qp: int


@dataclass(frozen=True, slots=True)
class QKey:
    """The payload of UD packets that carry this Q_Key."""

    q_key: int


@dataclass(frozen=True, slots=True)
class CmService:
    """The private data of a CM message about a service whose id agrees with `service_id` in the bits of `mask`."""

    service_id: int
    mask: int = (1 << 64) - 1
    messages: frozenset[int] = frozenset({0x0010, 0x0017})
    """Attribute ids of the messages: REQ and SIDR_REQ name their service, any other is known by the connection it belongs to."""


def smp(attr_id: int) -> tuple[Mad, Mad]:
    """An SM attribute, in LID-routed and in directed-route SMPs."""
    return Mad(0x01, attr_id), Mad(0x81, attr_id)
