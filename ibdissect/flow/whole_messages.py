"""Which messages of upper layers came in several packets, and what do they say as a whole?

The first packet of a message is decoded as far as it goes. The whole belongs to the frame that completed the message, as reassembled
data does in Wireshark. Only SENDs on queue pairs whose service is known are put together, and only if all their packets are in the capture
in order; repetitions do not count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict
from ibdissect.dissect.build import dissect_row
from ibdissect.dissect.tree import Node, Tree
from ibdissect.dissect.value import Presenter
from ibdissect.table.addresses import ends_of
from ibdissect.table.joined import SPAN, JoinedRecords, Span, WholeMessage
from ibdissect.table.locate import Int
from ibdissect.table.payloads import about
from ibdissect.table.services import Services
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.places import CmPayload
from ibdissect.wire.text import counted
from ibdissect.wire.transport import BTH

from .reassembly import Reassembled
from .transfers import joined_in, outline, plain

MAX_OPEN = 4096
"""Messages that are not complete; the oldest is given up first."""
MAX_BYTES = 1 << 20
"""Bytes of a message; a longer one is given up."""
MAX_HELD = 64 << 20
"""Memory of all messages that are not complete, in bytes; when they take more, all are given up."""
PSN_BITS = 24
FIRST, MIDDLE, LAST = range(3)
_PARTS = {"first": FIRST, "middle": MIDDLE, "last": LAST}
PART: dict[int, int] = {
    code: part
    for code, opcode in OPCODES.items()
    for word, part in _PARTS.items()
    if opcode.operation.casefold().startswith("send") and word in opcode.operation.casefold()
}
"""Which part of a SEND of several packets an OpCode is."""
IN_PARTS = np.isin(np.arange(256), list(PART))


class _Open(Record):
    """A message so far."""

    psn: int
    """Of the packet that goes on with it."""
    parts: list[bytes]
    spans: list[Span]
    size: int = 0

    @property
    def memory(self) -> int:
        return self.size + SPAN * len(self.spans)


class MessageJoiner:
    """Puts messages together. Feed it tables in capture order, after `services` have learnt from them."""

    def __init__(self, found: JoinedRecords, services: Services) -> None:
        self._found, self._services = found, services
        self._open = BoundedDict[tuple[bytes, int], _Open](MAX_OPEN, "messages of several packets")
        self._held = 0

    def feed(self, table: ChunkTable) -> None:
        """Take the packets of a chunk; messages that they complete go to `found`."""
        rows, services, sides = self._services.messages(table, IN_PARTS)
        if not len(rows) or not len(claimed := self._claimed(table, services)):
            return
        rows, services, sides = rows[claimed], [services[i] for i in claimed], [sides[i] for i in claimed]
        loc = table.located
        numbers, pairs = (table.of_rows(field)[0][rows].tolist() for field in (BTH.psn, BTH.destqp))
        whole, starts, stops = loc.complete[rows].tolist(), loc.at("payload")[rows].tolist(), loc.payload_end[rows].tolist()
        for i, (row, (_, to)) in enumerate(zip(rows.tolist(), ends_of(table, rows), strict=True)):
            one = self._taking((bytes(to), pairs[i]), numbers[i], PART[int(loc.opcode[row])], whole[i])
            if one is None:
                continue
            one.parts.append(table.chunk.data[starts[i] : stops[i]].tobytes())
            one.spans.append(Span(table.chunk.first + row, starts[i] - int(table.chunk.offset[row]), stops[i] - starts[i]))
            one.size += stops[i] - starts[i]
            self._held += SPAN + stops[i] - starts[i]
            if PART[int(loc.opcode[row])] == LAST:
                self._end((bytes(to), pairs[i]))
                message = WholeMessage(b"".join(one.parts), tuple(one.spans), services[i], sides[i])
                self._found.put(table.chunk.first + row, message)
            elif one.size > MAX_BYTES:
                self._end((bytes(to), pairs[i]))
            elif self._held > MAX_HELD:
                self._open.clear()
                self._held = 0

    def _claimed(self, table: ChunkTable, services: list[int]) -> Int:
        """Which of the services a structure is for."""
        places = (place for struct in table.catalog.structs for place in struct.carried_by if isinstance(place, CmPayload))
        wanted, numbers = np.zeros(len(services), np.bool_), np.array(services, np.uint64)
        for place in set(places):
            wanted |= about(table, place, numbers)
        return np.flatnonzero(wanted)

    def _taking(self, key: tuple[bytes, int], psn: int, part: int, complete: bool) -> _Open | None:
        """The message that a packet goes on with, or begins; None if it is of none, repeats one, or ends what can no longer be complete."""
        one = self._open.get(key)
        behind = (one.psn - 1 - psn) % (1 << PSN_BITS) if one is not None else 0
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
                self._held -= lost[1].memory
        one.psn = (psn + 1) % (1 << PSN_BITS)
        return one

    def _end(self, key: tuple[bytes, int]) -> None:
        one = self._open.pop(key, None)
        if one is not None:
            self._held -= one.memory


def headline(message: WholeMessage) -> str:
    """`4 packets, 8312 bytes, frames 20-23`."""
    frames = [span.frame for span in message.spans]
    return f"{counted(len(frames), 'packet')}, {counted(len(message.data), 'byte')}, frames {min(frames)}-{max(frames)}"


def layers_of(message: WholeMessage, catalog: Catalog, services: Services, presenter: Presenter) -> list[Node]:
    """What a message says as a whole; offsets count from its start."""
    return dissect_row(ChunkTable.of_message(message, message.spans[-1].frame, catalog, services), 0, presenter).layers


def messages_in(table: ChunkTable) -> dict[int, WholeMessage]:
    """The messages that frames of the chunk completed, by frame."""
    return {table.chunk.first + row: one for row, one in table.shown.joined if isinstance(one, WholeMessage)}


def completed(table: ChunkTable, row: int, presenter: Presenter, ended: Reassembled | None = None) -> list[Node]:
    """What a row completes, for `Tree.joined`: records that straddle segments (all records of a transfer that `ended`), and a message."""
    frame = table.chunk.first + row
    layers = outline(ended, table.once(joined_in).get(frame, ()), table.catalog, presenter)
    if (message := table.once(messages_in).get(frame)) is not None:
        below = layers_of(message, table.catalog, table.services, presenter)
        layers.append(Node("", "Message", 0, 0, 0, 0, None, headline(message), below, raw=message.data))
    return layers


def whole_tree(table: ChunkTable, presenter: Presenter) -> Tree:
    """The tree of a table of one row, with what the row completes."""
    tree = dissect_row(table, 0, presenter)
    tree.joined = completed(table, 0, presenter)
    return tree


def as_json(message: WholeMessage, table: ChunkTable, presenter: Presenter) -> dict[str, Any]:
    """The same as `show --format json` writes it; docs/contract.md describes the keys."""
    pieces = [{"frame": span.frame, "offset": span.offset, "length": span.length} for span in message.spans]
    layers = [plain(node) for node in layers_of(message, table.catalog, table.services, presenter)]
    return {
        "text": headline(message), "pieces": pieces,
        "layers": [{"layer": one["label"], "offset": one["offset"], "length": one["length"], "fields": one["fields"]} for one in layers],
    }  # fmt: skip
