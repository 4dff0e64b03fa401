"""How do frames get from one capture into another: selected, with times, interfaces and comments, old ones and new ones?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt

from ibdissect.errors import CaptureError
from ibdissect.session import Capture
from ibdissect.table.locate import Int
from ibdissect.table.services import Services
from ibdissect.table.table import ChunkTable


class Shown(Protocol):
    """What limits the frames: a display filter, a choice of numbers, or both."""

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]: ...

    @property
    def last(self) -> int: ...


def selected(opened: Capture, shown: Shown | None, *, number_keys: bool = False) -> Iterator[tuple[ChunkTable, Int]]:
    """Tables with the rows that are wanted, up to the last frame that can be. `number_keys`: masked keys get their numbers."""
    for table in opened.tables() if number_keys else _tables(opened):
        if shown is None:
            yield table, np.arange(len(table))
            continue
        yield table, np.flatnonzero(shown.rows(table))
        if table.chunk.first + len(table) > shown.last:
            return


def _tables(opened: Capture) -> Iterator[ChunkTable]:
    """The capture without numbers for its keys, which cost a look at every structure that holds one."""
    services = Services()
    for chunk in opened.chunks():
        table = ChunkTable(chunk, opened.catalog, services)
        services.feed(table)
        yield table


def write_frames(
    opened: Capture, shown: Shown | None, file: IO[bytes], container: str, added: Mapping[int, Sequence[str]] | None = None
) -> int:
    """Write the wanted frames as they were captured and return how many; `added` are comments by frame number.

    CaptureError when the container cannot hold a frame (a pcap has one link type).
    """
    from ibdissect.capture.writing import CaptureWriter  # exports of columns write no capture

    added = added or {}
    with CaptureWriter(file, container=container) as writer:
        for table, rows in selected(opened, shown):
            comments = opened.reader.comments
            writer.interfaces, writer.comments = opened.reader.interfaces, comments.get(0, ())
            for row in rows.tolist():
                number = table.chunk.first + row
                writer.add(table.chunk, row, [*comments.get(number, ()), *added.get(number, ())])
        if opened.reader.comments.lost and container == "pcapng":
            raise CaptureError(opened.path, "holds more comments than can be kept", hint="write a pcap, which has none")
        return writer.frames
