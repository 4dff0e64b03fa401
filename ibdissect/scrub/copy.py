"""How is a whole capture scrubbed? Chunk by chunk into a new file, without comments, names of interfaces and other remarks."""

from __future__ import annotations

import dataclasses
from typing import IO

from ibdissect.capture.writing import CaptureWriter
from ibdissect.export.frames import Shown, selected
from ibdissect.session import Capture

from .rewrite import Scrubber


def write_scrubbed(opened: Capture, shown: Shown | None, file: IO[bytes], container: str) -> int:
    """Write the wanted frames scrubbed and return how many.

    Substitutes are handed out over all frames up to the last that is wanted, so that any choice of frames gets the same
    ones. CaptureError when the container cannot hold a frame (a pcap has one link type).
    """
    scrubber = Scrubber(opened.catalog)
    with CaptureWriter(file, container=container) as writer:
        for table, rows in selected(opened, shown):
            known = opened.reader.interfaces
            if known is not None:
                writer.interfaces = dataclasses.replace(known, options=[()] * len(known))
            chunk = scrubber.scrub(table.chunk)
            for row in rows.tolist():
                writer.add(chunk, row)
        return writer.frames
