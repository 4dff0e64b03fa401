"""The latest packet to each queue pair of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ibdissect.bounded import BoundedDict

from .addresses import lid_end
from .cm_connections import Connections
from .connection_events import ConnectionSetUp
from .identity import QueuePairId
from .native_packets import Native

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MAX_QUEUE_PAIRS = 8192
"""Queue pairs whose latest packets are remembered; of others a connection counts as silent."""
QUEUE_PAIR_BITS, LID_BITS = 24, 16


class LastPackets:
    """The latest packet to each queue pair of an in-subnet connection. One per capture; feed chunks in order."""

    after: ClassVar = (Connections,)

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self._before = BoundedDict[QueuePairId, int](MAX_QUEUE_PAIRS, "queue pairs of connections")
        """The time of the latest packet in the chunks before the present one."""
        self._frames = self._places = self._times = np.empty(0, np.int64)
        """Of packets of the present chunk."""

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process a chunk; emits no events."""
        places, last = np.unique(self._places[::-1], return_index=True)
        for place, time_ns in zip(places.tolist(), self._times[::-1][last].tolist(), strict=True):
            self._before.put(_queue_pair(place), time_ns, int(self._frames[0]), int(self._times[0]))
        native = table.once(Native)
        index = self.connections.candidates(native)
        rows = native.rows[index]
        networks = table.networks[rows] if table.networks is not None else np.zeros(len(rows), np.int64)
        ends = networks.astype(np.int64) << LID_BITS | native.dlid[index]
        self._places = ends << QUEUE_PAIR_BITS | native.dest_qp[index]
        self._frames, self._times = rows + table.chunk.first, table.chunk.time_ns[rows]
        return ()

    def of(self, connection: ConnectionSetUp, frame: int) -> int:
        """The time of the latest packet of a connection, or of its REP, before a frame of the present chunk."""
        network = connection.active.network
        ends = [QueuePairId(lid_end(lid, network), number) for lid, number in connection.every_queue_pair]
        places = [(network << LID_BITS | lid) << QUEUE_PAIR_BITS | number for lid, number in connection.every_queue_pair]
        mine = np.flatnonzero(np.isin(self._places[: np.searchsorted(self._frames, frame)], places))
        if len(mine):
            return int(self._times[mine[-1]])
        rep = connection.rep[1] if 0 < connection.rep_frame < frame and connection.rep is not None else 0
        return max(rep, *(self._before.get(end, 0) for end in ends))


def _queue_pair(place: int) -> QueuePairId:
    end, number = divmod(place, 1 << QUEUE_PAIR_BITS)
    network, lid = divmod(end, 1 << LID_BITS)
    return QueuePairId(lid_end(lid, network), number)
