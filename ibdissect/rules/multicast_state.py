"""Multicast packets that contradict the group's record, and groups that switches have no room for (GRH, QKY, PKY, MCG)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.groups import Group
from ibdissect.fabric.model import FIRST_MULTICAST, PERMISSIVE, SWITCH
from ibdissect.fabric.partitions import BASE
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span, value_of
from ibdissect.lint.rule import ERROR, WARNING, Hit, Rule, on_event
from ibdissect.table.locate import Int, u16
from ibdissect.table.table import ChunkTable, gather
from ibdissect.wire.link import LRH
from ibdissect.wire.network import GRH
from ibdissect.wire.spec import Field
from ibdissect.wire.text import gid_text
from ibdissect.wire.transport import BTH, DETH

from .pkey_columns import Native

UD = (0x64, 0x65)


class Sent:
    """The native multicast datagrams of a chunk, one per group GID, LID, P_Key and Q_Key; worked out once for all rules."""

    def __init__(self) -> None:
        self._of: ChunkTable | None = None
        self.kinds: list[tuple[bytes, int, int, int, int, int]] = []
        """Group GID (empty without GRH), DLID, P_Key, Q_Key, row of the first, count."""

    def of(self, table: ChunkTable, native: Native) -> Sent:
        """The datagrams of a chunk."""
        if self._of is not table:
            self._of = table
            self.kinds = list(self._found(table, native))
        return self

    @staticmethod
    def _found(table: ChunkTable, native: Native) -> Iterator[tuple[bytes, int, int, int, int, int]]:
        index = np.flatnonzero((native.dlid >= FIRST_MULTICAST) & (native.dlid < PERMISSIVE) & np.isin(native.opcode, UD))
        if not len(index):
            return
        rows, data = native.rows[index], table.chunk.data
        deth = table.located.at("bth")[rows] + BTH.size
        fits = deth + DETH.size <= table.located.limit[rows]
        index, rows, deth = index[fits], rows[fits], deth[fits]
        grh = table.located.start.get("grh")
        at: Int = grh[rows] if grh is not None else np.full(len(rows), -1, np.int64)
        gids = np.zeros((len(rows), 16), np.uint8)
        with_grh = np.flatnonzero(at >= 0)
        gids[with_grh] = gather(data, at[with_grh] + GRH.dgid.bit // 8, 16)
        q_key = u16(data, deth) << 16 | u16(data, deth + 2)
        halves = gids.view(np.uint64)
        mixed = (halves[:, 0] * np.uint64(0x9E3779B97F4A7C15)) ^ halves[:, 1]
        way = native.dlid[index] << 48 | native.p_key[index] << 32 | q_key
        mixed = (mixed * np.uint64(0xC2B2AE3D27D4EB4F)) ^ way.view(np.uint64)
        _, first, counts = np.unique(mixed, return_index=True, return_counts=True)
        for i, count in zip(first.tolist(), counts.tolist(), strict=True):
            gid = gids[i].tobytes() if at[i] >= 0 else b""
            yield gid, int(native.dlid[index[i]]), int(native.p_key[index[i]]), int(q_key[i]), int(rows[i]), count


class _GroupRule(Rule):
    """What the rules share: each kind of datagram against the group that its GID, or its LID, names."""

    def wrong(self, group: Group, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        """The field at fault, its value and what else the message says; None when the datagram is in order."""
        raise NotImplementedError

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        groups = event.subnet.groups.by_mgid
        if not groups:
            return
        native: Native = context.get(Native).of(event.table)
        for gid, dlid, p_key, q_key, row, count in context.get(Sent).of(event.table, native).kinds:
            group, frame = groups.get(gid), event.table.chunk.first + row
            if group is None or not group.mlid or group.frame >= frame:
                continue
            found = self.wrong(group, gid, dlid, p_key, q_key)
            if found is None:
                continue
            field, value, more = found
            owner = "lrh" if field.owner is LRH else "bth" if field.owner is BTH else ""
            start = int(event.table.located.at(owner)[row] if owner else event.table.located.at("bth")[row] + BTH.size)
            low, high = field.span
            yield Hit(
                frame=frame,
                time_ns=int(event.table.chunk.time_ns[row]),
                arguments={"group": gid_text(gid), "mlid": group.mlid, **more},
                spans=(Span(frame, start - int(event.table.chunk.offset[row]) + low, high - low),),
                field=field,
                value=value,
                related=(Related(group.frame, "the group's record"),),
                evidence=Evidence.LEARNT,
                count=count,
                key=(gid, dlid, p_key, q_key),
            )


class WrongMlid(_GroupRule):
    """A multicast packet goes to another LID than its group has.

    ## Why it matters
    Switches forward by the LID: the packet reaches the members of another group, or nobody.

    ## What to do
    The sender has an old record of the group; let it join again.
    """

    code, name, severity = "GRH009", "mgid-mlid-mismatch", ERROR
    reference = "IBA 10.5, 15.2.5.17; seed004 MCMemberRecord"
    message = "packet to group {group} with LID 0x{dlid:04x}, the group has LID 0x{mlid:04x}"
    example = "GetResp(MCMemberRecord) with MLID 0xc001, then a packet to that MGID with DLID 0xc002"

    def wrong(self, group: Group, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        return (LRH.dlid, dlid, {"dlid": dlid}) if dlid != group.mlid else None


class WrongGroupQKey(_GroupRule):
    """A multicast packet has another Q_Key than its group.

    ## Why it matters
    Members took the group's Q_Key when they joined; they drop the packet and count a violation.

    ## What to do
    The sender has an old record of the group; let it join again.
    """

    code, name, severity = "QKY004", "qkey-mismatch-group", ERROR
    reference = "IBA 10.5, 15.2.5.17; seed004 MCMemberRecord"
    message = "packet to group {group} with {q_key}, the group has {held}"
    example = "GetResp(MCMemberRecord) with Q_Key 0x0b1b, then a packet to that MGID with Q_Key 0x1111"

    def wrong(self, group: Group, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.q_key or q_key == group.q_key:
            return None
        value = value_of(DETH.q_key, q_key)
        return DETH.q_key, value, {"q_key": value, "held": value_of(DETH.q_key, group.q_key)}


class WrongGroupPKey(_GroupRule):
    """A multicast packet has another P_Key than its group.

    ## Why it matters
    A group belongs to one partition; members that are not in the packet's partition drop it.

    ## What to do
    Look at how the sender chose its P_Key index: the partition of the interface and of the group differ.
    """

    code, name, severity = "PKY017", "mcast-member-pkey", ERROR
    reference = "IBA 10.5, 15.2.5.17; seed004 MCMemberRecord"
    message = "packet to group {group} with P_Key 0x{p_key:04x}, the group is in partition 0x{held:04x}"
    example = "GetResp(MCMemberRecord) with P_Key 0x8123, then a packet to that MGID with P_Key 0xffff"

    def wrong(self, group: Group, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        if not group.p_key & BASE or p_key & BASE == group.p_key & BASE:
            return None
        return BTH.p_key, p_key, {"p_key": p_key, "held": group.p_key & BASE}


class TooManyGroups(Rule):
    """The subnet has more multicast LIDs than a switch has entries.

    ## Why it matters
    The switch cannot forward the last groups: it drops their packets or floods them, and the subnet manager refuses joins.

    ## What to do
    Let groups share multicast LIDs (opensm: `consolidate_ipv6_snm_req`), or replace the switch.
    """

    code, name, severity = "MCG006", "mft-cap-exceeded", WARNING
    reference = "IBA 14.2.5.4; seed000, seed003 MulticastFDBCap"
    message = "{groups} multicast LIDs in use, switch 0x{switch:016x} has {cap} entries"
    example = "SwitchInfo.MulticastFDBCap 2, then MCMemberRecords with three multicast LIDs"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        groups = event.subnet.groups.by_mgid
        if len(groups) < 2:
            return
        used = {group.mlid for group in groups.values() if group.mlid >= FIRST_MULTICAST}
        latest = max((group.frame for group in groups.values()), default=0)
        for node in event.subnet.slots.values():
            switch = node.switch if node.kind == SWITCH else None
            if switch is not None and 0 < switch.multicast_fdb_cap < len(used):
                row = max(0, latest - event.table.chunk.first)
                yield Hit(
                    frame=event.table.chunk.first + row,
                    time_ns=int(event.table.chunk.time_ns[min(row, len(event.table) - 1)]),
                    arguments={"groups": len(used), "switch": node.guid, "cap": switch.multicast_fdb_cap},
                    related=(Related(node.switch_frame, "SwitchInfo"),),
                    evidence=Evidence.LEARNT,
                    key=node.slot,
                )
