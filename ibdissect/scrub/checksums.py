"""Checksums of a scrubbed packet: correct ones stay correct, wrong ones stay wrong; a frame that is cut off gets none."""

from __future__ import annotations

import numpy as np

from ibdissect.capture.gather import Bytes
from ibdissect.decode import ChunkTable, crcs
from ibdissect.wire.encapsulation import UDP, GREChecksum, IPv4, OuterIPv4, OuterUDP
from ibdissect.wire.spec import Field, Struct

IP_CHECKSUM, IP_WORDS = 5, 10
UDP_CHECKSUM, UDP_LENGTH = 6, 4
WITHOUT_OPTIONS = 0x45
"""First byte of an IPv4 header without options."""
_OF_TUNNELS: tuple[Field[int], ...] = (OuterUDP.checksum, GREChecksum.checksum)
"""Checksums over whole packets inside tunnels: senders may leave them out, a scrubbed copy always does."""


def seal(old: ChunkTable, new: ChunkTable) -> None:
    """Write the checksums of `new`, whose packets have the same offsets as those of `old`; a zero (absent) checksum stays zero."""
    _ip4(old, new)
    _ip4(old, new, OuterIPv4)
    _crc(crcs.icrc_sums(old), crcs.icrc_sums(new), new.chunk.data, 4)
    _crc(crcs.vcrc_sums(old), crcs.vcrc_sums(new), new.chunk.data, 2)
    _udp(old, new)
    for field in _OF_TUNNELS:
        at = old.occurrences(field.owner).at
        new.chunk.data[at[:, None] + np.arange(*field.span)] = 0


def _crc(old: crcs.PacketCrcs, new: crcs.PacketCrcs, data: Bytes, size: int) -> None:
    """Of packets that are found in the copy, too: behind headers that are removed nobody finds one."""
    ones, same = np.uint32((1 << 8 * size) - 1), np.isin(old.rows, new.rows)
    right, stored, wanted = new.wanted, old.stored[same], old.wanted[same]
    wrong = np.where(right == ones, right ^ np.uint32(1), right ^ ones)
    value = np.where(stored == wanted, right, np.where(stored == 0, np.uint32(0), wrong)).astype("<u4")
    data[new.at[:, None] + np.arange(size)] = value.view(np.uint8).reshape(len(value), 4)[:, :size]


def _ip4(old: ChunkTable, new: ChunkTable, struct: type[Struct] = IPv4) -> None:
    """Compute header checksums. A wrong one does not keep its error: that of a checksum never filled in is the sum of the addresses."""
    at = old.occurrences(struct).at
    index = at[:, None] + np.arange(2 * IP_WORDS)
    was, now = (table.chunk.data[index].view(">u2").astype(np.int64) for table in (old, new))
    stored, now[:, IP_CHECKSUM] = was[:, IP_CHECKSUM], 0
    # Options after the header are zero now.
    options = np.zeros(len(at), np.int64)
    for i in np.flatnonzero(old.chunk.data[at] != WITHOUT_OPTIONS).tolist():
        options[i] = _sum(old.chunk.data, int(at[i]) + 20, int(at[i]) + 4 * (int(old.chunk.data[at[i]]) & 15))
    right = -now.sum(axis=1) % 0xFFFF
    correct = (was.sum(axis=1) + options) % 0xFFFF == 0
    value = np.where(correct, right, np.where(stored == 0, 0, right + 1)).astype(">u2")
    new.chunk.data[at[:, None] + 2 * IP_CHECKSUM + np.arange(2)] = value.view(np.uint8).reshape(len(value), 2)


def _udp(old: ChunkTable, new: ChunkTable) -> None:
    """Compute checksums of whole datagrams; a truncated datagram gets 1, which cannot be verified."""
    located, before, after = old.located, old.chunk.data, new.chunk.data
    found = old.occurrences(UDP)
    used = (before[found.at + UDP_CHECKSUM] | before[found.at + UDP_CHECKSUM + 1]) != 0
    for row, at in zip(found.rows[used].tolist(), found.at[used].tolist(), strict=True):
        stop = at + int.from_bytes(before[at + UDP_LENGTH : at + UDP_LENGTH + 2].tobytes(), "big")
        ip4, ip6 = int(located.at("ip4")[row]), int(located.at("ip6")[row])
        addresses = (ip4 + 12, ip4 + 20) if ip4 >= 0 else (ip6 + 8, ip6 + 40)
        after[at + UDP_CHECKSUM : at + UDP_CHECKSUM + 2] = 0
        if stop > int(located.end[row]) or stop < at + 8:
            after[at + UDP_CHECKSUM + 1] = 1
            continue
        pseudo = 17 + stop - at
        right = (_sum(before, *addresses) + _sum(before, at, stop) + pseudo) % 0xFFFF == 0
        value = 0xFFFF - (_sum(after, *addresses) + _sum(after, at, stop) + pseudo) % 0xFFFF
        if not right:
            value = value % 0xFFFF + 1
        after[at + UDP_CHECKSUM : at + UDP_CHECKSUM + 2] = np.frombuffer(value.to_bytes(2, "big"), np.uint8)


def _sum(data: Bytes, start: int, stop: int) -> int:
    """The ones' complement sum of 16-bit words; an odd last byte is the upper half of a word."""
    taken = data[start:stop].tobytes()
    return int.from_bytes(taken + bytes(len(taken) % 2), "big") % 0xFFFF
