"""How is a whole capture scrubbed? Chunk by chunk into a new file, without comments, names of interfaces and other remarks."""

from __future__ import annotations

import dataclasses
from typing import IO

from ibdissect.capture.writing import CaptureWriter
from ibdissect.errors import CaptureError
from ibdissect.export.frames import Shown, selected
from ibdissect.session import Capture
from ibdissect.table.table import ChunkTable

from .rewrite import Scrubber


def write_scrubbed(opened: Capture, shown: Shown | None, file: IO[bytes], container: str) -> int:
    """Write the wanted frames scrubbed and return how many.

    Substitutes are handed out over all frames up to the last that is wanted, so that any choice of frames gets the same
    ones. CaptureError for a pipe, and when the container cannot hold a frame (a pcap has one link type).
    """
    if not opened.reader.again:
        raise CaptureError(opened.path, "is read twice, first for what its LIDs belong to, which a pipe cannot give")
    scrubber = Scrubber(opened.catalog)
    for chunk in opened.chunks():
        scrubber.survey(ChunkTable(chunk, opened.catalog))
    with CaptureWriter(file, container=container) as writer:
        for table, rows in selected(opened, shown):
            known = opened.reader.interfaces
            if known is not None:
                writer.interfaces = dataclasses.replace(known, options=[()] * len(known))
            scrubbed = scrubber.scrub(table.chunk)
            for row in rows.tolist():
                writer.add(scrubbed, row)
        return writer.frames
