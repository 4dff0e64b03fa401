"""How is a whole capture scrubbed? Chunk by chunk into a new file, without comments, interface names and other options."""

from __future__ import annotations

from typing import IO

from ibdissect.capture.writing import CaptureWriter
from ibdissect.session.capture import Capture

from .rewrite import Scrubber


def write_scrubbed(opened: Capture, file: IO[bytes], container: str) -> tuple[int, Scrubber]:
    """Write the selected frames scrubbed; returns their number and the scrubber, for `verify`.

    Substitutes are assigned over all frames up to the last selected one, so that they do not depend on the selection. Raises
    CaptureError for a pipe, and if the container cannot hold a frame (a pcap has one link type).
    """
    opened.read_twice("to learn first how its LIDs are used")
    scrubber = Scrubber(opened.catalog)
    for table in opened.tables(keys=False, progress=opened.progress):
        scrubber.lids.survey(table)
    with CaptureWriter(file, container=container) as writer:
        for table, rows in opened.selected():
            known = opened.reader.interfaces
            if known is not None:
                writer.interfaces = known.without_options()
            scrubbed = scrubber.scrub(table.chunk)
            for row in rows.tolist():
                writer.add(scrubbed, row)
        return writer.frames, scrubber
