"""Packets of a chunk that the P_Key tables of their ports, or of the switch ports before them, refuse."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.records import ROWS
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import distinct_values, groups, is_in
from ibdissect.decode.native_packets import BY_P_KEY_TABLE, Native, source_qps
from ibdissect.subnet import ROUTER, SWITCH, ChunkFollowed, Port, Subnet
from ibdissect.subnet.early_packets import RECEIVER, SENDER
from ibdissect.subnet.p_keys import PKeys, Verdict
from ibdissect.subnet.recent_flows import RecentFlows
from ibdissect.subnet.visible_managers import LIFETIME_NS
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD, is_response
from ibdissect.wire.numbers import BASE, FIRST_MULTICAST, FULL, LID_COUNT
from ibdissect.wire.sm_port import PortInfo

Shown = tuple[tuple[int, str], ...]
"""Frames, and what each showed; `{end}` stands for the end whose table it is."""
Judged = tuple[Verdict, Port, Shown]
"""A table's verdict, whose it is, and the frames that showed the LID and the table."""
REFUSING = (Verdict.LIMITED, Verdict.ABSENT)


class RefusedPackets(Record, frozen=True):
    """Packets of a chunk with the same sender, receiver and P_Key, which a P_Key table refuses."""

    verdict: Verdict
    port: Port
    shown: Shown
    """Frames that showed the LID and the table, and the switch port if that refuses them."""
    slid: int
    dest_qp: int
    src_qp: int
    """The source QP of datagrams, as several processes may send from one port to one QP; otherwise 0."""
    p_key: int
    rows: Int

    @property
    def row(self) -> int:
        """The first of them."""
        return int(self.rows[0])


def _refused(event: ChunkFollowed, *, receiver: bool) -> list[RefusedPackets]:
    """The packets of a chunk that are refused by the table of their receiver (or else their sender), or of the switch port before it."""
    if event.subnet.partitioned:
        event.once(note_flows)
    return sorted(_refusals(event, event.table.once(Native), receiver), key=lambda refused: refused.row)


def note_flows(event: ChunkFollowed) -> None:
    """Remember the flows of a chunk, of which `under_way` asks. Call it by `event.once`."""
    event.subnet.recent.take(event.table.chunk.first, event.table.once(Native))


REFUSED = {RECEIVER: partial(_refused, receiver=True), SENDER: partial(_refused, receiver=False)}
"""Whose table refuses -> packets, for `event.once`."""


def _refusals(event: ChunkFollowed, native: Native, receiver: bool) -> Iterator[RefusedPackets]:
    table, subnet = event.table, event.subnet
    if not subnet.lids or not subnet.partitioned:
        return
    lids = native.dlid if receiver else native.slid
    keep = BY_P_KEY_TABLE[native.opcode] & (native.dest_qp != 0)  # QP0 does not check P_Keys
    known = np.zeros(LID_COUNT, np.bool_)
    for lid in (native.dlids if receiver else native.slids).tolist():
        known[lid] = 0 < lid < FIRST_MULTICAST and any(keys is not None for port in subnet.owners(lid) for keys in _tables(port))
    keep &= known[lids]
    if not keep.any():
        return
    rows, qp = native.rows[keep], native.dest_qp[keep]
    combined = (lids[keep] << 16) | native.p_key[keep]
    for combination in distinct_values(combined):
        p_key = combination & 0xFFFF
        if p_key & BASE:  # partition 0 is PKY002
            for of_them, bad in _spans(event, rows, combined, combination, receiver):
                yield from _flows(table, of_them, qp[np.searchsorted(rows, of_them)], p_key, bad)


def _tables(port: Port) -> Iterator[PKeys | None]:
    """The tables that guard a port: its own, and those of the switch ports at the other end of its cable over time."""
    yield port.p_keys
    for peer, _ in ((port.facing.now, 0), *port.facing.past):
        if peer is not None:
            yield peer.p_keys


def _judge(subnet: Subnet, lid: int, p_key: int, frame: int, receiver: bool) -> Judged | None:
    """The table that refuses, or the verdict of the port's own; None if none is known."""
    port, since = subnet.owner(lid, frame)
    if port is None or port.node.kind == ROUTER:  # beyond a router another subnet's table decides
        return None
    own: Judged | None = None
    if port.p_keys is not None:
        verdict, shown = port.p_keys.judge(p_key, frame, port.p_key_capacity(frame))
        own = verdict, port, (*((number, "the {end}'s P_Key table") for number in shown), (since, "the {end}'s LID"))
        if verdict in REFUSING:
            return own
    found = _enforcer(port, frame, receiver)
    near, proof = found if found is not None else (None, ())
    if near is None or near.p_keys is None:
        return own
    verdict, shown = near.p_keys.judge(p_key | FULL, frame, near.p_key_capacity(frame))  # a switch compares only the partition
    if verdict is not Verdict.ABSENT and own is not None:
        return own
    return verdict, near, (*((number, "the switch port's P_Key table") for number in shown), (since, "the {end}'s LID"), *proof)


def _enforcer(port: Port, frame: int, receiver: bool) -> tuple[Port, Shown] | None:
    """The switch port next to a port, if it checks the P_Keys of packets to the port (or else from it), and the frames that show it."""
    near, faced = port.facing_at(frame)
    if near is None or near.node.kind != SWITCH or not near.number or near.p_keys is None:
        return None
    info, shown = near.info_at(frame)
    asked = PortInfo.partition_enforcement_outbound if receiver else PortInfo.partition_enforcement_inbound
    if info is None or not asked.__get__(info, PortInfo):
        return None
    return near, ((shown, f"the switch port's {asked.label}"), (faced, "the cable"))


def _spans(event: ChunkFollowed, rows: Int, combined: Int, combination: int, receiver: bool) -> Iterator[tuple[Int, Judged]]:
    """Rows of one destination and P_Key that are refused; the chunk is cut where the table or the LID's owner changed.

    What a table accepted until a change may be under way for a packet's lifetime, if its flow was seen before.
    """
    table, subnet, lid, p_key = event.table, event.subnet, combination >> 16, combination & 0xFFFF
    first, last, times = table.chunk.first, table.chunk.first + len(table) - 1, table.chunk.time_ns
    recent = min(first, subnet.clock.first_after(int(times[0]) - LIFETIME_NS)) - 1  # the frame before a change that may matter
    moves = subnet.changes(lid, after=recent).union(*(owner.lids.changes_after(recent) for owner in subnet.owners(lid)))
    edges = sorted({recent, first, *(change for change in moves if recent < change <= last), last + 1})
    verdicts = [_judge(subnet, lid, p_key, start, receiver) for start in edges[:-1]]
    if not any(judged is not None and judged[0] in REFUSING for judged in verdicts):
        return
    mine, ended, excused = rows[combined == combination], 0, 0
    for start, stop, bad in zip(edges, edges[1:], verdicts, strict=False):
        if bad is not None and bad[0] is Verdict.ALLOWED and stop <= last:
            ended, excused = stop, subnet.clock.time_of(stop) + LIFETIME_NS
        if bad is not None and bad[0] in REFUSING and stop > first:
            part = mine[np.searchsorted(mine, start - first) : np.searchsorted(mine, stop - first)]
            part = part[~under_way(event, part, ended, excused)] if excused else part
            owner = subnet.owner(lid, start)[0]
            info = owner.info_at(start)[0] if owner is not None else None
            if info is None or info.is_virtualization_supported:
                # Several ports may share this LID, each with a P_Key table of its own; only the GRH distinguishes them.
                part = part[table.located.at("grh")[part] < 0]
            if len(part):
                yield part, bad


def under_way(event: ChunkFollowed, part: Int, change: int, until: int) -> Bool:
    """Which packets may have been sent before a change: they come before a time, and their flow sent within ROWS frames before; bool[n]."""
    early: Bool = event.table.chunk.time_ns[part] < until
    if not early.any():
        return early
    recent: RecentFlows = event.subnet.recent
    before = (recent.frames < change) & (recent.frames >= change - ROWS)
    mine = recent.flows[np.searchsorted(recent.frames, part + event.table.chunk.first)]
    return early & is_in(mine, recent.flows[before])


def _flows(table: ChunkTable, rows: Int, qp: Int, p_key: int, bad: Judged) -> Iterator[RefusedPackets]:
    """One entry per sender, its QP if packets name it, and destination QP. Answers to QP1, which repeat their request's P_Key, are left
    out.
    """
    data, loc = table.chunk.data, table.located
    gsi = np.flatnonzero(qp == 1)
    if len(gsi):
        mad = loc.at("mad")[rows]
        drop = [i for i in gsi.tolist() if mad[i] < 0 or _answers(data[int(mad[i]) : int(mad[i]) + MAD.size].tobytes())]
        rows, qp = np.delete(rows, drop), np.delete(qp, drop)
    slid = value_at(data, loc.at("lrh")[rows], LRH.slid)
    source = source_qps(table, rows, loc.opcode[rows]) * (qp > 1)
    first, inverse = groups((slid, qp, source))
    for k, i in enumerate(first.tolist()):
        yield RefusedPackets(*bad, int(slid[i]), int(qp[i]), int(source[i]), p_key, rows[inverse == k])


def _answers(header: bytes) -> bool:
    mad = MAD(header)
    return is_response(mad.method, mad.attribute_modifier, mad.mgmt_class)
