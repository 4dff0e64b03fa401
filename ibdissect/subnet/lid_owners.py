"""The owner of each LID over time."""

from __future__ import annotations

from ibdissect.decode.history import AFTER_ALL, History
from ibdissect.decode.identity import LidId, PortId
from ibdissect.engine.ports import owner_changes
from ibdissect.wire.numbers import FIRST_MULTICAST

from .mixed_subnets import LID, Contradictions
from .nodes import NEVER, Port


class LidOwners:
    """Which port had which LID, from frame to frame."""

    def __init__(self, contradictions: Contradictions) -> None:
        """`contradictions` learn which LIDs two nodes had."""
        self.lids: dict[int, History[Port]] = {}
        """The port that owned each LID, over time."""
        self.contradictions = contradictions

    def by_lid(self, lid: int) -> Port | None:
        """The current owner of a unicast LID, None if unknown."""
        track = self.lids.get(lid)
        port = track.now if track is not None else None
        return port if port is not None and port.node.alive else None

    def owner(self, lid: int, frame: int) -> tuple[Port | None, int]:
        """The owner of a LID when `frame` was sent, and the frame that showed it."""
        track = self.lids.get(lid)
        port, since = track.at(frame) if track is not None else (None, 0)
        return (port, since) if port is not None and frame < port.node.until else (None, 0)

    def who(self, lid: int, frame: int) -> PortId | LidId:
        """Whose a LID is when `frame` is sent: another one's after it was given away. The LID itself as long as no port showed it."""
        port = self.owner(lid, frame)[0]
        return port.id if port is not None else LidId(lid)

    def kept(self, lid: int, since: int, frame: int) -> bool:
        """Whether a LID was one port's at two frames, as far as the capture shows: what was learnt of it at one holds at the other."""
        then, now = self.owner(lid, since)[0], self.owner(lid, frame)[0]
        return then is None or now is then

    def owners(self, lid: int, since: int = -AFTER_ALL) -> set[Port]:
        """The present and past owners of a LID, as far as remembered, that had it at a frame or later."""
        track = self.lids.get(lid)
        return {*track.since_frame(since)} if track is not None else set()

    def loops(self, one: int, other: int, frame: int) -> bool:
        """Whether two LIDs are one port's, so that packets between them take no link."""
        port = self.owner(one, frame)[0]
        return one == other or (port is not None and port is self.owner(other, frame)[0])

    def contested(self, port: Port, frame: int) -> bool:
        """Whether another port still had a LID of a port at `frame`, and got another one later: managers exchange LIDs one by one."""
        return any(change > frame for other in self.rivals(port, frame) for change in other.lids.changes())

    def rivals(self, port: Port, frame: int) -> list[Port]:
        """The other ports that had a LID of a port at `frame`, as far as the capture shows."""
        (low, lmc), others = port.lids.at(frame)[0] or (0, 0), set[Port]()
        for lid in range(low, low + (1 << lmc)):
            others |= self.owners(lid) - {port}
        held = [(other, *(other.lids.at(frame)[0] or (0, 0))) for other in others]
        return [other for other, start, bits in held if start and start < low + (1 << lmc) and low < start + (1 << bits)]

    def changes(self, *lids: int, after: int) -> set[int]:
        """Frames later than `after` at which the owner of one of these LIDs, or the owner's known state, changed."""
        found: set[int] = set()
        for lid in lids:
            if lid in self.lids:
                found |= owner_changes(self.lids[lid], after)
        return found

    def assign(self, port: Port, lid: int, lmc: int, frame: int) -> Port | None:
        """Give LIDs to a port from `frame` on; it loses its earlier ones. Returns a previous owner of one of them, if any."""
        before = port.lids.now
        if before == (lid, lmc):
            track = self.lids.get(lid)
            if track is not None and track.now is port:
                return None
        fresh = range(lid, min(lid + (1 << lmc), FIRST_MULTICAST)) if lid else range(0)
        if before is not None:
            for old in range(before[0], before[0] + (1 << before[1])):
                track = self.lids.get(old)
                if track is not None and track.now is port and old not in fresh:
                    track.learn(None, frame)
        if port.lids is NEVER:
            port.lids = History()
        port.lids.learn((lid, lmc) if lid else None, frame)
        taken = None
        for one in fresh:
            track = self.lids.get(one)
            if track is None:
                track = self.lids[one] = History()
            if track.since > 0 and track.now is not None and track.now is not port and track.now.node.alive and track.now.node.guid:
                taken = track.now
                self.contradictions.note(LID, one, taken.node.slot, port.node.slot, frame)
                self.contradictions.shared_lid(one, taken.node, port.node, frame)
            track.learn(port, frame)
        return taken
