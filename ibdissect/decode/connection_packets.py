"""The windows of a capture as columns for the engine's one pass over the packets of connections. Several followers share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .chunk_table import ChunkTable
from .icrc_mistakes_of_hosts import Checksums
from .payload_sizes import payload_sizes

if TYPE_CHECKING:
    from ibdissect.engine.lanes import Lanes
    from ibdissect.engine.packet_fields import PacketReader

HEADERS = ("bth", "lrh", "grh", "ip4", "ip6", "udp", "payload", "mad")


class LaneFollower:
    """Feed windows in order; whoever shares it may feed a window again. Without transport headers it loads and costs nothing."""

    def __init__(self) -> None:
        self.lanes: Lanes | None = None
        self.reader: PacketReader | None = None
        self.checksums = Checksums()
        self.ordered = False
        """Somebody asks for the order of packets, too (`engine.psn_order`)."""
        self.with_places = False
        """Somebody asks for messages, too (`engine.message_places`)."""

    def start(self) -> Lanes:
        """The engine, which is loaded now."""
        if self.lanes is None:
            from ibdissect.engine.lanes import Lanes
            from ibdissect.engine.packet_fields import PacketReader

            self.lanes, self.reader = Lanes(), PacketReader()
        return self.lanes

    def feed(self, table: ChunkTable) -> tuple[()]:
        """The next window."""
        if "bth" in table.located.start:
            table.once(self._read)
        return ()

    def _read(self, table: ChunkTable) -> None:
        lanes, reader = self.start(), self.reader
        assert reader is not None
        if self.ordered:
            lanes.tells()
        if self.with_places:
            lanes.notes_places()
        reader.begin(table.chunk.first, table.chunk.data, columns(table, self.checksums.feed(table)))
        lanes.feed(reader)

    def finish(self) -> None:
        """The capture is at its end: what waited for its answers is read, and the best candidates are the other way."""
        if self.lanes is not None:
            self.lanes.finish()


def columns(table: ChunkTable, bad: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """What `PacketReader.begin` takes of a window. `bad`: of each row what `Checksums.feed` says."""
    loc = table.located
    found: dict[str, Any] = {name: loc.at(name) for name in HEADERS}
    sizes = loc.payload_end
    if not loc.complete.all():
        cut = np.flatnonzero(~loc.complete & (found["bth"] >= 0))
        sizes = np.full(len(table), -1, np.int64)
        sizes[cut] = payload_sizes(table, cut)
    again = np.zeros(len(table), np.uint8)
    if table.remarked is not None:
        again, copies = table.remarked.marks, table.remarked.table.located
        found |= {name: np.where(again > 0, copies.at(name), found[name]) for name in HEADERS}
    return found | {
        "times": table.chunk.time_ns, "end": loc.end, "limit": loc.limit, "payload_end": loc.payload_end, "sizes": sizes, "bad": bad,
        "networks": np.empty(0, np.int64) if table.networks is None else table.networks.astype(np.int64),
        "snapped": loc.snapped.view(np.uint8), "complete": loc.complete.view(np.uint8),
        "again": again,
    }  # fmt: skip
