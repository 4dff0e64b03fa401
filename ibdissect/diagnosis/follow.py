"""How do the windows of a capture reach the state of its connections?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.engine.lanes import Lanes
from ibdissect.engine.packets import Reader
from ibdissect.table import ChunkTable
from ibdissect.table.bits import value_at
from ibdissect.wire.encapsulation import VLAN, VXLAN

from .assemble import assemble
from .checksums import Checksums
from .connection import Diagnosis
from .judge import judge_all

HEADERS = ("bth", "lrh", "grh", "ip4", "ip6", "udp", "icrc")


class ConnectionFollower:
    """Feed windows in order, then ask for the `result`."""

    def __init__(self) -> None:
        self.lanes, self.reader, self.checksums = Lanes(), Reader(), Checksums()
        self.frames = 0

    def feed(self, table: ChunkTable) -> None:
        """The next window."""
        loc, chunk = table.located, table.chunk
        self.frames = chunk.first + len(table) - 1
        if "bth" not in loc.start:
            return
        columns: dict[str, Any] = {name: loc.at(name) for name in HEADERS}
        columns |= {"times": chunk.time_ns, "end": loc.end, "networks": networks(table), "bad": self.checksums.feed(table)}
        self.reader.begin(chunk.first, chunk.data, columns)
        self.lanes.feed(self.reader, chunk.data, loc.at("mad"), loc.end)

    def result(self, path: str) -> Diagnosis:
        """What became of all connections; call once, at the end. `path`: the capture's name."""
        return judge_all(assemble(self.lanes), self.lanes, self.checksums, path, self.frames)


def networks(table: ChunkTable) -> npt.NDArray[np.int64]:
    """A number of each packet's network, int64[n]: its VLAN and its VNI; 0 for none."""
    start, found = table.located.start, np.zeros(len(table), np.int64)
    for name in ("vlan", "vlan2", "vlan3"):
        if name in start:
            rows = np.flatnonzero(start[name] >= 0)
            found[rows] = value_at(table.chunk.data, start[name][rows], VLAN.id)
    for name, at in start.items():
        if name.startswith("vxlan."):
            rows = np.flatnonzero(at >= 0)
            found[rows] |= value_at(table.chunk.data, at[rows], VXLAN.vni) << 12 & 0x7FFFFFFF
    return found
