"""Multicast groups and their members, as MCMemberRecords show them."""

from __future__ import annotations

MAX_GROUPS = 16384
"""One for each multicast LID."""
MAX_MEMBERS = 4096
"""Members remembered per group."""
MAX_ALL_MEMBERS = 1 << 18
"""Members remembered of all groups."""


class Group:
    """A multicast group; values are those of the latest record."""

    __slots__ = ("frame", "members", "mgid", "mlid", "mtu", "p_key", "q_key", "rate", "sl")

    def __init__(self, mgid: bytes) -> None:
        self.mgid = mgid
        self.mlid = self.p_key = self.q_key = self.mtu = self.rate = self.sl = 0
        self.frame = 0
        """Frame that showed these values first."""
        self.members: dict[bytes, tuple[int, int]] = {}
        """Port GID to JoinState and the frame that showed it."""


class Groups:
    """All groups of a subnet, by MGID; the one found first goes first."""

    def __init__(self) -> None:
        self.by_mgid: dict[bytes, Group] = {}
        self.members = 0
        """Of all groups together."""
        self.dropped = 0

    def learn(self, mgid: bytes, facts: tuple[int, int, int, int, int, int], frame: int) -> Group:
        """A record showed a group: MLID, P_Key, Q_Key, MTU, rate and SL (a Q_Key of 0 is hidden and not news)."""
        group = self.by_mgid.get(mgid)
        if group is None:
            if len(self.by_mgid) >= MAX_GROUPS:
                self.forget(next(iter(self.by_mgid)))
                self.dropped += 1
            group = self.by_mgid[mgid] = Group(mgid)
        mlid, p_key, q_key, mtu, rate, sl = facts
        now = (mlid, p_key, q_key or group.q_key, mtu, rate, sl)
        if now != (group.mlid, group.p_key, group.q_key, group.mtu, group.rate, group.sl):
            group.mlid, group.p_key, group.q_key, group.mtu, group.rate, group.sl = now
            group.frame = frame
        return group

    def join(self, group: Group, port_gid: bytes, join_state: int, frame: int) -> None:
        """A port is a member with this JoinState (0: it is none any more)."""
        if not join_state:
            self.members -= group.members.pop(port_gid, None) is not None
        elif group.members.get(port_gid, (0, 0))[0] != join_state:
            new = port_gid not in group.members
            if not new or (len(group.members) < MAX_MEMBERS and self.members < MAX_ALL_MEMBERS):
                self.members += new
                group.members[port_gid] = (join_state, frame)
            else:
                self.dropped += 1

    def forget(self, mgid: bytes) -> None:
        """The group is gone."""
        gone = self.by_mgid.pop(mgid, None)
        self.members -= len(gone.members) if gone is not None else 0
