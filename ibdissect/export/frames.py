"""How are selected frames copied to another capture, with times, interfaces, and old and new comments?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO

from ibdissect.errors import CaptureError
from ibdissect.session.capture import Capture


def write_frames(opened: Capture, file: IO[bytes], container: str, added: Mapping[int, Sequence[str]] | None = None) -> int:
    """Write the selected frames unchanged and return their number; `added` are more comments by frame number.

    Raises CaptureError if the container cannot store a frame (a pcap has one link type) or comments were lost.
    """
    from ibdissect.capture.writing import CaptureWriter  # not needed to export columns

    added = added or {}
    with CaptureWriter(file, container=container) as writer:
        for table, rows in opened.selected():
            comments = opened.reader.comments
            writer.interfaces, writer.comments = opened.reader.interfaces, comments.get(0, ())
            for row in rows.tolist():
                number = table.chunk.first + row
                writer.add(table.chunk, row, [*comments.get(number, ()), *added.get(number, ())])
        if opened.reader.comments.lost and container == "pcapng":
            raise CaptureError(opened.path, "holds more comments than can be kept", hint="write a pcap, which has none")
        return writer.frames
