"""The nodes that send and receive the packets of a capture, over the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.node_names import names_in
from ibdissect.subnet.nodes_of_packets import Ends

from .reading import Reading

if TYPE_CHECKING:
    from ibdissect.subnet.files import SubnetFiles


def ends_in(reading: Reading, files: SubnetFiles | None = None) -> Ends:
    """What a capture and files show; the capture is read once for it. Of a pipe only the files count; CaptureError without any."""
    follower = FabricFollower()
    if files is not None:
        from ibdissect.subnet.files import learn

        learn(follower.subnet, files.files)
    if files is None or reading.reader.rereadable:
        reading.read_twice("to learn which nodes send and receive")
        for table in reading.tables(keys=False):
            for _ in follower.feed(table):
                pass
    return Ends(names_in(follower.subnet), follower)
