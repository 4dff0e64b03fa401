"""The conversation and direction of a packet: the key by which states of requests, answers and sequences are kept.

A connection that management set up joins both directions, although a packet of it names one queue pair only. Without that, a datagram
names both queue pairs, UDP and TCP both ports; of anything else, all traffic between two addresses is one conversation.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from ibdissect.wire.encapsulation import UDP
from ibdissect.wire.headers import BTH, DETH
from ibdissect.wire.ulp.ip import TCP

from .addresses import ends_of
from .connection_events import ConnectionSetUp
from .locate import Int

if TYPE_CHECKING:
    from .chunk_table import ChunkTable
    from .services import Services

Conversation = tuple[Hashable, Hashable]
"""What both directions have in common, and the end that the packet goes to."""


def conversations(table: ChunkTable, rows: Int) -> list[Conversation]:
    """The conversation of each row, and which of its ends the packet goes to."""
    if table.spoken is not None or not len(rows):
        return [table.spoken] * len(rows) if table.spoken is not None else []
    located, frames = table.located, table.numbers(rows)
    transport = (located.at("bth")[rows] >= 0) & (located.at("mad")[rows] < 0)
    pairs, datagram = table.values_at(BTH.destqp, rows).tolist(), table.first(DETH)[rows] >= 0
    senders = table.values_at(DETH.srcqp, rows).tolist()
    plain = ~transport & (located.at("mad")[rows] < 0)
    ports = [np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)]
    for struct, *fields in ((UDP, UDP.source_port, UDP.destination_port), (TCP, TCP.source_port, TCP.destination_port)):
        there = plain & (table.first(struct)[rows] >= 0)
        ports = [np.where(there, table.values_at(field, rows), known) for field, known in zip(fields, ports, strict=True)]
    near_ports, far_ports = (one.tolist() for one in ports)
    found: list[Conversation] = []
    for i, (source, to) in enumerate(ends_of(table, rows)):
        if not transport[i]:
            found.append(between(source, to, near_ports[i], far_ports[i]))
            continue
        end = to, pairs[i]
        one = connection_at(table.services, end, frames[i])
        if one is not None:
            found.append((("connection", one.req_frame), end))
        elif datagram[i]:
            found.append((frozenset(((source, senders[i]), end)), end))
        else:
            found.append((frozenset((source, to)), to))
    return found


def between(source: Hashable, to: Hashable, near_port: int = 0, far_port: int = 0) -> Conversation:
    """That of a MAD, or of another packet that names no queue pairs, from one end to another; `source` and `to` as `ends_of` has them."""
    near, far = (source, near_port), (to, far_port)
    return frozenset((near, far)), far


def connection_at(services: Services | None, end: Hashable, frame: int) -> ConnectionSetUp | None:
    """The connection of a queue pair at a frame."""
    known = services.connections.by_side.get(end, ()) if services is not None else ()  # type: ignore[call-overload]
    return next((one for one in reversed(known) if one.req_frame <= frame < one.ended), None)
