"""The windows of a capture handed to the lanes and set-ups of its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibdissect.decode import ChunkTable
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.engine.lanes import Lanes

from .frame_times import FrameTimes
from .refused_accesses import Accesses

if TYPE_CHECKING:
    from .connection import Diagnosis
    from .verdicts import Verdicts


class ConnectionFollower:
    """Feed windows in order, then ask for the `result`."""

    def __init__(self, times: FrameTimes | None = None, packets: LaneFollower | None = None, scopes: Scopes | None = None) -> None:
        """`times`: remembers the times of frames, for others, too; `packets` shares the pass over packets with others, `scopes` where
        frames were captured."""
        self.packets, self.accesses = packets if packets is not None else LaneFollower(), Accesses()
        self.packets.start()
        self.times = times if times is not None else FrameTimes()
        self.scopes = scopes if scopes is not None else Scopes()

    @property
    def lanes(self) -> Lanes:
        """The state of connections."""
        return self.packets.start()

    def feed(self, table: ChunkTable) -> None:
        """The next window."""
        self.times.seen(table)
        self.scopes.feed(table)
        if "bth" not in table.located.start:
            return
        self.times.feed(table)
        self.packets.feed(table)
        self.accesses.feed(table, self.lanes)

    @property
    def any(self) -> bool:
        """Whether there is a connection, or a part of one."""
        return bool(self.lanes.lanes or self.lanes.finished or self.lanes.setups.all)

    def verdicts(self) -> Verdicts:
        """What explains each connection; call once, at the end."""
        from .connections_from_lanes import assemble  # a sweep has no connections
        from .verdicts import Verdicts

        return Verdicts(assemble(self.lanes), self.lanes, self.packets.checksums, self.times, self.accesses, self.scopes)

    def result(self, path: str, verdicts: Verdicts | None = None) -> Diagnosis:
        """What became of all connections; call once, at the end. `path`: the capture's name; `verdicts`: if they were asked for before."""
        return (verdicts or self.verdicts()).diagnosis(path, self.times.frames)
