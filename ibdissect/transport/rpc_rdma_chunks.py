"""Data of RPC-over-RDMA calls and replies that were moved by RDMA READ and RDMA WRITE (RFC 8166 3.4 and 3.5).

A call offers memory: read chunks are parts of the call itself, a reply chunk is room for the whole reply. Bytes are put back only where the
capture shows all packets, in order, from the READ request or the first WRITE on: with the R_Key and the addresses of the offer, between its
two ends. Data of write lists are not put back, as only the upper layer knows where they belong. Nor is the padding of XDR.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, ByteLimit
from ibdissect.decode.addresses import End
from ibdissect.decode.identity import Code, Index, MemoryId, QpNumber, Side
from ibdissect.decode.reassembled import SPAN, FrameSpan, WholeMessage
from ibdissect.wire.headers import PSNS
from ibdissect.wire.ulp.rpcrdma import INLINE, NO_INLINE, RPCRDMA, VERSION, ChunkLists, RPCRDMAReadChunk, RPCRDMASegment, chunk_lists

MAX_SEGMENTS = 4096
"""Segments of memory that are offered at once; the oldest is given up first."""
MAX_MOVING = 16384
"""READs and WRITEs under way."""
MAX_BYTES = 1 << 20
"""Bytes of a message in a segment; a longer one is given up."""
MAX_HELD = 64 << 20
"""Memory of all messages that are not complete, or wait for their chunks, in bytes; when they take more, all are given up."""
CALL = bytes(4)
Part = tuple[bytes, FrameSpan]
Range = tuple[int, int, int]
"""R_Key, address and length of memory."""
Place = tuple[Side, QpNumber]
"""An end and its queue pair."""


class _RpcCall(Record, eq=False):
    """A call, its source and destination, and the memory that is to be read for it."""

    message: WholeMessage
    lists: ChunkLists
    client: End
    server: Place
    missing: int
    """Bytes that are still to be read."""


class _Memory(Record, eq=False):
    """A segment of memory that a call offers, and the data that came from there or went there so far."""

    number: int
    call: _RpcCall
    segment: RPCRDMAReadChunk | RPCRDMASegment
    parts: list[Part]
    got: int = 0

    @property
    def is_read(self) -> bool:
        return isinstance(self.segment, RPCRDMAReadChunk)

    @property
    def size(self) -> int:
        return len(self.call.message.data) + SPAN * (1 + len(self.parts)) + self.got


class Chunks:
    """Puts chunks back into messages. Call its methods in capture order."""

    def __init__(self) -> None:
        self._offered = BoundedDict[MemoryId, _Memory](MAX_SEGMENTS, "memory offered by RPC-over-RDMA")
        self._moving = BoundedDict[tuple[Side, QpNumber, Code, bool], tuple[MemoryId, int, int]](MAX_MOVING)
        """By receiver, PSN, and whether it is of a READ: key and number of the memory that the next packet belongs to, and the address."""
        self.held, self._numbers = ByteLimit(MAX_HELD, self._offered, self._moving), count()

    def on_message(self, message: WholeMessage, source: End, to: Place) -> WholeMessage | None:
        """A message was sent. Returns the whole reply if the message is the header of a reply that was written before."""
        header = RPCRDMA(message.data) if len(message.data) >= RPCRDMA.size else None
        kind = header.message_type if header is not None and header.version == VERSION else None
        lists = chunk_lists(message.data[RPCRDMA.size :]) if kind in (INLINE, NO_INLINE) else None
        if lists is None:
            return None
        if kind == NO_INLINE and not lists.reads:
            return self._reply(message, to[0].end, source, lists.reply)
        if kind == NO_INLINE or message.data[RPCRDMA.size + lists.rpc + 4 :][:4] == CALL:
            call = _RpcCall(message, lists, source, to, sum(segment.length for segment in lists.reads))
            segments: list[RPCRDMAReadChunk | RPCRDMASegment] = [*lists.reads, *lists.reply]
            for segment in segments:
                self._drop(MemoryId(source, segment.handle))
                memory = _Memory(next(self._numbers), call, segment, [])
                lost = self._offered.put(MemoryId(source, segment.handle), memory)
                self.held.add(memory.size - (lost[1].size if lost is not None else 0))
        return None

    def on_read_request(self, source: End, client: End, psn: int, what: Range) -> None:
        """A READ request."""
        memory = self._of(client, what)
        if memory is not None and memory.is_read and memory.call.server[0].end == source:
            self._moving.put((*memory.call.server, psn, True), (MemoryId(client, what[0]), memory.number, what[1]))

    def on_write(self, source: End, to: Place, psn: int, what: Range) -> None:
        """The first packet of a WRITE; `on_data` takes its data."""
        memory = self._of(to[0].end, what)
        if memory is not None and not memory.is_read and memory.call.server[0].end == source:
            self._moving.put((*to, psn, False), (MemoryId(to[0].end, what[0]), memory.number, what[1]))

    def on_data(self, to: Place, psn: int, data: bytes, span: FrameSpan, *, is_read: bool, goes_on: bool) -> WholeMessage | None:
        """The data of a READ response or a WRITE; `goes_on`: another packet follows. Returns the call if it is complete now."""
        key, number, at = self._moving.pop((*to, psn, is_read), (None, 0, 0))
        memory = self._offered.get(key) if key is not None else None
        if key is None or memory is None or memory.number != number:
            return None
        if goes_on:
            self._moving.put((*to, (psn + 1) % PSNS, is_read), (key, number, at + len(data)))
        if at != memory.segment.offset_ + memory.got or memory.got + len(data) > min(memory.segment.length, MAX_BYTES):
            return None  # repeated, or something is missing in front of it
        memory.parts.append((data, span))
        memory.got += len(data)
        self.held.add(SPAN + len(data))
        memory.call.missing -= len(data) if is_read else 0
        return self._complete(memory.call) if is_read and not memory.call.missing else None

    def _of(self, client: End, what: Range) -> _Memory | None:
        """The offered memory that a range lies in."""
        key, address, length = what
        memory = self._offered.get(MemoryId(client, key))
        if memory is None or not 0 <= address - memory.segment.offset_ <= memory.segment.length - length:
            return None
        return memory

    def _drop(self, key: MemoryId) -> _Memory | None:
        memory = self._offered.pop(key, None)
        self.held.add(-memory.size if memory is not None else 0)
        return memory

    def _reply(self, message: WholeMessage, client: End, server: End, reply: list[RPCRDMASegment]) -> WholeMessage | None:
        """The reply: its header, with what was written to the client's memory."""
        parts: list[Part] = []
        for segment in reply:
            memory = self._drop(MemoryId(client, segment.handle))
            owner = memory.call.server[0].end if memory is not None else None
            if memory is None or memory.is_read or owner != server:
                return None
            if (memory.segment.offset_, memory.got) != (segment.offset_, segment.length):
                return None
            parts += memory.parts
        return _whole(message, [*_parts(message), *parts], parts, message.spans[0].length) if parts else None

    def _complete(self, call: _RpcCall) -> WholeMessage | None:
        """A call with all of its chunks; None if it has chunks in several places."""
        chunks: dict[Index, list[Part]] = {}
        for segment in call.lists.reads:
            memory = self._drop(MemoryId(call.client, segment.handle))
            if memory is None or memory.call is not call:
                return None
            chunks.setdefault(segment.position, []).extend(memory.parts)
        moved = [part for parts in chunks.values() for part in parts]
        start, stream = RPCRDMA.size + call.lists.rpc, list(_parts(call.message))
        known = start + min(chunks)
        if 0 in chunks:
            if len(call.message.data) > start:
                return None  # the call is inline
            stream += chunks.pop(0)
        for position, parts in chunks.items():
            before, after = _split(stream, start + position)
            if len(chunks) > 1 or sum(len(data) for data, _ in before) < start + position:
                return None
            stream = [*before, *parts, *after]
        return _whole(call.message, stream, moved, known)


def _parts(message: WholeMessage) -> Iterator[Part]:
    at = 0
    for span in message.spans:
        yield message.data[at : at + span.length], span
        at += span.length


def _split(parts: Iterable[Part], at: int) -> tuple[list[Part], list[Part]]:
    """The parts up to a byte, and those from there on."""
    before: list[Part] = []
    after: list[Part] = []
    for data, span in parts:
        cut = min(max(at, 0), len(data))
        if cut:
            before.append((data[:cut], FrameSpan(span.frame, span.offset, cut)))
        if cut < len(data):
            after.append((data[cut:], FrameSpan(span.frame, span.offset + cut, len(data) - cut)))
        at -= len(data)
    return before, after


def _whole(message: WholeMessage, parts: list[Part], moved: list[Part], known: int) -> WholeMessage:
    spans, chunks = (tuple(span for _, span in some) for some in (parts, moved))
    return WholeMessage(b"".join(data for data, _ in parts), spans, message.service, message.side, known, chunks)
