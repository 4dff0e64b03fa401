"""Base of rules that compare multicast packets with the record of their group."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.addresses import GID_SIZE, OF_GRH
from ibdissect.decode.bit_fields import extract, value_at
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.equal_rows import by_value, mix
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import Frame, GroupSenderId, LidId, NodeId
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, Context, Hit, Seen, fault, on_event
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.mad_conditions import SA_ANSWER
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.refused_packets import note_flows, under_way
from ibdissect.rules.shared.stale_facts import RefutableRule
from ibdissect.rules.shared.stretches import stretches
from ibdissect.subnet import ChunkFollowed, FabricFollower
from ibdissect.subnet.multicast_groups import FULL_MEMBER, GroupFacts, MulticastGroup
from ibdissect.subnet.visible_managers import AGES_NS, LIFETIME_NS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import BTH, DETH, GRH, LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, PERMISSIVE, PORT_INFO, SA_CLASS, SET
from ibdissect.wire.opcodes import DATAGRAMS
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field
from ibdissect.wire.text import gid_text


def datagrams(table: ChunkTable) -> tuple[tuple[bytes, int, int, int, Int], ...]:
    """The native multicast datagrams of a chunk: group GID (empty without GRH), DLID, P_Key, Q_Key, and the rows."""
    return tuple(_datagrams(table, table.once(Native)))


def _datagrams(table: ChunkTable, native: Native) -> Iterator[tuple[bytes, int, int, int, Int]]:
    index = np.flatnonzero((native.dlid >= FIRST_MULTICAST) & (native.dlid < PERMISSIVE) & np.isin(native.opcode, [*DATAGRAMS]))
    if not len(index):
        return
    rows, data = native.rows[index], table.chunk.data
    deth = table.located.at("bth")[rows] + BTH.size
    fits = deth + DETH.size <= table.located.limit[rows]
    index, rows, deth = index[fits], rows[fits], deth[fits]
    grh = table.located.start.get("grh")
    at: Int = grh[rows] if grh is not None else np.full(len(rows), -1, np.int64)
    gids = np.zeros((len(rows), GID_SIZE), np.uint8)
    with_grh = np.flatnonzero(at >= 0)
    gids[with_grh] = gather(data, at[with_grh] + GRH.dgid.bit // 8, GID_SIZE)
    q_key = value_at(data, deth, DETH.q_key)
    way = native.dlid[index] << 48 | native.p_key[index] << 32 | q_key
    for _, mine in by_value(mix([*gids.view(np.uint64).T, way])):
        i = mine[0]
        gid = gids[i].tobytes() if at[i] >= 0 else b""
        yield gid, int(native.dlid[index[i]]), int(native.p_key[index[i]]), int(q_key[i]), rows[mine]


def _by_sender(table: ChunkTable, rows: Int) -> Iterator[tuple[GroupSenderId, Int]]:
    """Datagrams with a GRH by who sends them: source GID, group, queue pair and network."""
    data, loc = table.chunk.data, table.located
    sender = np.zeros((len(rows), 40), np.uint8)
    sender[:, : 2 * GID_SIZE] = gather(data, loc.at("grh")[rows] + OF_GRH.source, 2 * GID_SIZE)
    qp = value_at(data, loc.at("bth")[rows] + BTH.size, DETH.srcqp)
    sender[:, 2 * GID_SIZE :].view(np.uint64)[:, 0] = qp if table.networks is None else qp | table.networks[rows].astype(np.int64) << 32
    for _, mine in by_value(mix([*sender.view(np.uint64).T])) if len(rows) else ():
        yield GroupSenderId(sender[mine[0]].tobytes()), rows[mine]


REGISTERS_NS = 60 * SECOND_NS
"""Within this time a port joins its groups again, after a manager asked it to."""
MAX_OUTDATED = 1024
KEPT_SENDERS = 8
"""Senders of the packets of a hit that are asked whether they were right soon."""
MAX_ANEW = 16384
MEMBER_RECORD = MCMemberRecord.carried_by[0].attr_id
MAX_LIDS = 64


class Administrators:
    """The LIDs from which the SA tells of groups: two managers, perhaps of two subnets, if there are several. One per capture."""

    learns_from: ClassVar = ChunkFollowed

    def __init__(self) -> None:
        self.lids = KeptDict[LidId, None](MAX_LIDS, "managers that told of groups")
        self.anew = KeptDict[tuple[NodeId, Frame], None](MAX_ANEW, "ports that were told to register again")
        """Nodes with such ports, and the frames of the Sets."""
        self._sets: tuple[list[int], list[int]] | None = None
        """The frames of these Sets, ascending, and for each that of the next one to another node, 0 for none; known at the end."""
        self._joins: list[int] | None = None

    def take(self, event: ChunkFollowed) -> None:
        """Process a chunk."""
        smps, table = event.smps, event.table
        index = np.flatnonzero((smps.attribute == PORT_INFO) & (smps.method == SET))
        index = index[extract(smps.bodies[index], PortInfo.client_reregister.bit, 1) != 0] if len(index) else index
        for i in index.tolist():
            frame = int(smps.rows[i]) + table.chunk.first
            self.anew.keep((NodeId(int(smps.slot[i])), Frame(frame)), None, frame, int(table.chunk.time_ns[smps.rows[i]]))
        found = table.occurrences(MCMemberRecord)
        if not len(found):
            return
        rows = found.rows[occurrences_where(SA_ANSWER, table, MCMemberRecord)]
        for slid, mine in by_value(table.of_rows(LRH.slid)[0][rows].astype(np.int64)):
            row = int(rows[mine[0]])
            self.lids.keep(LidId(slid), None, table.chunk.first + row, int(table.chunk.time_ns[row]))

    def restarted(self, after: int, before: int) -> bool:
        """Whether clients had to register again between two frames, not only a new host: then groups are made anew. Ask at the end."""
        if self._sets is None:
            sets = sorted(self.anew, key=itemgetter(1))
            frames, others = [frame for _, frame in sets], [0] * len(sets)
            for i, ((node, _), (later, frame)) in reversed([*enumerate(pairwise(sets))]):
                others[i] = frame if node != later else others[i + 1]
            self._sets = frames, others
        frames, others = self._sets
        first = bisect_right(frames, after)
        return bool(self.anew.dropped.count) or (first < len(others) and 0 < others[first] < before)

    def joins_between(self, after: int, before: int, transactions: Transactions) -> bool:
        """Whether a join between two frames was never answered. Ask at the end of the capture."""
        if self._joins is None:
            asked = (*transactions.superseded, *transactions.open_requests(SA_CLASS))
            wanted = SA_CLASS, SET, MEMBER_RECORD
            self._joins = sorted(one.frame for one in asked if (one.mgmt_class, one.method, one.attribute) == wanted)
        unknown = transactions.superseded.dropped.count > 0
        return unknown or bisect_right(self._joins, after) < bisect_left(self._joins, before)


class GroupRule(LearntFactRule, RefutableRule):
    """Base of rules that compare each kind of datagram with the group that its GID names."""

    needs: ClassVar[tuple[type[Any], ...]] = (Administrators,)
    evidence = (
        "The group's record (MCMemberRecord), seen before the packet. Silent for groups without one. An `info` where other "
        "connections work although the facts forbid them: the record may be another subnet's; or where the record is of another "
        "interface, or so old that the group may have been made anew unseen. The same where two managers tell different facts of the group "
        "and the packet fits one of them; where a manager told ports to register again since, as it does when it starts, or the capture "
        "shows no answer to a join since; and ten seconds after the record, where no full member is known that keeps the group. Packets "
        "that fitted until a second before, as far as the capture shows, may have been under way. An `info`, too, where later packets of "
        "the same senders fit within a minute (eight senders are asked, and 1,024 senders remembered), or a record comes that the packet "
        "fits: a group that was made anew, as by a manager that starts, is told to one port after the other. The same where the capture "
        "ends within that minute, and no record shows that the sender joined the group as it was then."
    )

    def __init__(self) -> None:
        self.outdated = KeptDict[tuple[GroupSenderId, Frame], list[Frame]](MAX_OUTDATED, "senders with an outdated record of a group")
        """By sender and the record's frame: its first and its last wrong packet, and the first right one behind them, 0 for none."""

    def wrong(self, group: GroupFacts, gid: bytes, dlid: int, p_key: int, q_key: int) -> tuple[Field[Any], Any, dict[str, Any]] | None:
        """The faulty field, its value and further arguments of the message; None if the datagram is in order."""
        raise NotImplementedError

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        groups, table = event.subnet.groups.by_mgid, event.table
        sent, right = table.once(datagrams), list[tuple[bytes, Int]]()
        outdated = dict[tuple[GroupSenderId, Frame], list[int]]()
        if groups or sent:
            event.once(note_flows)
        for gid, dlid, p_key, q_key, rows in sent if groups else ():
            group = groups.get(gid)
            for seen, mine in stretches(table, rows, group.facts.changes()) if group is not None else ():
                assert group is not None
                facts, since = group.facts.at(seen.frame)
                if facts is None or not facts.mlid or since >= seen.frame:
                    continue
                found = self.wrong(facts, gid, dlid, p_key, q_key)
                if found is None:
                    right.append((gid, mine))
                    continue
                before = group.facts.at(since - 1)[0]
                if before is None or (before.mlid and self.wrong(before, gid, dlid, p_key, q_key) is None):  # None: not captured
                    mine = mine[~under_way(event, mine, since, event.subnet.clock.time_of(since) + LIFETIME_NS)]
                if not len(mine):
                    continue
                field, value, more = found
                senders = dict(_by_sender(table, mine))
                for sender, those in senders.items():
                    outdated.setdefault((sender, Frame(since)), []).extend(those[[0, -1]].tolist())
                told = {"group": gid_text(gid), "mlid": facts.mlid, "senders": (*islice(senders, KEPT_SENDERS),), **more}
                yield fault(
                    Seen(table, int(mine[0])), told, field, value,
                    proof=[(since, "the group's record")], rows=mine, key=(gid, dlid, p_key, q_key),
                )  # fmt: skip
        self._note_senders(table, outdated, right)

    def _note_senders(
        self, table: ChunkTable, outdated: dict[tuple[GroupSenderId, Frame], list[int]], right: list[tuple[bytes, Int]]
    ) -> None:
        """Note who sent wrong packets to a group, the rows by sender and record, and whose packets behind them are right."""
        for key, rows in outdated.items():
            first, last = table.chunk.first + min(rows), table.chunk.first + max(rows)
            known = self.outdated.get(key, [first])
            self.outdated.keep(key, [known[0], last, 0], first, int(table.chunk.time_ns[min(rows)]))
        awaited = defaultdict[GroupSenderId, list[list[Frame]]](list)
        for (sender, _), shown in self.outdated.items():
            if not shown[2]:
                awaited[sender].append(shown)
        groups = {sender[GID_SIZE : 2 * GID_SIZE] for sender in awaited}
        for gid, mine in right if awaited else ():
            for sender, those in _by_sender(table, mine) if gid in groups else ():
                for shown in awaited.get(sender, ()):
                    behind = those[those + table.chunk.first > shown[1]]
                    if len(behind) and not (0 < shown[2] <= table.chunk.first + int(behind[0])):
                        shown[2] = table.chunk.first + int(behind[0])

    def _joins_again(self, hit: Hit, since: int, group: MulticastGroup | None, loss: CaptureLoss) -> bool:
        """Whether the packets of all its senders were right again within a minute after the first wrong one, or the capture ends within
        that minute and does not show that the sender joined the group as it was then; or that is not known.
        """

        def joins(sender: GroupSenderId) -> bool:
            known = self.outdated.get((sender, Frame(since)))
            if known is None:
                return self.outdated.dropped.count > 0
            first, last, right = known
            told = dict(group.told.get(sender[:GID_SIZE], ())).get(since, 0) if group is not None else 0
            knows = since == told or (since < told < last and loss.nanoseconds_between(told, last) > SECOND_NS)
            return (right > 0 or not knows) and loss.nanoseconds_between(first, right or AFTER_ALL) <= REGISTERS_NS

        senders = hit.arguments.get("senders", ())
        return len(senders) > 0 and all(map(joins, senders))

    def _told_later(self, hit: Hit, group: MulticastGroup | None, context: Context) -> bool:
        """Whether a record of the group that the packet fits comes within a minute: its sender had it before the others."""
        loss, scopes = context.get(CaptureLoss), context.get(Scopes)
        later = [(facts, frame) for facts, frame in group.facts.values() if frame > hit.frame] if group is not None else []
        return any(
            facts is not None and facts.mlid and self.wrong(facts, *hit.key) is None
            and loss.nanoseconds_between(hit.frame, frame) <= REGISTERS_NS and scopes.together((hit.frame, frame)) for facts, frame in later
        )  # fmt: skip

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the packet is right by what another manager says of the group, the group may have been made anew, or the sender
        joins it again soon.
        """
        group: MulticastGroup | None = context.get(FabricFollower).subnet.groups.by_mgid.get(hit.key[0])
        told_in = min((one.frame for one in hit.related if 0 < one.frame < hit.frame), default=hit.frame)
        known = context.get(Administrators)
        loss = context.get(CaptureLoss)
        age = loss.nanoseconds_between(told_in, hit.frame)
        if self._joins_again(hit, told_in, group, loss) or self._told_later(hit, group, context):
            return INFO
        if group is not None and age > AGES_NS and not any(state & FULL_MEMBER for state, _ in group.members.values()):
            return INFO  # it may have ended since, and been made anew
        if known.restarted(told_in, hit.frame) or known.joins_between(told_in, hit.frame, context.get(Transactions)):
            return INFO
        if len(known.lids) > 1:
            told = [facts for facts, _ in group.facts.values() if facts is not None and facts.mlid] if group is not None else []
            if any(self.wrong(facts, *hit.key) is None for facts in told):
                return INFO
        return super().severity_at_end(hit, context)
