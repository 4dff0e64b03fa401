"""Upper-layer messages that came in several packets, put together.

The first packet of a message is decoded as far as it goes. The whole belongs to the frame that completed the message, as reassembled
data does in Wireshark. Only SENDs on queue pairs whose service is known are put together, and only if all their packets are in the capture
in order; repetitions do not count. What RPC-over-RDMA moves by RDMA becomes a part of its message (`rdma_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.conversation_keys import connection_at
from ibdissect.decode.identity import QpNumber, Side
from ibdissect.decode.locate import GOES_ON, IN_STREAM, IS_RESPONSE, LEAVES_OPEN, STARTS_WRITE
from ibdissect.decode.payloads import about
from ibdissect.decode.reassembled import SPAN, FrameSpan, JoinedRecords, WholeMessage
from ibdissect.decode.services import FIRST, IN_PARTS, LAST, ONLY, PART, Services
from ibdissect.engine.opcode_parts import NO_MESSAGE, READ, WRITE
from ibdissect.wire.headers import BTH, PSNS, RETH
from ibdissect.wire.opcodes import OPERATION, READ_FIRST, READ_ONLY, READ_REQUEST
from ibdissect.wire.places import CmPayload
from ibdissect.wire.ulp import rpcrdma

from .pdu_streams import PduStreams, first_psns, streams_of
from .rpc_rdma_chunks import Chunks, Range
from .tcp_streams import TcpStreams

MAX_OPEN = 4096
"""Messages that are not complete; the oldest is given up first."""
MAX_BYTES = 1 << 20
"""Bytes of a message; a longer one is given up."""
WITH_RDMA = (
    np.isin(np.arange(256), list(PART)) | STARTS_WRITE | (GOES_ON == WRITE) | (GOES_ON == READ)
    | (IN_STREAM & np.isin(np.arange(256) & OPERATION, (READ_REQUEST, READ_FIRST, READ_ONLY)))
)  # fmt: skip
"""All packets of SENDs, WRITEs and READs."""
RPC = CmPayload(rpcrdma.SERVICE)


class _Packet(Record):
    """A packet of a SEND, WRITE or READ."""

    source: End
    to: Side
    queue_pair: int
    psn: int
    code: int
    service: int
    side: int
    complete: bool
    data: bytes
    span: FrameSpan
    memory: Range
    """Of its RETH, if it has one."""


class _Open(Record):
    """A message so far."""

    psn: int
    """PSN of the packet that continues it."""
    parts: list[bytes]
    spans: list[FrameSpan]
    size: int = 0

    @property
    def memory(self) -> int:
        return self.size + SPAN * len(self.spans)


class MessageJoiner:
    """Puts messages together. Feed it tables in capture order, after `services` have learnt from them."""

    def __init__(self, found: JoinedRecords, services: Services) -> None:
        self._found, self._services = found, services
        self._open = BoundedDict[tuple[Side, QpNumber], _Open](MAX_OPEN, "messages of several packets")
        self._chunks = Chunks()
        self._held = self._chunks.held
        self._held.waiting.append(self._open)
        self._streams, self._tcp = PduStreams(), TcpStreams()
        found.makers += [self._streams, self._tcp]

    def feed(self, table: ChunkTable) -> None:
        """Take the packets of a chunk; messages that they complete go to `found`."""
        if len(table):
            self._found.begin(table.chunk.first, int(table.chunk.time_ns[0]))
        over_tcp = list(self._tcp.feed(table))
        found = [*self._messages(table), *over_tcp] if self._services.any else over_tcp
        for frame, message in sorted(found, key=itemgetter(0)) if over_tcp else found:
            self._found.put(frame, message)

    def _messages(self, table: ChunkTable) -> Iterator[tuple[int, WholeMessage]]:
        """What the packets of a chunk complete, with their frames."""
        streams = streams_of(table.catalog)
        for packet in self._packets(table):
            if streams and self._streams.claim(table, packet):
                time_ns = int(table.chunk.time_ns[packet.span.frame - table.chunk.first])
                since = self._services.since(packet.queue_pair, packet.to.end.address, time_ns)
                starts = first_psns(connection_at(self._services, (packet.to.end, packet.queue_pair), packet.span.frame))
                yield from ((packet.span.frame, pdu) for pdu in self._streams.take(packet, since, table, time_ns, starts))
                continue
            message = self._take_send(packet) if packet.code in PART else self._take_rdma(packet)
            if message is not None:
                yield packet.span.frame, message

    def _packets(self, table: ChunkTable) -> Iterator[_Packet]:
        """The packets of SENDs to services with a declared structure, and those that move chunks of RPC-over-RDMA."""
        of_interest = WITH_RDMA if self._services.serves(rpcrdma.SERVICE) or streams_of(table.catalog) else IN_PARTS
        rows, services, sides = self._services.messages(table, of_interest)
        if not len(rows):
            return
        claimed = self._relevant(table, rows, services)
        if not len(claimed):
            return
        rows, services, sides = rows[claimed], [services[i] for i in claimed], [sides[i] for i in claimed]
        loc, chunk = table.located, table.chunk
        fields = (BTH.psn, BTH.destqp, RETH.r_key, RETH.va, RETH.dmalen)
        numbers, pairs, *memory = (table.of_rows(field)[0][rows].tolist() for field in fields)
        codes, whole = loc.opcode[rows].tolist(), loc.complete[rows].tolist()
        starts, stops, frames = loc.at("payload")[rows], loc.payload_end[rows].tolist(), chunk.offset[rows].tolist()
        starts = np.where(starts < 0, stops, starts).tolist()
        for i, (row, (source, to)) in enumerate(zip(rows.tolist(), ends_of(table, rows), strict=True)):
            yield _Packet(
                source, Side.of(to), pairs[i], numbers[i], codes[i], services[i], sides[i], whole[i],
                chunk.data[starts[i] : stops[i]].tobytes(), FrameSpan(chunk.first + row, starts[i] - frames[i], stops[i] - starts[i]),
                (memory[0][i], memory[1][i], memory[2][i]),
            )  # fmt: skip

    def _relevant(self, table: ChunkTable, rows: Int, services: list[int]) -> Int:
        """Which of the packets belong to SENDs in several packets, to services with a declared structure or to RPC-over-RDMA."""
        places = (place for struct in table.catalog.structs for place in struct.carried_by if isinstance(place, CmPayload))
        wanted, numbers = np.zeros(len(services), np.bool_), np.array(services, np.uint64)
        for place in set(places):
            wanted |= about(table, place, numbers)
        wanted &= IN_PARTS[table.located.opcode[rows]]
        for over, _ in streams_of(table.catalog):
            wanted |= about(table, over, numbers)
        return np.flatnonzero(wanted | about(table, RPC, numbers))

    def _take_send(self, packet: _Packet) -> WholeMessage | None:
        """Take a packet of a SEND; returns the message that it completes, with its chunks."""
        part, to = PART[packet.code], (packet.to, packet.queue_pair)
        if part == ONLY:
            one = _Open(0, [packet.data], [packet.span]) if packet.complete else None
        elif (one := self._taking(to, packet.psn, part, packet.complete)) is not None:
            one.parts.append(packet.data)
            one.spans.append(packet.span)
            one.size += len(packet.data)
            self._held.add(SPAN + len(packet.data))
        if one is None:
            return None
        if part in (ONLY, LAST):
            if part == LAST:
                self._end(to)
            message = WholeMessage(b"".join(one.parts), tuple(one.spans), packet.service, packet.side, one.spans[0].length)
            return self._chunks.on_message(message, packet.source, to) or (message if part == LAST else None)
        if one.size > MAX_BYTES:
            self._end(to)
        return None

    def _take_rdma(self, packet: _Packet) -> WholeMessage | None:
        """Take a READ request, or a packet of a READ response or WRITE; returns the call that it completes."""
        code, to, psn = packet.code, (packet.to, packet.queue_pair), packet.psn
        if code & OPERATION == READ_REQUEST:
            self._chunks.on_read_request(packet.source, packet.to.end, psn, packet.memory)
            return None
        if STARTS_WRITE[code]:
            self._chunks.on_write(packet.source, to, psn, packet.memory)
        if not packet.complete:
            return None
        is_read, goes_on = bool(IS_RESPONSE[code]), LEAVES_OPEN[code] != NO_MESSAGE
        return self._chunks.on_data(to, psn, packet.data, packet.span, is_read=is_read, goes_on=goes_on)

    def _taking(self, key: tuple[Side, QpNumber], psn: int, part: int, complete: bool) -> _Open | None:
        """The message that a packet begins or continues; None if it has none, is repeated, or shows that the message is incomplete."""
        one = self._open.get(key)
        behind = (one.psn - 1 - psn) % PSNS if one is not None else 0
        if one is not None and behind < len(one.parts):
            return None  # repeated
        good = complete and (part == FIRST or (one is not None and psn == one.psn))
        if part == FIRST or not good:
            self._end(key)
        if not good:
            return None
        if part == FIRST or one is None:
            one = _Open(psn, [], [])
            if (lost := self._open.put(key, one)) is not None:
                self._held.add(-lost[1].memory)
        one.psn = (psn + 1) % PSNS
        return one

    def _end(self, key: tuple[Side, QpNumber]) -> None:
        one = self._open.pop(key, None)
        if one is not None:
            self._held.add(-one.memory)
