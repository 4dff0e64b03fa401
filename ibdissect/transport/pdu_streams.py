"""PDUs in the SENDs of a queue pair, if these are a stream of bytes (`wire.places.Stream`). `tcp_streams` is about TCP.

A PDU may lie in several messages, and a message may hold several. Each belongs to the frame that completes it. The bytes of one direction
are followed from the first SEND of the connection on, and only as long as none is missing: where a packet is lost or cut off, nobody knows
where the next PDU begins, so nothing is shown until the connection ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record
from msgspec import field as each_new

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.decode.identity import Code, QpNumber, Side
from ibdissect.decode.locate import IS_RESPONSE
from ibdissect.decode.payloads import served
from ibdissect.decode.reassembled import FrameSpan, WholeMessage
from ibdissect.decode.services import PART
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.headers import PSNS
from ibdissect.wire.opcodes import OPERATION, READ_REQUEST
from ibdissect.wire.places import CmPayload, Stream, TcpPort
from ibdissect.wire.tail import length_of

if TYPE_CHECKING:
    from ibdissect.decode import ChunkTable

MAX_STREAMS = 1024
"""Directions of connections that are followed; further ones are not."""
MAX_BYTES = 1 << 16
"""Bytes of a PDU; a longer one ends its stream."""
Kind = tuple[Stream, int, Callable[[bytes], int]]
"""A stream, the bytes that its length needs, and what computes it from these."""
OverSends = tuple[CmPayload, Kind]
OverTcp = tuple[TcpPort, Kind]


@cache
def streams_of(catalog: Catalog) -> tuple[OverSends, ...]:
    """The streams over queue pairs that structures declare."""
    return tuple((kind[0].over, kind) for kind in _kinds(catalog) if isinstance(kind[0].over, CmPayload))


@cache
def tcp_streams_of(catalog: Catalog) -> tuple[OverTcp, ...]:
    """The streams over TCP."""
    return tuple((kind[0].over, kind) for kind in _kinds(catalog) if isinstance(kind[0].over, TcpPort))


def _kinds(catalog: Catalog) -> Iterator[Kind]:
    return ((place, struct.size, length_of(struct, place.length)) for place, struct in catalog.streams)


class Bytes(Record, kw_only=True):
    """The bytes of one direction that are of no PDU yet."""

    lost: bool = False
    """Some are missing: nobody knows where the next PDU begins."""
    data: bytearray = each_new(default_factory=bytearray)
    spans: list[FrameSpan] = each_new(default_factory=list)


class _PduDirection(Bytes):
    """One direction of a connection."""

    since: int
    """When the service of the queue pair began."""
    kind: Kind | None
    psn: int
    """PSN of the packet that comes next."""
    skips: bool = False
    """It may be a later one, behind a READ, which takes several PSNs."""


class PduStreams:
    """Follows the streams of a capture. Call `take` with its packets in capture order."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[Code, Code], Kind] = {}
        self._sides = KeptDict[tuple[Side, QpNumber], _PduDirection](MAX_STREAMS, "streams of bytes over queue pairs")

    @property
    def dropped(self) -> Dropped:
        """What was not followed, because there is a bound."""
        return self._sides.dropped

    def give_up(self) -> None:
        """Show nothing more of the connections so far: there was no room for some of their PDUs."""
        for side in self._sides.values():
            side.lost = True

    def claim(self, table: ChunkTable, packet: Any) -> bool:
        """Whether a packet to a queue pair is of a stream."""
        return self._kind(table, packet.service, packet.side) is not None

    def _kind(self, table: ChunkTable, service: int, side: int) -> Kind | None:
        known = self._kinds.get((service, side))
        if known is None:
            of = np.array([service], np.uint64), np.array([side], np.int64)
            known = next((kind for over, kind in streams_of(table.catalog) if served(table, over, *of)[0]), None)
            if known is not None and len(self._kinds) < MAX_STREAMS:
                self._kinds[service, side] = known
        return known

    def take(self, packet: Any, since: int, table: ChunkTable, time_ns: int, starts: Collection[int] = ()) -> Iterator[WholeMessage]:
        """The PDUs that a request packet (`whole_messages`) to a queue pair completes, in order. `since`: when its service began; `starts`:
        PSNs that its first packet may have; none if nobody knows them."""
        if IS_RESPONSE[packet.code]:
            return
        to = packet.to, packet.queue_pair
        side = self._sides.get(to)
        if side is not None and side.since != since:
            del self._sides[to]
            side = None
        if side is None:
            kind = self._kind(table, packet.service, packet.side)
            side = _PduDirection(since, kind, packet.psn, lost=bool(starts) and packet.psn not in starts)
            self._sides.keep(to, side, packet.span.frame, time_ns)
            if to not in self._sides:
                return
        if side.kind is None or side.lost:
            return
        ahead = (packet.psn - side.psn) % PSNS
        if ahead >= PSNS // 2:
            return  # sent again
        side.lost = (ahead > 0 and not side.skips) or not packet.complete
        side.psn, side.skips = (packet.psn + 1) % PSNS, packet.code & OPERATION == READ_REQUEST
        if packet.code in PART and not side.lost:
            side.data += packet.data
            side.spans.append(packet.span)
            yield from cut(side, side.kind, packet.span.frame, packet.service, packet.side)
        if side.lost:
            side.data, side.spans = bytearray(), []


def first_psns(connection: ConnectionSetUp | None) -> tuple[int, ...]:
    """PSNs that the first packet of a direction may have: that which the receiver announced, or, as some programs read the standard, the
    sender's own. Empty if the capture does not show both."""
    known = tuple(psn for psn in connection.psns if psn is not None) if connection is not None else ()
    return known if len(known) == 2 else ()


def cut(side: Bytes, kind: Kind, frame: int, service: int = 0, to: int = 0) -> Iterator[WholeMessage]:
    """The PDUs that a frame completes, taken from the front."""
    place, least, length = kind
    while len(side.data) >= least:
        size = length(bytes(side.data[:least]))
        if not max(least, 1) <= size <= MAX_BYTES:
            side.lost = True
            return
        if size > len(side.data):
            return
        spans, side.spans = _split(side.spans, size)
        data = bytes(side.data[:size]) if [span.frame for span in spans] != [frame] else b""
        del side.data[:size]
        yield WholeMessage(data, tuple(spans), service, to, stream=place)


def _split(spans: list[FrameSpan], size: int) -> tuple[list[FrameSpan], list[FrameSpan]]:
    """The first `size` bytes of spans, and the others."""
    first, rest = [], []
    for span in spans:
        here = min(span.length, size)
        size -= here
        if here:
            first.append(FrameSpan(span.frame, span.offset, here))
        if here < span.length:
            rest.append(FrameSpan(span.frame, span.offset + here, span.length - here))
    return first, rest
