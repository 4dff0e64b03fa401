"""Queue pairs to which messages with keys may go. What is hidden follows from it, whatever a packet's time, path and addresses are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.wire import cm
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.cm import REP, REQ, SIDRRep
from ibdissect.wire.cut import field_of
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CM_CLASS
from ibdissect.wire.places import CmPayload, CmWrite

from .inner_structures import holds_key
from .locate import Bool, Int

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

MAX_PAIRS = 1 << 18
"""Queue pair numbers that are remembered; from the first further one on, every number counts."""
UNKNOWN = 0
"""The service of a queue pair that a message names whose request is unknown: any."""
CUT = ((cm.REQ_ID, REQ), (cm.REP_ID, REP))
"""Messages that name a queue pair also if they are cut off behind it, or divided into fragments of IP."""
Named = tuple[int, int, int, int]
"""Frame, time, queue pair, service."""


class KeyedPairs:
    """The numbers of queue pairs that served, at any end, a service whose messages may hold keys, and since when. Nothing ends that."""

    def __init__(self, dropped: Dropped) -> None:
        self.since = KeptDict[int, int](MAX_PAIRS, dropped)
        """Queue pair -> the frame that named it."""
        self.all_since = 0
        """The frame that named one too many; 0: none did."""

    def feed(self, table: ChunkTable, named: list[Named]) -> None:
        """Learn from what a chunk names, and from what is cut off."""
        named = sorted([*named, *_cut_off(table)])
        if not named:
            return
        found = holds_keys(table, np.array([service for *_, service in named], np.uint64))
        for (frame, time_ns, qp, service), keyed in zip(named, found.tolist(), strict=True):
            if (keyed or service == UNKNOWN) and qp not in self.since:
                self.since.keep(qp, frame, frame, time_ns)
                if qp not in self.since:
                    self.all_since = self.all_since or frame

    def rows(self, table: ChunkTable, opcodes: Bool) -> Int:
        """Rows of a chunk, with one of these OpCodes, of packets to such a queue pair or from one."""
        located = table.located
        bth = located.start.get("bth")
        if bth is None or not (self.since or self.all_since):
            return np.empty(0, np.int64)
        rows = np.flatnonzero((bth >= 0) & (located.at("mad") < 0) & opcodes[located.opcode])
        found = self._named(table, rows, table.values_at(BTH.destqp, rows).astype(np.int64))
        sources, there = table.of_rows(DETH.srcqp)
        found |= there[rows] & self._named(table, rows, sources[rows].astype(np.int64))
        return rows[found]

    def _named(self, table: ChunkTable, rows: Int, qps: Int) -> Bool:
        """Which of the queue pairs of some rows were named before."""
        found = np.full(len(rows), bool(self.all_since) & (table.chunk.first + rows >= self.all_since))
        known = np.isin(qps, np.fromiter(list(self.since), np.int64))
        frames = [self.since[qp] for qp in qps[known].tolist()]
        found[known] = table.chunk.first + rows[known] > np.array(frames, np.int64)
        return np.asarray(found, np.bool_)


def requested(table: ChunkTable) -> Iterator[Named]:
    """What REQs and answers about datagram services name, remembered or not."""
    from .cm_connections import messages, served

    for message in table.once(messages):
        view = message.view
        if isinstance(view, REQ):
            yield message.frame, message.time_ns, view.local_qpn, served(view.service_id, bytes(view.private_data))
        elif isinstance(view, SIDRRep):
            yield message.frame, message.time_ns, view.qpn, view.service_id


def _cut_off(table: ChunkTable) -> Iterator[Named]:
    located, chunk = table.located, table.chunk
    for attribute, struct in CUT:
        rows = table.attributes().get((CM_CLASS, attribute), np.empty(0, np.int64))
        whole = set(table.occurrences(struct).rows.tolist()) if len(rows) else set()
        for row in rows.tolist():
            if row not in whole:
                body = chunk.data[located.at("mad")[row] + MAD.size : located.end[row]].tobytes()
                qp, service = field_of(body, struct.local_qpn), field_of(body, REQ.service_id) if struct is REQ else UNKNOWN
                if qp is not None:
                    yield chunk.first + row, int(chunk.time_ns[row]), qp, service or UNKNOWN


def holds_keys(table: ChunkTable, services: npt.NDArray[np.uint64]) -> Bool:
    """Which of some services have messages that may hold a key. uint64[k] -> bool[k]"""
    from .payloads import about  # it asks for services, which are learnt from here

    found = np.zeros(len(services), np.bool_)
    for place in places(table.catalog):
        if isinstance(place, CmWrite):
            found |= (services & np.uint64(place.mask)) == np.uint64(place.service_id)
        else:
            found |= about(table, place, services)
    return found


@cache
def places(catalog: Catalog) -> tuple[CmPayload | CmWrite, ...]:
    """Where messages, streams and writes of connections are carried that may hold a key."""
    found = [place for struct in catalog.structs for place in struct.carried_by if holds_key(catalog, struct)]
    found += [place.over for place, struct in catalog.streams if holds_key(catalog, struct)]
    return tuple({place for place in found if isinstance(place, CmPayload | CmWrite)})
