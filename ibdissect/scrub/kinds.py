"""Scrubbing by kind of field: an identity, a key, text, user data, or a number that may stay."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

from ibdissect.decode.find_structures import HEADERS
from ibdissect.decode.locate import EXTENDED_STRUCTS
from ibdissect.wire import headers, mad
from ibdissect.wire.catalog import Catalog, StructType, is_foreign
from ibdissect.wire.places import Inside, Parsed, Place
from ibdissect.wire.spec import Field
from ibdissect.wire.tail import Laid


class ScrubKind(StrEnum):
    """How a field is scrubbed. Names of identities are those of `wire.spec.HOLDS`."""

    KEEP = auto()
    """Stays unchanged."""
    DROP = auto()
    """Becomes zero: user data and undeclared bytes; checksums, unless they can be computed again (`checksums.seal`)."""
    MARK = auto()
    """Zero stays zero, anything else becomes one: rules check whether reserved bits are set, not their value."""
    KEY = auto()
    TEXT = auto()
    GUID = auto()
    PREFIX = auto()
    GID = auto()
    LID = auto()
    QPN = auto()
    IP4 = auto()
    MAC = auto()
    SERVICE = auto()
    """Of connection management: a GUID, a number that holds a QPN, or one of a protocol, which stays."""
    NETWORK = auto()
    """A VLAN, a VNI, a tenant, a flow label: a number of any size."""
    PORT = auto()
    """Of UDP: those from 49152 on, which RoCE computes from queue pairs; the others stay."""


IDENTITIES = (
    ScrubKind.KEY, ScrubKind.TEXT, ScrubKind.GUID, ScrubKind.PREFIX, ScrubKind.GID, ScrubKind.LID, ScrubKind.QPN,
    ScrubKind.IP4, ScrubKind.MAC, ScrubKind.SERVICE, ScrubKind.NETWORK, ScrubKind.PORT,
)  # fmt: skip
"""They get a substitute, everywhere the same."""
_BY_WORD = {
    "number": ScrubKind.KEEP, "checksum": ScrubKind.DROP, "pkey": ScrubKind.KEEP, "ports": ScrubKind.KEEP, "data": ScrubKind.DROP,
    "reserved": ScrubKind.MARK,
}  # fmt: skip
"""How a field is scrubbed that holds no identity, by its `holds` (`wire.spec.HOLDS`)."""
_TRANSPORT = (frozenset(HEADERS) | frozenset(EXTENDED_STRUCTS)) - {headers.Payload, mad.MAD}


def kind_of(field: Field[Any]) -> ScrubKind:
    """How a field is scrubbed. Plain numbers of built-in structures have been reviewed and stay; those of plugins are dropped."""
    if field.bits <= 64 < field.bit % 8 + field.bits:  # in nine bytes
        return ScrubKind.DROP
    if field.holds == "unknown":
        return ScrubKind.DROP if is_foreign(field) else ScrubKind.KEEP
    return _BY_WORD.get(field.holds) or ScrubKind(field.holds)


def survivors(catalog: Catalog) -> tuple[tuple[StructType, ...], tuple[StructType, ...]]:
    """Structures whose declared fields survive: headers of link, network and transport; parts of MADs.

    Structures in payloads and in CM private data do not survive.
    """
    inside = [struct for struct in catalog.structs if struct not in _TRANSPORT and struct is not headers.Payload]
    known = {mad.MAD, *(s for s in inside if any(isinstance(place, Place) and place.in_mads for place in s.carried_by))}
    before = 0
    while before < len(known):
        before = len(known)
        for struct in inside:
            owners = [place.field.owner for place in catalog.places(struct) if isinstance(place, Inside | Laid | Parsed)]
            owners += [field.owner for field in catalog.nesting.get(struct, ())]
            if any(owner in known for owner in owners):
                known.add(struct)
    return tuple(struct for struct in catalog.structs if struct in _TRANSPORT), tuple(s for s in inside if s in known)
