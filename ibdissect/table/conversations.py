"""Which conversation is a packet part of, and in which direction? The key by which states of requests, answers and sequences are kept.

A connection that management set up joins both directions, although a packet of it names one queue pair only. Without that, a datagram
names both queue pairs, UDP both ports; of anything else, all traffic between two addresses is one conversation.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ibdissect.wire.encapsulation import UDP
from ibdissect.wire.headers import BTH, DETH

from .addresses import ends_of
from .connection_events import Connection
from .locate import Int

if TYPE_CHECKING:
    from .table import ChunkTable

Conversation = tuple[Hashable, Hashable]
"""What both directions have in common, and the end that the packet goes to."""


def conversations(table: ChunkTable, rows: Int) -> list[Conversation]:
    """The conversation of each row, and which of its ends the packet goes to."""
    if not len(rows):
        return []
    located, frames = table.located, (rows + table.chunk.first).tolist()
    transport = (located.at("bth")[rows] >= 0) & (located.at("mad")[rows] < 0)
    pairs, datagram = table.values_at(BTH.destqp, rows).tolist(), table.first(DETH)[rows] >= 0
    senders = table.values_at(DETH.srcqp, rows).tolist()
    udp = (table.first(UDP)[rows] >= 0) & ~transport & (located.at("mad")[rows] < 0)
    ports = [table.values_at(field, rows).tolist() for field in (UDP.source_port, UDP.destination_port)]
    found: list[Conversation] = []
    for i, (source, to) in enumerate(ends_of(table, rows)):
        if not transport[i]:
            near, far = ((source, ports[0][i]), (to, ports[1][i])) if udp[i] else ((source, 0), (to, 0))
            found.append((frozenset((near, far)), far))
            continue
        end = to, pairs[i]
        one = _connection(table, end, frames[i])
        if one is not None:
            found.append((("connection", one.req_frame), end))
        elif datagram[i]:
            found.append((frozenset(((source, senders[i]), end)), end))
        else:
            found.append((frozenset((source, to)), to))
    return found


def _connection(table: ChunkTable, end: Hashable, frame: int) -> Connection | None:
    """The connection of a queue pair at a frame."""
    services = table.services
    known = services.connections.by_side.get(end, ()) if services is not None else ()  # type: ignore[call-overload]
    return next((one for one in reversed(known) if one.req_frame <= frame < one.ended), None)
