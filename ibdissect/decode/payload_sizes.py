"""Sizes of frames and of packets' payloads on the wire, however many of their bytes were captured."""

from __future__ import annotations

import numpy as np

from ibdissect.capture.gather import looked_up
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import BTH, ICRC
from ibdissect.wire.opcodes import OPCODES

from .bit_fields import value_at
from .chunk_table import ChunkTable
from .locate import EXTENDED_SIZE, Int

_HEADERS = (BTH.size + EXTENDED_SIZE).astype(np.int64)
_FULL = np.array([code in OPCODES and OPCODES[code].operation.split()[-1] in ("First", "Middle") for code in range(256)])
"""OpCodes of packets that are filled up to the MTU: they have no pad bytes, whatever their headers say."""


def payload_sizes(table: ChunkTable, rows: Int) -> Int:
    """Bytes of payload of packets, int64[n], without pad bytes and ICRC; -1 where no header says. `rows` have a BTH.

    The length is that of the header that gives one: LRH, GRH, IP or UDP (of a first IP fragment: UDP, which counts
    all fragments). It is not believed where the frame was too short for it.
    """
    located = table.located
    stop, at, opcode = located.stop.take(rows), located.at("bth").take(rows), located.opcode.take(rows)
    pad = table.values_at(BTH.padcnt, rows).astype(np.int64) * ~looked_up(opcode, _FULL)
    size: Int = stop - ICRC.size - pad - at - _HEADERS.take(opcode)
    whole = located.complete.take(rows)
    if whole.all():
        return np.maximum(size, 0)
    fits = stop - table.chunk.offset.take(rows) <= located.length.take(rows)
    fits |= table.values_at(IPv4.more_fragments, rows).astype(np.bool_)
    found: Int = np.where(whole, np.maximum(size, 0), np.where(fits, np.maximum(size, -1), -1))
    return found


_LENGTHS = {"ip4": (IPv4.total_length, 0), "ip6": (IPv6.payload_length, IPv6.size)}
"""By column of `Located.start` what a header says of its packet's length, and how much of the packet that leaves out."""


def frame_sizes(table: ChunkTable) -> Int:
    """Bytes of each frame, int64[n]: those that its record counts, or more if an IP packet in it, or around a tunnel, is longer. A mirror
    cuts frames without saying so. Call as `table.once(frame_sizes)`.
    """
    found: Int = table.chunk.length.astype(np.int64)
    for name, start in table.located.start.items():
        if (told := _LENGTHS.get(name.partition(".")[0])) is not None:
            length, more = told
            rows = np.flatnonzero(start >= 0)
            stop = start[rows] + more + value_at(table.chunk.data, start[rows], length)
            found[rows] = np.maximum(found[rows], stop - table.chunk.offset[rows])
    return found
