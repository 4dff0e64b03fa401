"""How are selected frames copied to another capture, with times, interfaces, and old and new comments?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import numpy as np

from ibdissect.errors import CaptureError
from ibdissect.session.capture import Capture
from ibdissect.session.reading import Progress, Shown
from ibdissect.table.locate import Int
from ibdissect.table.table import ChunkTable


def selected(
    opened: Capture, shown: Shown | None, *, number_keys: bool = False, progress: Progress | None = None
) -> Iterator[tuple[ChunkTable, Int]]:
    """Tables with their selected rows, up to the last frame that may be selected. `number_keys`: number masked keys."""
    for table in opened.tables(keys=number_keys, until=None if shown is None else shown.last, progress=progress):
        yield table, np.arange(len(table)) if shown is None else np.flatnonzero(shown.rows(table))


def write_frames(
    opened: Capture, shown: Shown | None, file: IO[bytes], container: str, added: Mapping[int, Sequence[str]] | None = None,
    progress: Progress | None = None,
) -> int:  # fmt: skip
    """Write the selected frames unchanged and return their number; `added` are more comments by frame number.

    Raises CaptureError if the container cannot store a frame (a pcap has one link type) or comments were lost.
    """
    from ibdissect.capture.writing import CaptureWriter  # not needed to export columns

    added = added or {}
    with CaptureWriter(file, container=container) as writer:
        for table, rows in selected(opened, shown, progress=progress):
            comments = opened.reader.comments
            writer.interfaces, writer.comments = opened.reader.interfaces, comments.get(0, ())
            for row in rows.tolist():
                number = table.chunk.first + row
                writer.add(table.chunk, row, [*comments.get(number, ()), *added.get(number, ())])
        if opened.reader.comments.lost and container == "pcapng":
            raise CaptureError(opened.path, "holds more comments than can be kept", hint="write a pcap, which has none")
        return writer.frames
