"""Switches with too few entries for the multicast groups, and senders to a group that are not its members."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped, KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import Frame, GroupId, LidId, MemberId, NodeId
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Seen, each, fault, on_chunk, on_event
from ibdissect.mad.request_outcomes import Answered, Request
from ibdissect.mad.transactions import SWAPPED_NS, Transactions
from ibdissect.rules.shared.group_rule import Administrators
from ibdissect.rules.shared.mad_conditions import SA_ANSWER, SA_REQUEST
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Node, Subnet
from ibdissect.subnet.multicast_groups import FULL_MEMBER
from ibdissect.subnet.visible_managers import LIFETIME_NS
from ibdissect.transport.multicast import GroupSender, Multicast
from ibdissect.wire.headers import GRH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CLASS_STATUS, DELETE, GET, GUID, MGID_IPV4, SET
from ibdissect.wire.sa_paths import MCMemberRecord

MAX_SWITCHES = 49152


class TooManyGroups(LearntFactRule):
    """The subnet has more multicast LIDs than a switch has entries.

    The switch cannot forward the last groups: it drops their packets or floods them, and the subnet manager refuses joins.

    Let groups share multicast LIDs (opensm: `consolidate_ipv6_snm_req`), or replace the switch.

    The MulticastFDBCap in SwitchInfo, and the multicast LIDs in MCMemberRecords, less those of groups that a Report says are deleted. An
    `info` where a group may be deleted unseen: some record is old, and the capture does not show the manager, or the group is gone a packet
    lifetime later; and where several managers tell of groups, perhaps of several subnets. An `info`, too, where the subnet has other
    switches, or was not read to its end, as this one may be on the tree of few groups: unless so many have a full member at its ports, or
    an entry in its table. Groups without full members need none.
    """

    code, name, severity = "MCG006", "mft-cap-exceeded", WARNING
    reference = "IBA 14.2.5.4; Omni-Path manual MulticastFDBCap"
    message = "{groups} multicast LIDs are in use, the multicast table of switch 0x{switch:016x} holds {cap}"
    example = "SwitchInfo.MulticastFDBCap 2, then MCMemberRecords with three multicast LIDs"
    needs = (Administrators,)

    def __init__(self) -> None:
        self.reported = BoundedDict[NodeId, bool](MAX_SWITCHES, "switches with too many groups")
        """The switches that were reported."""
        self.needed: dict[NodeId, int] = {}
        """How many groups certainly need an entry of theirs."""
        self.settled: dict[NodeId, Seen] = {}
        """Findings of less than a packet lifetime ago, by switch."""
        self.brief: set[NodeId] = set()
        """Switches that had too many groups for so short a time."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info unless as many groups as the switch has no room for need an entry of it, and all these are of one subnet."""
        needed, brief = self.needed.get(NodeId(hit.key), 0) > hit.arguments["cap"], NodeId(hit.key) in self.brief
        certain = needed and not brief and len(context.get(Administrators).lids) < 2
        return super().severity_at_end(hit, context) if certain else INFO

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        first, groups = event.table.chunk.first, event.subnet.groups
        in_use = groups.in_use
        for node in event.subnet.slots.values() if in_use.now else ():
            if node.kind != SWITCH or NodeId(node.slot) in self.reported:
                continue
            for frame in sorted({frame for frame in (*in_use.changes(), *node.switch.changes()) if frame >= first}):
                switch, since = node.switch.at(frame)
                number = in_use.at(frame)[0] or 0
                if switch is not None and 0 < switch.multicast_fdb_cap < number:
                    seen = Seen(event.table, frame - first)
                    self.reported.put(NodeId(node.slot), True, seen.frame, seen.time_ns)
                    self.settled[NodeId(node.slot)] = seen
                    oldest = groups.used_since(frame)
                    self.needed[NodeId(node.slot)] = len(_needed(event.subnet, node, frame))
                    yield fault(
                        seen, {"groups": number, "switch": node.guid, "cap": switch.multicast_fdb_cap}, key=node.slot,
                        proof=[(since, "SwitchInfo"), (oldest, "the oldest record of a group")], about=(node.slot,),
                    )  # fmt: skip
                    break
        self._look_back(event)

    def _look_back(self, event: ChunkFollowed) -> None:
        """Whether groups were deleted so soon after a finding that the switch may have heard of that first."""
        in_use, clock = event.subnet.groups.in_use, event.subnet.clock
        for slot, seen in list(self.settled.items()):
            until, node = seen.time_ns + LIFETIME_NS, event.subnet.by_slot(slot)
            switch = node.switch.at(seen.frame)[0] if node is not None else None
            later = [frame for frame in in_use.changes() if frame > seen.frame and clock.time_of(frame) <= until]
            if switch is not None and any((in_use.at(frame)[0] or 0) <= switch.multicast_fdb_cap for frame in later):
                self.brief.add(slot)
            if len(event.table) and int(event.table.chunk.time_ns[-1]) > until:
                del self.settled[slot]


def _needed(subnet: Subnet, switch: Node, frame: int) -> set[LidId]:
    """The multicast LIDs that need an entry of a switch: its table has one, or a full member is at one of its ports.

    That is any full member where the whole subnet is known and has no other switch.
    """
    groups = subnet.groups
    alone = subnet.swept(frame)[0] and not any(node.kind == SWITCH and node is not switch for node in subnet.slots.values())
    near = {peer.guid for port in switch.ports.values() if (peer := port.facing_at(frame)[0]) is not None and peer.guid}
    found = {LidId(lid) for lid, _ in switch.forwarding.routes()} if switch.forwarding is not None else set()
    for group in groups.by_mgid.values():
        if group.facts.now is not None and any(
            state & FULL_MEMBER and (alone or int.from_bytes(gid, "big") & GUID in near) for gid, (state, _) in group.members.items()
        ):
            found.add(LidId(group.facts.now.mlid))
    return found & {LidId(mlid) for mlid in groups.mlids}


GRACE_NS = SECOND_NS
MAX_KEPT, MAX_STEPS = 65536, 8
REFUSED = "although its join was refused"


class MembershipChange(Record):
    """A join that was sent, or a join or leave that was answered."""

    frame: int
    time_ns: int
    member: bool
    what: str
    asker: int = 0
    """LID that asked for a leave, or for a join that was refused."""
    mlid: int = 0
    """The multicast LID that the group had for a port that leaves; 0: not known."""


class Wish(Record):
    """A join or leave that was sent."""

    way: MemberId
    leaves: bool
    state: int
    asker: int


class BroadcastOutside(LearntFactRule):
    """A port sends to the IPoIB broadcast group after leaving it or being refused.

    An interface must be a full member of the broadcast group (RFC 4391). Switches may not forward its packets, and it gets no answers.

    Find out why the join was refused (partition, rate or MTU of the group), and check the interface's state.

    The refused join of a port that did not send before, or a join and an accepted leave, and a packet at least a second later. A port that
    asked in between to join again or whether it is a member, or so shortly before that the capture may have changed the order, is not
    judged, nor one that the SA calls a member in any answer, nor one for which another port asked, nor a GID that sends with another LID
    than it left with: a virtual machine takes its GID with it; nor one that sends to another multicast LID than the group had: only another
    join tells it. An `info` where the capture misses packets in between, and after a refusal:
    the port may have been a member since before the capture.
    """

    code, name, severity = "MCG005", "ipoib-broadcast-not-joined", WARNING
    reference = "RFC 4391 5; IBA 10.5.1"
    message = "{source} sends to {group} {what} in frame {frame}"
    example = "a join and an accepted SubnAdmDelete(MCMemberRecord) of a port, and two seconds later its packet to the broadcast group"

    def __init__(self) -> None:
        dropped = Dropped("members of multicast groups")
        self.wishes = KeptDict[Frame, Wish](MAX_KEPT, dropped)
        """Joins and leaves that wait for their answer, by frame."""
        self.steps = KeptDict[MemberId, list[MembershipChange]](MAX_KEPT, dropped)
        self.joined: dict[MemberId, tuple[int, int]] = {}
        """JoinState and multicast LID of accepted joins."""
        self.sending = KeptDict[MemberId, Frame](MAX_KEPT, dropped)
        """The first frame in which a port sends to a broadcast group."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """The packets and requests of this chunk, then their answers, then whether the packets were right."""
        sent_now = context.get(Multicast).feed(table)
        for sender, rows in sent_now:
            way = _member(sender)
            if _broadcast(way.group) and way not in self.sending:
                seen = Seen(table, int(rows[0]))
                self.sending.keep(way, seen.frame, seen.frame, seen.time_ns)
        sent = occurrences_where(MAD.method.isin({GET, SET, DELETE}) & SA_REQUEST, table, MCMemberRecord)
        for _, seen, view in each(table, MCMemberRecord, sent):
            way, method = MemberId(GroupId(bytes(view.mgid)), bytes(view.port_gid)), seen.value(MAD.method)
            if not _broadcast(way.group):
                continue
            if method != GET:
                wish = Wish(way, method == DELETE, view.join_state, seen.value(LRH.slid))
                self.wishes.keep(seen.frame, wish, seen.frame, seen.time_ns)
            if method != DELETE:
                self._step(way, MembershipChange(seen.frame, seen.time_ns, True, ""))
        members = self._members(table) if self.steps else {}
        for one in context.get(Transactions).answers_to(self.wishes):
            wish = self.wishes.pop(one.request.frame)
            self._settle(wish, members.get((wish.way, one.frame), (0, 0)), one)
        for sender, rows in sent_now if self.steps else ():
            if _member(sender) in self.steps:
                yield from self._judge(table, sender, rows)
        for steps in self.steps.values():
            del steps[:-MAX_STEPS]

    def facts_used_of(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The port's node: it may have joined again at another manager, where the capture shows neither writing nor asking it."""
        port = context.get(FabricFollower).subnet.owner(hit.arguments["asker"], hit.frame)[0]
        return [] if port is None else [port.node]

    def _members(self, table: ChunkTable) -> dict[tuple[MemberId, Frame], tuple[int, int]]:
        """JoinState and multicast LID of ports with steps, by the frame in which the SA tells them: these ports are members."""
        found: dict[tuple[MemberId, Frame], tuple[int, int]] = {}
        rows = table.matrix(MCMemberRecord)
        told = occurrences_where(SA_ANSWER, table, MCMemberRecord) & (rows[:, 0] == 0xFF) & (rows[:, 12:16] == 0xFF).all(axis=1)
        for _, seen, view in each(table, MCMemberRecord, told):
            way = MemberId(GroupId(bytes(view.mgid)), bytes(view.port_gid))
            if view.join_state and way in self.steps:
                found[way, seen.frame] = view.join_state, view.mlid
                self._step(way, MembershipChange(seen.frame, seen.time_ns, True, ""))
        return found

    def _joins_near(self, way: MemberId, leave: Request) -> bool:
        """Whether a port asked to join so shortly before a leave that it may have sent both in the other order."""
        steps = self.steps.get(way, ())
        return any(one.member and one.frame < leave.frame and leave.time_ns - one.time_ns <= SWAPPED_NS for one in steps)

    def _settle(self, wish: Wish, told: tuple[int, int], one: Answered) -> None:
        """Learn from an answer, which may tell of memberships before the capture."""
        before, mlid = self.joined.get(wish.way, (0, 0))
        asked, frame, time_ns, status = one.request.frame, one.frame, one.time_ns, one.status
        if not wish.leaves and status == 0:
            self.joined[wish.way] = before | wish.state | told[0], told[1] or mlid
            self._step(wish.way, MembershipChange(frame, time_ns, True, ""))
        elif not wish.leaves and not before and status >> CLASS_STATUS and self.sending.get(wish.way, AFTER_ALL) > asked:
            self._step(wish.way, MembershipChange(frame, time_ns, False, REFUSED, wish.asker))
        elif wish.leaves and status == 0 and before and not before & ~wish.state and not self._joins_near(wish.way, one.request):
            del self.joined[wish.way]
            self._step(wish.way, MembershipChange(frame, time_ns, False, "although it left the group", wish.asker, mlid))

    def _step(self, way: MemberId, step: MembershipChange) -> None:
        steps = self.steps.get_or_make(way, list, step.frame, step.time_ns)
        if steps is not None:
            steps.append(step)
            steps.sort(key=lambda one: one.frame)

    def _judge(self, table: ChunkTable, sender: GroupSender, rows: Int) -> Iterator[Hit]:
        frames, times = table.chunk.first + rows, table.chunk.time_ns[rows]
        steps, (slids, dlids) = self.steps[_member(sender)], (table.of_rows(one)[0][rows] for one in (LRH.slid, LRH.dlid))
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if step.member:
                continue
            odd = (frames > step.frame) & (times > step.time_ns + GRACE_NS) & (step.asker == slids)
            if step.mlid:
                odd &= dlids == step.mlid
            if following is not None:
                odd &= frames < following.frame
            index = np.flatnonzero(odd)
            if len(index):
                yield fault(
                    Seen(table, int(rows[index[0]])),
                    {"source": sender.source_text, "group": sender.group_text, "what": step.what, "frame": step.frame,
                     "asker": step.asker}, GRH.dgid,
                    proof=[(step.frame, step.what)], rows=rows[index], key=_member(sender),
                    severity=INFO if step.what == REFUSED else None,
                )  # fmt: skip


def _member(sender: GroupSender) -> MemberId:
    return MemberId(GroupId(sender.group), sender.source)


def _broadcast(group: GroupId) -> bool:
    """ff1s:401b:P_Key::ffff:ffff."""
    mgid = int.from_bytes(group.mgid, "big")
    return mgid >> 120 == 0xFF and mgid >> 96 & 0xFFFF == MGID_IPV4 and mgid & 0xFFFFFFFF == 0xFFFFFFFF
