"""Payloads of the messages between two queue pairs in order, both ways, with keys masked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.decode.hidden.cut_keys import hidden_bytes
from ibdissect.decode.locate import IS_RESPONSE
from ibdissect.dissect.named_values import MESSAGE_KINDS
from ibdissect.transport.message_table import MessageTable

MAX_FOLLOWED = 1 << 20
"""Payload bytes that are put together, from the message of the frame that was asked about; and as many before it."""
MAX_MESSAGES = 500
"""Messages before and after the one asked for."""
WIDTH = 16
FORMS = ("hex", "ascii", "raw")
"""How payloads can be shown."""
Tables = Callable[[list[int]], ChunkTable]
"""Makes a table of some frames, ascending; row i is frames[i]."""


@dataclass(slots=True)
class SentMessage:
    """The payload of one message in one direction."""

    kind: str
    source: str
    destination: str
    forward: bool
    """Sent in the same direction as the requests of the frame that was asked about."""
    first_frame: int
    last_frame: int
    complete: bool
    asked: bool
    """It is the message of that frame."""
    data: bytearray = field(default_factory=bytearray)
    hidden: list[tuple[int, int]] = field(default_factory=list)
    """(start, stop) of bytes that hold a masked key."""
    frames: tuple[int, ...] = ()
    """All frames that carried it."""

    @property
    def title(self) -> str:
        """`SEND 16 bytes, frames 4-5, 192.168.77.1 → 192.168.77.2`."""
        gaps = "" if self.complete else ", incomplete"
        ends = f"{self.source} → {self.destination}"
        size = f"{len(self.data)} bytes" if self.data else "without payload"
        return f"{self.kind} {size}, frames {self.first_frame}-{self.last_frame}{gaps}, {ends}"

    def masked(self) -> bytes:
        """The data with an asterisk for each byte of a masked key."""
        data = bytearray(self.data)
        for start, stop in self.hidden:
            data[start:stop] = b"*" * (stop - start)
        return bytes(data)


def followed(messages: MessageTable, frame: int, tables: Tables, *, show_keys: bool) -> list[SentMessage] | None:
    """The messages of the queue pairs of a frame, in order; None if the frame belongs to no message with a payload."""
    every = messages.columns()
    at = messages.message_of(frame)
    if at is None or every.place[at] < 0:
        return None
    asked = messages.ends_of(int(every.place[at])).source
    mine = messages.conversation(at)
    size, here = np.cumsum(np.maximum(every.bytes[mine], 0)), int(np.flatnonzero(mine == at)[0])
    first = max(here - MAX_MESSAGES, int(np.searchsorted(size, size[here] - MAX_FOLLOWED)))
    mine = mine[first : min(here + MAX_MESSAGES, int(np.searchsorted(size, size[here] + MAX_FOLLOWED)) + 1)]
    packets = [messages.packets_of(index) for index in mine.tolist()]
    frames = np.unique(np.concatenate([one for one, _ in packets]))
    table = tables(frames.tolist())
    found = []
    for index, (some, places) in zip(mine.tolist(), packets, strict=True):
        kind, ends = MESSAGE_KINDS[every.kind[index]], messages.ends_of(int(every.place[index]))
        source, destination = (ends.destination, ends.source) if kind == "READ" else (ends.source, ends.destination)
        message = SentMessage(
            kind, str(source), str(destination), source == asked, int(every.first_frame[index]), int(every.last_frame[index]),
            bool(every.complete[index]), index == at, frames=tuple(some.tolist()),
        )  # fmt: skip
        _fill(message, table, np.searchsorted(frames, some).tolist(), places.tolist(), show_keys=show_keys)
        found.append(message)
    return found


def _fill(message: SentMessage, table: ChunkTable, rows: list[int], places: list[int], *, show_keys: bool) -> None:
    """Put the payloads of a message's packets together: the first copy of each PSN that goes the way of the data, in order of PSNs."""
    located, first = table.located, dict[int, int]()
    payload, end = located.at("payload"), located.payload_end
    for row, place in zip(rows, places, strict=True):
        if payload[row] >= 0 and end[row] > payload[row] and bool(IS_RESPONSE[located.opcode[row]]) == (message.kind == "READ"):
            first.setdefault(place, row)
    for _, row in sorted(first.items()):
        start, low, high = len(message.data), int(payload[row]), int(end[row])
        message.data += table.chunk.data[low:high].tobytes()
        if not show_keys:
            secret = table.shown.once(hidden_bytes)
            first, last = np.searchsorted(secret, (low, high)).tolist()
            message.hidden += [(at, at + 1) for at in (secret[first:last] - low + start).tolist()]


def as_text(message: SentMessage, form: str) -> Iterator[str]:
    """A message's payload as lines: `ascii` (others than printable characters as dots), `hex` (offset, hex, ASCII), `raw` (hex digits)."""
    data, secret = message.masked(), np.zeros(len(message.data), np.bool_)
    for start, stop in message.hidden:
        secret[start:stop] = True
    if form == "ascii":
        yield from "".join(chr(byte) if 32 <= byte < 127 or byte == 10 else "." for byte in data).split("\n")
        return
    pairs = ["**" if hide else f"{byte:02x}" for byte, hide in zip(data, secret.tolist(), strict=True)]
    if form == "raw":
        yield from ("".join(pairs[at : at + 4 * WIDTH]) for at in range(0, len(pairs), 4 * WIDTH))
        return
    for at in range(0, len(pairs), WIDTH):
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data[at : at + WIDTH])
        yield f"{at:08x}  {' '.join(pairs[at : at + 8]):<23}  {' '.join(pairs[at + 8 : at + WIDTH]):<23}  {letters}"
