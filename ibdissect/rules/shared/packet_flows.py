"""Fields that make up a flow, and the base of rules about headers of packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import looked_up
from ibdissect.decode import Bool, ChunkTable, locate
from ibdissect.decode.bit_fields import extract
from ibdissect.lint.rule import Rule
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.expr import Expr, Where
from ibdissect.wire.headers import BTH, GRH, LRH
from ibdissect.wire.numbers import MGID_IPV4, MGID_IPV6
from ibdissect.wire.opcodes import MANUFACTURER, RD, UD
from ibdissect.wire.spec import Field

PACKET_FLOW: tuple[Field[Any], ...] = (
    LRH.slid, LRH.dlid, GRH.sgid, GRH.dgid, IPv4.source, IPv4.destination, IPv6.source, IPv6.destination, BTH.destqp,
)  # fmt: skip
"""Who sends to which queue pair, on InfiniBand and RoCE of all kinds; fields that a packet lacks count as zero."""
_EXTENDED_SIZE = locate.EXTENDED_SIZE.astype(np.uint8)
RELIABLE_DATAGRAM = range(RD, UD)
MULTICAST_4, BROADCAST_4 = 0xE, 0xFFFFFFFF
"""First four bits of IPv4's multicast addresses; the address of all hosts of a network."""
KNOWN_HEADERS = ~BTH.opcode.isin({*RELIABLE_DATAGRAM, *range(MANUFACTURER, 256)})
"""Packets of which one knows what follows the BTH: NVIDIA's dynamically connected transport has other headers than reliable datagrams."""


class PacketRule(Rule):
    """Base of rules with one finding per sender, receiver and queue pair."""

    flow = PACKET_FLOW


def room_behind_headers(table: ChunkTable) -> npt.NDArray[np.int32]:
    """Bytes between the headers that the OpCode announces and the ICRC, of each BTH; -1 if the packet was cut off or its
    headers are unknown."""
    loc, found = table.located, table.occurrences(BTH)
    limit, cut = loc.limit, ~loc.complete | loc.snapped
    if len(found) < len(table):
        limit, cut = limit[found.rows], cut[found.rows]
    room = (limit - found.at).astype(np.int32)
    room -= BTH.size
    room -= looked_up(table.values(BTH.opcode), _EXTENDED_SIZE)
    opcode = table.values(BTH.opcode)
    cut = cut | (opcode >> 5 == RELIABLE_DATAGRAM.start >> 5) | (opcode >= MANUFACTURER)
    if cut.any():
        room[cut] = -1
    return room


def carries_payload(opcodes: npt.NDArray[np.bool_]) -> Callable[[ChunkTable], Bool]:
    """Where packets with one of these OpCodes, bool[256], have something between the headers and the ICRC: for `Where(BTH.opcode, ...)`."""

    def holds(table: ChunkTable) -> Bool:
        some = np.flatnonzero(looked_up(table.values(BTH.opcode), opcodes))
        bad = np.zeros(len(table.occurrences(BTH)), np.bool_)
        if some.size:
            bad[some] = table.once(room_behind_headers)[some] > 0
        return bad

    return holds


def of_several_hosts(address: npt.NDArray[np.uint8]) -> Bool:
    """Which IPv4 addresses, uint8[k, 4], are multicast or broadcast (what lies between, 240/4, Linux takes as a host's)."""
    found: Bool = (address[:, 0] >> 4 == MULTICAST_4) | (extract(address, 0, IPv4.source.bits) == BROADCAST_4)
    return found


def is_ipoib(gid: npt.NDArray[np.uint8]) -> Bool:
    """Which GIDs, uint8[k, 16], are multicast GIDs of IP over InfiniBand."""
    found: Bool = (gid[:, 0] == 0xFF) & np.isin(extract(gid, 16, 16), (MGID_IPV4, MGID_IPV6))
    return found


def gid_bytes(gid: Field[Any], test: Callable[[npt.NDArray[np.uint8]], Bool]) -> Expr:
    """True where `test` holds for the 16 bytes of a GID; `test` gets uint8[k, 16]."""
    return Where(gid, lambda table: test(table.values(gid)))
