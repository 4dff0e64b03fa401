"""Changes of the subnet during the capture: managers, links, LIDs, keys and traps, without the initial discovery."""

from __future__ import annotations

from msgspec import Struct as Record

from ibdissect.bounded import KeptList
from ibdissect.wire.notice import Notice

from .describe import SM_STATES
from .events import FabricEvent, LidAssigned, LinkFound, LinkLost, MKeyLearnt, PKeysLearnt, RepressSeen, SmSeen, TrapSeen

MAX_KEPT = 20000
"""Changes remembered; later ones are only counted."""
MAX_WAITING = 4096
"""Traps that wait for their TrapRepress, and ports that lost a link."""
MAX_KNOWN = 65536
"""Ports whose LID is remembered, and blocks of P_Key tables."""


class FabricChange(Record):
    """One change."""

    frame: int
    time_ns: int
    kind: str
    """sm, link-lost, link-found, lid, m-key, p-keys or trap."""
    text: str
    repressed: int | None = None
    """Frame of the TrapRepress, for a trap."""


class ChangeLog:
    """Collects changes from the follower's events, in order."""

    def __init__(self) -> None:
        self.happened = KeptList[FabricChange](MAX_KEPT, "changes of the subnet")
        self._waiting: dict[tuple[int, int, int], FabricChange] = {}
        """The oldest trap without TrapRepress, by port, transaction and trap number."""
        self._unlinked: set[int] = set()
        """Ports that lost a link: their next link is reported."""
        self._lids: dict[int, int] = {}
        self._tables: set[tuple[int, int]] = set()

    def take(self, event: FabricEvent) -> None:
        """Process an event of any kind."""
        if isinstance(event, SmSeen):
            self._manager(event)
        elif isinstance(event, LinkLost):
            self._unlinked.update((event.near.key, event.far.key) if len(self._unlinked) < MAX_WAITING else ())
            self._add(event, "link-lost", f"link lost: {event.near} to {event.far}")
        elif isinstance(event, LinkFound):
            if self._unlinked & {event.near.key, event.far.key}:
                self._unlinked -= {event.near.key, event.far.key}
                self._add(event, "link-found", f"link restored: {event.near} to {event.far}")
        elif isinstance(event, LidAssigned):
            self._lid(event)
        elif isinstance(event, MKeyLearnt):
            if event.before is not None and event.before.key != event.held.key:
                what = "has no M_Key any more" if not event.held.key else "has an M_Key" if not event.before.key else "has another M_Key"
                self._add(event, "m-key", f"{event.port} {what}")
        elif isinstance(event, PKeysLearnt):
            self._p_keys(event)
        elif isinstance(event, TrapSeen):
            self._trap(event)
        elif isinstance(event, RepressSeen) and event.port is not None:
            number = Notice(event.notice).trap_number
            found = self._waiting.pop((event.port.key, event.transaction, number), None)
            if found is not None:
                found.repressed = event.frame

    def _add(self, event: FabricEvent, kind: str, text: str) -> FabricChange:
        made = FabricChange(event.frame, event.time_ns, kind, text)
        self.happened.keep(made, event.frame, event.time_ns)
        return made

    def _manager(self, event: SmSeen) -> None:
        sm, state = event.sm, SM_STATES.get(event.sm.now.state, str(event.sm.now.state))
        name = f"subnet manager 0x{sm.guid:016x}" + (f" (LID {sm.now.lid})" if sm.now.lid else "")
        if event.before is None:
            self._add(event, "sm", f"{name} is {state}, priority {sm.now.priority}")
        elif event.before != sm.now.state:
            before = SM_STATES.get(event.before, str(event.before))
            self._add(event, "sm", f"{name} was {before}, is {state}, priority {sm.now.priority}")
        elif event.priority_before != sm.now.priority:
            self._add(event, "sm", f"{name} has priority {sm.now.priority}, had {event.priority_before}")

    def _lid(self, event: LidAssigned) -> None:
        key = event.port.key
        before = self._lids.get(key)
        if before is not None and before != event.lid:
            self._add(event, "lid", f"{event.port}: its LID was {before}")
        elif event.taken_from is not None:
            self._add(event, "lid", f"{event.port} took over a LID of {event.taken_from}")
        if before is not None or len(self._lids) < MAX_KNOWN:
            self._lids[key] = event.lid

    def _p_keys(self, event: PKeysLearnt) -> None:
        key = (event.port.key, event.block)
        if key in self._tables:
            self._add(event, "p-keys", f"block {event.block} of the P_Key table of {event.port} was written")
        elif len(self._tables) < MAX_KNOWN:
            self._tables.add(key)

    def _trap(self, event: TrapSeen) -> None:
        what = f"trap {event.number}" if event.number >= 0 else "trap of a vendor"
        made = self._add(event, "trap", f"{what} of {event.sender}")
        if event.port is not None and len(self._waiting) < MAX_WAITING:
            self._waiting.setdefault((event.port.key, event.transaction, Notice(event.notice).trap_number), made)
