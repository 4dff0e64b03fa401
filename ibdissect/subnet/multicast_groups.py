"""Multicast groups and their members, as MCMemberRecords show them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ibdissect.bounded import BoundedDict
from ibdissect.decode.history import History
from ibdissect.wire.numbers import FIRST_MULTICAST

FULL_MEMBER = 1
"""Bit of JoinState. A group lasts while it has a full member (IBA 15.2.5.17)."""
MAX_GROUPS = 16384
"""Groups remembered, one per multicast LID."""
MAX_MEMBERS = 4096
"""Members remembered per group."""
MAX_ALL_MEMBERS = 1 << 18
"""Members remembered over all groups."""
MAX_TOLD = 8192
"""Over all groups, which ports were told what the group is; of further ones nobody knows whether they were."""


class GroupFacts(NamedTuple):
    """A group's properties according to a record."""

    mlid: int
    p_key: int
    q_key: int
    """0 if it was always hidden."""
    mtu: int
    rate: int
    sl: int


class MulticastGroup:
    """A multicast group."""

    __slots__ = ("facts", "members", "mgid", "since", "told")

    def __init__(self, mgid: bytes, since: int) -> None:
        self.mgid, self.since = mgid, since
        self.facts: History[GroupFacts] = History()
        self.members: dict[bytes, tuple[int, int]] = {}
        """Port GID -> JoinState and the frame that showed it."""
        self.told: dict[bytes, list[tuple[int, int]]] = {}
        """Port GID -> since when the group was as a record first told that port, and that record's frame; also of ports that left."""


class Groups:
    """All groups of a subnet by MGID; the oldest is evicted first."""

    def __init__(self) -> None:
        self.by_mgid = BoundedDict[bytes, MulticastGroup](MAX_GROUPS)
        self.members = 0
        """Number of members over all groups."""
        self.told = 0
        """Number of entries in all groups' `told`."""
        self.mlids: Counter[int] = Counter()
        """How many groups use each multicast LID."""
        self.in_use: History[int] = History()
        """Number of multicast LIDs in use, over time."""
        self.dropped = 0

    def learn(self, mgid: bytes, facts: GroupFacts, frame: int) -> MulticastGroup:
        """Learn a group from a record; a Q_Key of 0 is hidden and does not replace a known one."""
        group = self.by_mgid.get(mgid)
        if group is None:
            group = MulticastGroup(mgid, frame)
            gone = self.by_mgid.put(mgid, group)
            if gone is not None:
                self._gone(gone[1], frame)
                self.dropped += 1
        if not facts.q_key and group.facts.now is not None:
            facts = facts._replace(q_key=group.facts.now.q_key)
        before = group.facts.now
        if group.facts.learn(facts, frame):
            self._use(facts, 1, frame)
            self._use(before, -1, frame)
        return group

    def used_since(self, frame: int) -> int:
        """The frame since which multicast LIDs are in use, as it was known at a frame: later ones may have deleted groups."""
        since = frame
        for change in sorted((one for one in self.in_use.changes() if one <= frame), reverse=True):
            if not self.in_use.at(change)[0]:
                break
            since = change
        return since

    def _use(self, facts: GroupFacts | None, step: int, frame: int) -> None:
        """Count a group's multicast LID, or no longer."""
        if facts is not None and facts.mlid >= FIRST_MULTICAST:
            self.mlids[facts.mlid] += step
            if not self.mlids[facts.mlid]:
                del self.mlids[facts.mlid]
            self.in_use.learn(len(self.mlids), frame)

    def join(self, group: MulticastGroup, port_gid: bytes, join_state: int, frame: int) -> None:
        """Set a port's JoinState (0: it is no longer a member)."""
        if not join_state:
            self.members -= group.members.pop(port_gid, None) is not None
            return
        since, told = group.facts.at(frame)[1], group.told.get(port_gid, [])
        if (not told or told[-1][0] < since) and self.told < MAX_TOLD:
            group.told[port_gid] = [*told, (since, frame)]
            self.told += 1
        if group.members.get(port_gid, (0, 0))[0] != join_state:
            new = port_gid not in group.members
            if not new or (len(group.members) < MAX_MEMBERS and self.members < MAX_ALL_MEMBERS):
                self.members += new
                group.members[port_gid] = (join_state, frame)
            else:
                self.dropped += 1

    def forget(self, mgid: bytes, frame: int) -> None:
        """Remove a group."""
        gone = self.by_mgid.pop(mgid, None)
        if gone is not None:
            self._gone(gone, frame)

    def _gone(self, group: MulticastGroup, frame: int) -> None:
        self.members -= len(group.members)
        self.told -= sum(map(len, group.told.values()))
        self._use(group.facts.now, -1, frame)
