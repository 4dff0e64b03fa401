"""UDP datagrams to the port of RoCE that are something else."""

from __future__ import annotations

import numpy as np

from ibdissect.capture.gather import flags, looked_up
from ibdissect.engine.offsets import NO_BTH
from ibdissect.wire.headers import BTH
from ibdissect.wire.numbers import BASE
from ibdissect.wire.opcodes import DEFINED

from .bit_fields import extract
from .chunk_table import ChunkTable
from .crcs import icrc_sums
from .equal_rows import is_in
from .header_cache import u16
from .locate import Int

SERVICE_PORTS = 1024
"""Below are the UDP ports of services (RFC 6335, system ports): what they answer goes to any port that a client chose."""
_BEHIND_P_KEY = BTH.p_key.span[1]
_DEFINED = flags(sorted(DEFINED))


def leave_out(table: ChunkTable) -> Int:
    """Rows of other datagrams, int64[k]. Their headers are removed from the table, so that nobody takes them for packets."""
    rows = find(table)
    if rows.size:
        table.leave_out(rows)
    return rows


def find(table: ChunkTable) -> Int:
    """Rows of other datagrams, int64[k].

    RoCE has one partition, senders clear the version and the reserved bits of the BTH, none has the port of a service, and OpCodes are
    defined. A datagram with another partition and a wrong ICRC that violates one of these, too, is not RoCE: damage seldom changes both,
    and a faulty sender computes the ICRC of what it sends. Nor is one that is too short for a BTH: nothing in it says that it is; nor one
    in another partition with nothing but zeros behind the P_Key, or with a BTH of ones, as generators fill it: it names no queue pair.
    """
    located = table.located
    if "udp" not in located.start:
        return np.empty(0, np.int64)
    short = np.flatnonzero((located.malformed == NO_BTH) & (located.at("udp") >= 0))
    rows = np.flatnonzero((located.at("bth") >= 0) & (located.at("udp") >= 0))
    at = located.at("bth").take(rows)
    ones = np.flatnonzero(located.opcode.take(rows) == 0xFF)
    filled = rows[ones[(located.front.part(rows[ones], at[ones], BTH.size) == 0xFF).all(axis=1)]]
    odd = np.flatnonzero(u16(located.front.part(rows, at, 4), BTH.p_key.bit // 8) & BASE != BASE)
    rows = rows[odd]
    head = located.front.part(rows, at[odd], BTH.size)
    of_service = u16(located.front.part(rows, located.at("udp").take(rows), 2), 0) < SERVICE_PORTS
    empty, undefined = ~head[:, _BEHIND_P_KEY:].any(axis=1), ~looked_up(head[:, 0], _DEFINED)
    reserved = (extract(head, field.bit, field.bits) for field in (BTH.tver, BTH.reserved6, BTH.reserved7))
    doubtful = np.any([of_service, undefined, *reserved], axis=0)
    others, rows = rows[empty], rows[doubtful & ~empty]
    if len(rows):
        sums = icrc_sums(table, rows)
        others = np.concatenate([others, rows[~is_in(rows, sums.rows[(sums.stored == sums.wanted) | (sums.stored == 0)])]])
    return np.sort(np.concatenate([short, filled, others]))
