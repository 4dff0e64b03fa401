"""TCP segments: their data and their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import gather
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.ulp.ip import TCP, InnerIPv4, InnerIPv6

from .addresses import network_bytes
from .bit_fields import value_at
from .identity import SocketId
from .locate import Bool, Int
from .occurrences import Occurrences

if TYPE_CHECKING:
    from .chunk_table import ChunkTable

HEADERS = (IPv4, IPv6, InnerIPv4, InnerIPv6)


class Segments(Record, frozen=True, eq=False):
    """Segments to or from one port, in the order of rows."""

    data: Occurrences
    """Their data, without what stands behind the IP packet."""
    head: Int
    """Where their TCP headers are, int64[k]."""
    complete: Bool
    """Whether all of their data was captured."""
    ends: list[tuple[SocketId, SocketId]]
    """Source and destination."""
    unread: Occurrences
    """What stands behind the TCP headers of others to or from the port, whose lengths contradict each other."""


def segments_of(table: ChunkTable, port: int) -> Segments:
    """The segments to or from a port, found once for each table."""
    known: dict[int, Segments] = table.results(segments_of)
    if port not in known:
        known[port] = _find(table, port)
    return known[port]


def _find(table: ChunkTable, port: int) -> Segments:
    """The segments to or from a port. A length of 0 in the IP header, as adapters leave it that cut segments themselves, means all that
    follows.
    """
    found, data = table.occurrences(TCP), table.chunk.data
    ports = [value_at(data, found.at, field) for field in (TCP.source_port, TCP.destination_port)]
    found = found.pick((ports[0] == port) | (ports[1] == port))
    which, start, end = _packets(table, found)
    at = found.at + value_at(data, found.at, TCP.header_length).astype(np.int64) * 4
    known = (which >= 0) & (at >= found.at + TCP.size) & (at <= end)
    others = found.pick(~known)
    unread = Occurrences(others.rows, others.at + TCP.size, others.stop)
    which, start, end, at, found = which[known], start[known], end[known], at[known], found.pick(known)
    stop = np.minimum(end, found.stop)
    numbers = gather(data, found.at, 4)
    ends: list[tuple[SocketId, SocketId]] = []
    networks = table.networks[found.rows].tolist() if table.networks is not None else [0] * len(found)
    for k, (header, begin) in enumerate(zip(which.tolist(), start.tolist(), strict=True)):
        source, destination = HEADERS[header].source, HEADERS[header].destination
        low, high = source.span
        width = high - low
        addresses = data[begin + low : begin + low + 2 * width].tobytes()
        assert destination.span[0] == high, "a destination follows its source"
        network = network_bytes(networks[k])
        source_port, port_there = (numbers[k, part].tobytes() for part in (slice(2), slice(2, 4)))
        ends.append((SocketId(addresses[:width] + source_port + network), SocketId(addresses[width:] + port_there + network)))
    return Segments(Occurrences(found.rows, np.minimum(at, stop), stop), found.at, end <= found.stop, ends, unread)


def _packets(table: ChunkTable, found: Occurrences) -> tuple[Int, Int, Int]:
    """Of each segment: which kind of IP header stands before it (-1: none), where, and where the packet ends by it."""
    which, start, end = np.full(len(found), -1), np.full(len(found), -1), np.full(len(found), -1)
    data = table.chunk.data
    for number, header in enumerate(HEADERS):
        there = table.occurrences(header)
        if not len(there) or not len(found):
            continue
        before = np.searchsorted(there.at, found.at) - 1
        mine = (before >= 0) & (there.rows[before] == found.rows) & (there.at[before] > start)
        at = there.at[before[mine]]
        if issubclass(header, IPv4):
            size = value_at(data, at, IPv4.total_length).astype(np.int64)
            given = size
        else:
            given = value_at(data, at, IPv6.payload_length).astype(np.int64)
            size = given + IPv6.size
        which[mine], start[mine], end[mine] = number, at, np.where(given > 0, at + size, found.stop[mine])
    return which, start, end
