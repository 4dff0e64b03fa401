"""Private data of connection management that may be a key, because no declared structure explains it.

Applications pass R_Keys to each other in private data, as rsockets do. A service of which no structure is declared may do so, too, and
the keys of its READs and WRITEs would be known by comparing. So what no structure of a message's service covers is hidden, unless
it is zero. The header of RDMA IP CM says only who connects: the consumer's data follows it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.numbers import CM_CLASS
from ibdissect.wire.places import CmService, Inside, Mad, Parsed
from ibdissect.wire.spec import Field, field_named
from ibdissect.wire.ulp.rdma_cm import IPCMPrivateData

from ..locate import Int
from ..occurrences import Occurrences

if TYPE_CHECKING:
    from ..chunk_table import ChunkTable

PRIVATE = "private_data"
"""The name of the field in all messages that have one."""


def is_private(field: Field[Any]) -> bool:
    """Whether a field is the private data of a message of connection management."""
    return field.name == PRIVATE and any(isinstance(place, Mad) and place.mgmt_class == CM_CLASS for place in field.owner.carried_by)


def unexplained(table: ChunkTable) -> list[Occurrences]:
    """Private data behind what declared structures explain, which may be nothing."""
    parts = []
    for (mgmt_class, attribute), _ in table.attributes().items():
        for _, struct in table.catalog.attributes.get((mgmt_class, attribute), ()) if mgmt_class == CM_CLASS else ():
            private, found = field_named(struct, PRIVATE), table.occurrences(struct)
            if private is None or not len(found):
                continue
            begin = found.at + private.bit // 8
            stop = found.stop if private.kind == "rest" else begin + private.bits // 8
            parts.append(Occurrences(found.rows, np.minimum(_reached(table, attribute)[found.rows], stop).clip(begin), stop))
    return parts


def _reached(table: ChunkTable, attribute: int) -> Int:
    """Where the structures in the private data of a message end, int64[n]; 0 for none."""
    reached = np.zeros(len(table), np.int64)
    for struct in _explaining(table.catalog, attribute):
        found = table.occurrences(struct)
        open_end = struct.fields[-1].kind == "rest" and struct is not IPCMPrivateData
        header = IPCMPrivateData.private_data.bit // 8 if struct is IPCMPrivateData else struct.size
        np.maximum.at(reached, found.rows, found.stop if open_end else found.at + header)
    return reached


@cache
def _explaining(catalog: Catalog, attribute: int) -> list[StructType]:
    """The structures that are found in the private data of a message."""
    return [struct for struct in catalog.structs if any(_explains(place, attribute) for place in struct.carried_by)]


def _explains(place: object, attribute: int) -> bool:
    """Whether a structure at this place is in the private data of a message."""
    if isinstance(place, Inside | Parsed):
        owner = place.field.owner
        return is_private(place.field) or (owner is IPCMPrivateData and any(_explains(one, attribute) for one in owner.carried_by))
    return isinstance(place, CmService) and attribute in place.messages
