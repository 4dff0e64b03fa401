"""How do the windows of a capture reach the state of its connections?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.engine.lanes import Lanes
from ibdissect.engine.packets import Reader
from ibdissect.table import ChunkTable

from .accesses import Accesses
from .assemble import assemble
from .checksums import Checksums
from .connection import Diagnosis
from .frame_times import FrameTimes
from .judge import Verdicts

HEADERS = ("bth", "lrh", "grh", "ip4", "ip6", "udp", "icrc")


class ConnectionFollower:
    """Feed windows in order, then ask for the `result`."""

    def __init__(self, times: FrameTimes | None = None) -> None:
        """`times`: remembers the times of frames, for others, too."""
        self.lanes, self.reader, self.checksums, self.accesses = Lanes(), Reader(), Checksums(), Accesses()
        self.times = times if times is not None else FrameTimes()

    def feed(self, table: ChunkTable) -> None:
        """The next window."""
        loc, chunk = table.located, table.chunk
        self.times.seen(table)
        if "bth" not in loc.start:
            return
        self.times.feed(table)
        networks = np.zeros(len(table), np.int64) if table.networks is None else table.networks.astype(np.int64)
        columns: dict[str, Any] = {name: loc.at(name) for name in HEADERS}
        columns |= {"times": chunk.time_ns, "end": loc.end, "networks": networks, "bad": self.checksums.feed(table)}
        self.reader.begin(chunk.first, chunk.data, columns)
        self.lanes.feed(self.reader, chunk.data, loc.at("mad"), loc.end)
        self.accesses.feed(table, self.lanes)

    def verdicts(self) -> Verdicts:
        """What explains each connection; call once, at the end."""
        return Verdicts(assemble(self.lanes), self.lanes, self.checksums, self.times, self.accesses)

    def result(self, path: str, verdicts: Verdicts | None = None) -> Diagnosis:
        """What became of all connections; call once, at the end. `path`: the capture's name; `verdicts`: if they were asked for before."""
        return (verdicts or self.verdicts()).diagnosis(path, self.times.frames)
