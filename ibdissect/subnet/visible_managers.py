"""Managers whose Sets to a node the capture would show: it depends on who may write the node, and where the capture point is.

A capture shows the Sets to a node if it shows its manager's Gets to it, but for NodeInfo: they take the same way. A capture on a host's
link shows no Set to other ports, and after a handover none of the new manager, unless one was seen; that includes a standby that takes over
from a dead master. A fact that was read there holds for a while only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import Dropped
from ibdissect.decode import Bool, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import by_value, distinct_values, is_in
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import SenderId
from ibdissect.wire import numbers
from ibdissect.wire.sm import DR_MAX_HOPS, SMInfo
from ibdissect.wire.sm_port import PortInfo

from .events import ChunkFollowed
from .follower import FabricFollower
from .nodes import CA, ROUTER, Node, Origin

AGES_NS = 10 * SECOND_NS
"""A fact is this old at most where the capture does not show the manager of its node: OpenSM sweeps every 10 s."""
CONFIGURED_NS = 1800 * SECOND_NS
"""The same for what changes only when a person changes it: partition tables, a node's hardware, the configuration of its links."""
LIFETIME_NS = 1_100_000_000
"""A packet under way when a fact changed arrives within this time: PacketLifeTime 18, the usual one, is 1.07 s."""
HANDOVER, ACKNOWLEDGE = 1, 2
"""Modifiers of Set(SMInfo) that move mastership."""
ALSO_TOOLS = (numbers.PORT_INFO, numbers.SM_INFO, numbers.NOTICE)
"""Attributes that tools and standby managers write along LIDs, too."""
MAX_ASTRAY, MAX_HANDOVERS, MAX_NODES, MAX_AMBIGUOUS = 1 << 14, 4096, 1 << 18, 1 << 16


def of_managers(attribute: npt.NDArray[np.integer[Any]], directed: Bool | bool) -> Bool:
    """Which Sets tools do not send, by their attribute and way: tools read and write manufacturers' registers, and switch LEDs on."""
    of_tools = (attribute >= numbers.FIRST_VENDOR) | (attribute == numbers.LED_INFO)
    found: Bool = ~of_tools & (directed | ~np.isin(attribute, ALSO_TOOLS))
    return found


class Vantage:
    """Which nodes does a manager write to where the capture sees it? One per capture; ask at its end."""

    after: ClassVar = (FabricFollower,)
    learns_from: ClassVar = ChunkFollowed

    def __init__(self, follower: FabricFollower) -> None:
        self.follower = follower
        self._managed: dict[tuple[int, int], int] = {}
        """Frame of the first Set of a manager, by slot of the node and number of handovers before."""
        self._asked: set[tuple[int, int, int]] = set()
        """Slot of a node, number of handovers before, and who asks it along directed routes."""
        self._beyond: dict[int, list[Node]] = {}
        """Nodes whose manager the capture does not show, by number of handovers before, known at its end."""
        self._writers: dict[int, set[int]] = {}
        """Senders of a manager's Sets along directed routes, by number of handovers before."""
        self._wrote: list[int] = []
        """Frames of Sets of P_Key tables, ascending."""
        self._astray: dict[int, dict[SenderId, list[int]]] = {}
        """Frames of directed Sets to places unknown or without NodeInfo, which may be any node; ascending, by attribute and sender."""
        self._fewest: dict[SenderId, int] = {}
        """Hops of the shortest route of theirs, by sender."""
        self._strays = 0
        self.ambiguous: set[int] = set()
        """Frames of directed answers that either of two hosts may have asked for, so that they may be another port's."""
        self.handovers: list[int] = []
        """Frames that show that mastership moved."""
        self.dropped = Dropped("Sets of subnet management")
        self._full = 0
        """Frame from which on something was forgotten; 0: nothing."""
        self._master = 0
        """GUID of the latest master that told of itself."""
        self._named = 0
        """The latest MasterSMLID that was written; 0: none."""

    def take(self, event: ChunkFollowed) -> None:
        """Process the SMPs of a chunk."""
        smps, first = event.smps, event.table.chunk.first
        self._handovers(event)
        shared = self._shared(event)
        sets = smps.method == numbers.SET
        self._gets(event, shared)
        if not sets.any():
            return
        self._tables(event, smps.rows[sets & (smps.attribute == numbers.P_KEY_TABLE)] + first)
        index = np.flatnonzero(sets & (smps.attribute != numbers.SM_INFO))
        frames, slots = smps.rows[index] + first, smps.slot[index]
        directed = smps.directed[index]
        attribute = smps.attribute[index]
        managing = (slots >= 0) & ~shared[index] & of_managers(attribute, directed)
        managing &= ~is_in(index, self._of_tools(event, index))
        eras = np.searchsorted(self.handovers, frames[managing], "right")  # the Set that shows a handover is the new manager's
        ways = directed[managing]
        for era, sender in {*zip(eras[ways].tolist(), smps.sender[index[managing]][ways].tolist(), strict=True)}:
            self._writers.setdefault(era, set()).add(sender)
        keys, where = np.unique(slots[managing] << 16 | np.minimum(eras, 0xFFFF), return_index=True)
        for key, frame in zip(keys.tolist(), frames[managing][where].tolist(), strict=True):
            known = key >> 16, key & 0xFFFF
            if known not in self._managed and self._room(len(self._managed) < MAX_NODES, event, frame):
                self._managed[known] = frame
        nameless = np.array([not node.guid for node in smps.nodes], np.bool_)[smps.which[index]]
        lost = np.flatnonzero((nameless | shared[index]) & directed)
        columns = attribute[lost], frames[lost], smps.sender[index[lost]], index[lost]
        for one, frame, number, i in zip(*(column.tolist() for column in columns), strict=True):
            if self._room(self._strays < MAX_ASTRAY, event, frame):
                sender, hops = SenderId(number), len(smps.smps.path(int(smps.index[i])))
                self._astray.setdefault(one, {}).setdefault(sender, []).append(frame)
                self._fewest[sender] = min(self._fewest.get(sender, hops), hops)
                self._strays += 1

    def _of_tools(self, event: ChunkFollowed, index: Int) -> Int:
        """Which of some Sets a tool sent, which writes back what it read: its own port never had the LID that they call the manager's."""
        smps, first, found = event.smps, event.table.chunk.first, [np.empty(0, np.int64)]
        index = index[smps.directed[index] & (smps.attribute[index] == numbers.PORT_INFO)]
        written = smps.bodies[index]
        named, given = (extract(written, one.bit, one.bits).astype(np.int64) for one in (PortInfo.master_sm_lid, PortInfo.lid))
        index, named = (of[(named > 0) & (named != given)] for of in (index, named))
        for sender, mine in by_value(smps.sender[index]):
            origin = self.follower.routes.origins.get(sender)
            if origin is None or origin.home.now is None:
                continue
            ports = [port for node, entered in origin.home.since_frame(first) if (port := node.manager(entered)) is not None]
            changes = set(origin.home.changes_after(first)).union(*(port.lids.changes_after(first) for port in ports))
            for lid, some in by_value(named[mine]):
                at = index[mine[some]]
                frames = smps.rows[at] + first
                stretch = np.searchsorted(np.array(sorted(changes), np.int64), frames, "right")
                for _, alike in by_value(stretch):  # of all between two changes the same is known
                    if _is_elsewhere(origin, lid, int(frames[alike[0]])):
                        found.append(at[alike])
        return np.concatenate(found)

    def _gets(self, event: ChunkFollowed, shared: Bool) -> None:
        """Remember who asks which node along directed routes."""
        smps, first = event.smps, event.table.chunk.first
        index = np.flatnonzero(
            ((smps.method == numbers.GET) | (smps.method == numbers.GET_RESP)) & smps.directed & ~shared & (smps.slot >= 0)
            & (smps.attribute != numbers.NODE_INFO)  # asked along every link, of its own node, too
        )  # fmt: skip
        places = smps.slot[index] * (MAX_HANDOVERS + 1) + np.searchsorted(self.handovers, smps.rows[index] + first)
        for sender, mine in by_value(smps.sender[index]):
            for place in distinct_values(places[mine]):
                if len(self._asked) < MAX_NODES:  # further nodes count as not managed
                    self._asked.add((*divmod(place, MAX_HANDOVERS + 1), sender))

    def _tables(self, event: ChunkFollowed, frames: Int) -> None:
        for frame in frames.tolist():
            if self._room(len(self._wrote) < MAX_NODES, event, frame):
                self._wrote.append(frame)

    def _shared(self, event: ChunkFollowed) -> Bool:
        """Which directed SMPs come from a sender whose number another host is known to use, too; bool[n]."""
        smps, first = event.smps, event.table.chunk.first
        shared = np.zeros(len(smps), np.bool_)
        for sender, origin in self.follower.routes.origins.items():
            if origin.shared:
                shared |= smps.directed & (smps.sender == sender) & (smps.rows + first >= origin.shared)
        for frame in (smps.rows[shared & (smps.method == numbers.GET_RESP)] + first).tolist():
            if self._room(len(self.ambiguous) < MAX_AMBIGUOUS, event, frame):
                self.ambiguous.add(frame)
        return shared

    def _room(self, room: bool, event: ChunkFollowed, frame: int) -> bool:
        if not room:
            self._full = self._full or frame
            self.dropped.add(frame, int(event.table.chunk.time_ns[frame - event.table.chunk.first]))
        return room

    def _handovers(self, event: ChunkFollowed) -> None:
        smps = event.smps
        told = [i for i in np.flatnonzero(smps.attribute == numbers.SM_INFO).tolist() if self._moves(event, i)]
        for frame in (smps.rows[sorted({*told, *self._takeovers(event)})] + event.table.chunk.first).tolist():
            if self._room(len(self.handovers) < MAX_HANDOVERS, event, frame):
                self.handovers.append(frame)

    def _moves(self, event: ChunkFollowed, i: int) -> bool:
        """Whether an SMP about SMInfo moves mastership, or shows that it moved."""
        smps = event.smps
        if smps.method[i] == numbers.SET:
            return int(smps.modifier[i]) in (HANDOVER, ACKNOWLEDGE)
        info = SMInfo(smps.bodies[i].tobytes())
        if smps.method[i] != numbers.GET_RESP or info.sm_state != numbers.MASTER or not info.guid:
            return False
        before, self._master = self._master, info.guid
        return before not in (0, info.guid)

    def _takeovers(self, event: ChunkFollowed) -> list[int]:
        """The Sets of PortInfo that name another manager than the one before: a standby that takes over from a dead master says no more.

        What a switch shows as that of an external port means nothing, and tools write it back.
        """
        smps = event.smps
        own = (smps.kind == CA) | (smps.kind == ROUTER) | (smps.modifier & 0xFF == 0)
        index = np.flatnonzero(own & (smps.attribute == numbers.PORT_INFO) & (smps.method == numbers.SET))
        named = extract(smps.bodies[index], PortInfo.master_sm_lid.bit, PortInfo.master_sm_lid.bits).astype(np.int64)
        index, named = index[named > 0], named[named > 0]
        before = np.append(self._named, named)[: len(named)]
        self._named = int(named[-1]) if len(named) else self._named
        found: list[int] = index[(before > 0) & (before != named)].tolist()
        return found

    def handed_over(self, after: int, frame: int, nodes: Collection[Node] | None) -> bool:
        """Whether mastership moved between two frames and the capture does not show the new manager at all of the nodes."""
        era = bisect_right(self.handovers, frame)
        return era > bisect_right(self.handovers, after) and not self.manages(nodes, frame)

    def manages(self, nodes: Collection[Node] | None, frame: int) -> bool:
        """Whether the capture shows the manager of that time asking or writing all of these nodes; None: all that were known by then."""
        era = bisect_right(self.handovers, frame)
        if nodes is None:
            if era not in self._beyond:
                subnet = self.follower.subnet
                self._beyond[era] = [one for one in subnet.slots.values() if not self._is_managed(one, era)]
            written = any(known == era for _, known in self._managed)
            return written and not any(node.frame <= frame < node.until for node in self._beyond[era])
        return bool(nodes) and all(self._is_managed(node, era) and not self._manages_itself(node, frame, era) for node in nodes)

    def _manages_itself(self, node: Node, frame: int, era: int) -> bool:
        """Whether a node's port is its own manager's, and the capture does not show what it writes there: that passes no link."""
        origins = (self.follower.routes.origins.get(SenderId(one)) for one in self._writers.get(era, ()))
        homes = [origin.home.at(frame)[0] for origin in origins if origin is not None]
        if any(home is not None and home[0] is node for home in homes):
            return False
        infos = ((port, port.info_at(frame)[0]) for port in node.ports.values())
        return any(info is not None and port.owns(info.master_sm_lid, frame) for port, info in infos)

    def _is_managed(self, node: Node, era: int) -> bool:
        return (node.slot, era) in self._managed or any((node.slot, era, one) in self._asked for one in self._writers.get(era, ()))

    def repartitions(self, after: int, before: int) -> bool:
        """Whether a P_Key table, of whichever node, was written between two frames: somebody changes the partitions."""
        return bisect_right(self._wrote, after) < bisect_left(self._wrote, before) or 0 < self._full < before

    def astray(self, attribute: int, after: int, before: int, nodes: Collection[Node] | None) -> bool:
        """Whether a Set of an attribute to an unknown place, between two frames, may have written one of the nodes; None: any node."""
        if 0 < self._full < before:
            return True
        for sender, frames in self._astray.get(attribute, {}).items():
            between = bisect_right(frames, after) < bisect_left(frames, before)
            if between and (nodes is None or self.may_lead(sender, nodes)):
                return True
        return False

    def may_lead(self, sender: int, nodes: Collection[Node]) -> bool:
        """Whether an unknown route of a sender may lead to one of these nodes: it has no other route there that is not longer.

        Managers write along the shortest, and ask for NodeInfo along longer ones, too.
        """
        origin = self.follower.routes.origins.get(sender)
        if origin is None or origin.shared > 0:
            return True
        fewest = self._fewest.get(SenderId(sender), DR_MAX_HOPS)
        return not {node.slot for node in nodes} <= {hop.node.slot for path, hop in origin.hops.items() if len(path) <= fewest}


def _is_elsewhere(origin: Origin, lid: int, frame: int) -> bool:
    """Whether the port of a sender had other LIDs than this one when a frame was sent, and before."""
    home = origin.home.at(frame)[0]
    port = home[0].manager(home[1]) if home is not None else None
    return port is not None and port.lids.at(frame)[0] is not None and not port.has_had(lid, frame)
