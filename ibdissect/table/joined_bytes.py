"""Where are the bytes of records and messages that were put together? Behind those of the window (`ChunkTable.shown`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.wire.spec import Field

from .joined import WholeMessage
from .locate import Bool, Int
from .occurrences import Occurrences

if TYPE_CHECKING:
    from .table import ChunkTable


def starts(table: ChunkTable) -> Int:
    """Where each record or message begins in the data, and where the last one ends, int64[k + 1]."""
    return table.window + np.cumsum([0, *(len(one.data) for _, one in table.joined)])


def homes(table: ChunkTable) -> Int:
    """Where the part of each record or message starts in the frame that completed it, int64[k]."""
    last = (max(one.spans, key=lambda span: span.frame) for _, one in table.joined)
    return np.array([table.chunk.offset[row] + span.offset for (row, _), span in zip(table.joined, last, strict=True)], np.int64)


def in_order(table: ChunkTable, rows: Int, at: Int) -> Int:
    """A sort order by row and place; bytes of a record that was put together count as its part in the completing frame."""
    if not table.joined:
        return np.lexsort((at, rows))
    of = np.searchsorted(table.once(starts), at, "right") - 1
    place = np.where(of >= 0, table.once(homes)[np.minimum(of, len(table.joined) - 1)], at)
    return np.lexsort((at, place, rows))


def whole_messages(table: ChunkTable) -> tuple[Occurrences, npt.NDArray[np.uint64], Int]:
    """The messages that rows completed; the service of each, and the side it goes to."""
    of = [(i, row, one) for i, (row, one) in enumerate(table.joined) if isinstance(one, WholeMessage)]
    at, index = starts(table), np.array([i for i, _, _ in of], np.int64)
    found = Occurrences(np.array([row for _, row, _ in of], np.int64), at[index], at[index + 1])
    return found, np.array([one.service for _, _, one in of], np.uint64), np.array([one.side for _, _, one in of], np.int64)


def known_bytes(table: ChunkTable) -> Int:
    """Bytes of each record or message that its first packets show, int64[k]; none of a record."""
    return np.array([one.known if isinstance(one, WholeMessage) else 0 for _, one in table.joined], np.int64)


def not_in_first(table: ChunkTable, field: Field[Any], found: Occurrences) -> Bool:
    """Which entries of a field, in occurrences of its structure, only the frame that completed a message shows, bool[k, entries].

    The first packets of a message (`known` bytes) show the structures that fit into them, perhaps with only part of the last field.
    """
    begin, first = table.once(starts), table.once(known_bytes)
    of = np.searchsorted(begin, found.at, "right") - 1
    has = np.where(of >= 0, begin[of] + first[np.minimum(of, len(first) - 1)], -1)
    size = found.at + field.owner.size
    if field.kind == "rest":
        return (np.maximum(found.stop, size) > has)[:, None]
    return np.stack([np.maximum(found.at + (bit + field.bits + 7) // 8, size) > has for bit in field.entries()], axis=1)
