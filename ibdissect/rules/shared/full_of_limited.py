"""Packets with the full form of a partition of which the sender's P_Key table, known as a whole, holds the limited form alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.equal_rows import by_value, distinct_values, is_in
from ibdissect.decode.native_packets import BY_P_KEY_TABLE, Native
from ibdissect.rules.shared.refused_packets import RefusedPackets, note_flows, under_way
from ibdissect.rules.shared.stretches import stretches
from ibdissect.subnet import ROUTER, ChunkFollowed, Port, Subnet
from ibdissect.subnet.p_keys import Member, PKeys, Verdict
from ibdissect.subnet.visible_managers import LIFETIME_NS
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import BASE, FULL, RESPONSE_BIT

TABLE = "the {end}'s P_Key table"


def full_of_limited(event: ChunkFollowed) -> list[RefusedPackets]:
    """Those of a chunk. Call it by `event.once`."""
    if not event.subnet.partitioned:
        return []
    event.once(note_flows)
    return [*_found(event)]


def _found(event: ChunkFollowed) -> Iterator[RefusedPackets]:
    native, subnet = event.table.once(Native), event.subnet
    named = (native.p_key & FULL != 0) & (native.p_key & BASE != 0)  # partition 0 is PKY002
    index = np.flatnonzero(named & (native.dest_qp > 0) & BY_P_KEY_TABLE[native.opcode])
    index = index[(native.dest_qp[index] > 1) | _asks(event.table, native.rows[index])]  # an answer repeats the P_Key of its request
    index = index[_may_be_limited(subnet, native.slid[index] << 16 | native.p_key[index], event.table.chunk.first)]
    ways = native.slid[index] << 40 | native.p_key[index] << 24 | native.dest_qp[index]
    for way, where in by_value(ways):
        slid, p_key, qp = way >> 40, way >> 24 & 0xFFFF, way & 0xFFFFFF
        changes = subnet.changes(slid, after=event.table.chunk.first)
        for seen, rows in stretches(event.table, native.rows[index[where]], changes):
            port, since = subnet.owner(slid, seen.frame)
            if port is None or port.p_keys is None or port.node.kind == ROUTER:
                continue
            shown = _only_limited(port, p_key & BASE, seen.frame)
            info = port.info_at(seen.frame)[0]
            if info is None or info.is_virtualization_supported:
                rows = rows[event.table.located.at("grh")[rows] < 0]
            if change := _latest_change(port.p_keys, seen.frame):
                rows = rows[~under_way(event, rows, change, subnet.clock.time_of(change) + LIFETIME_NS)]
            if shown and len(rows):
                proof = (*((one, TABLE) for one in shown), (since, "the {end}'s LID"))
                yield RefusedPackets(Verdict.ABSENT, port, proof, slid, qp, 0, p_key, rows)


def _may_be_limited(subnet: Subnet, ways: Int, first: int) -> Bool:
    """Which LIDs and P_Keys, `lid << 16 | p_key`, are of ports whose tables may have held the limited form alone since frame `first`.

    Tables of few ports do: the others cost nothing per packet."""
    found: list[int] = []
    for lid in distinct_values(ways >> 16):
        for port in subnet.owners(lid):
            limited, full = port.p_keys.forms(first) if port.p_keys is not None else (set(), set())
            found += [lid << 16 | FULL | base for base in limited - full]
    return is_in(ways, np.array(found, np.int64))


def _asks(table: ChunkTable, rows: Int) -> Bool:
    """Which packets are management requests."""
    asks: Bool = (table.first(MAD)[rows] >= 0) & (table.values_at(MAD.method, rows) < RESPONSE_BIT)
    return asks


def _latest_change(table: PKeys, frame: int) -> int:
    """The last frame up to `frame` that changed a table; 0 if it has been as it was first seen."""
    return max((change for block in table.blocks for change in block.changes()[1:] if change <= frame), default=0)


def _only_limited(port: Port, base: int, frame: int) -> tuple[int, ...]:
    """The frames that showed a port's whole table if it has a partition in its limited form alone; empty otherwise, and for files."""
    assert port.p_keys is not None
    member, shown = port.p_keys.member(base, frame, port.p_key_capacity(frame))
    return shown if member is Member.LIMITED and min(shown, default=0) > 0 else ()
