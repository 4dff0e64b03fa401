"""Occurrences in a chunk: rows and ranges of bytes, as arrays of equal length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import Bytes

from .bit_fields import any_set
from .locate import Bool, Int


class Occurrences(Record, frozen=True, eq=False):
    """Where a structure occurs, or may occur, in a chunk, in frame order; a row may contain it several times."""

    rows: Int
    """Row of the chunk, int64[k], never decreasing."""
    at: Int
    """Where it starts in `chunk.data`, int64[k]."""
    stop: Int
    """End of the bytes available to it, int64[k]."""

    def __len__(self) -> int:
        return len(self.rows)

    def pick(self, which: Bool | Int) -> Occurrences:
        """Some of them."""
        return Occurrences(self.rows[which], self.at[which], self.stop[which])


NONE = Occurrences(*[np.empty(0, np.int64)] * 3)


def merged(parts: Sequence[Occurrences]) -> Occurrences:
    """All occurrences in frame order, then by their start."""
    parts = [part for part in parts if len(part)]
    if len(parts) <= 1:
        return parts[0] if parts else NONE
    rows, at, stop = (np.concatenate(columns) for columns in zip(*((part.rows, part.at, part.stop) for part in parts), strict=True))
    return Occurrences(rows, at, stop).pick(np.lexsort((at, rows)))


def filled(data: Bytes, found: Occurrences) -> Occurrences:
    """Those in which a byte is set."""
    found = found.pick(found.at < found.stop)
    return found.pick(any_set(data, found.at, found.stop))
