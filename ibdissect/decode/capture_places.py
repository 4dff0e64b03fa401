"""Capture interface and VLAN of each frame: facts of one subnet need not hold in another.

LIDs, groups, keys and partitions are a subnet's. Two interfaces of one file may be in two subnets, and so may two VLANs of RoCE. They count
as one place where the same node answers in both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped
from ibdissect.capture.gather import u16
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET_RESP
from ibdissect.wire.sm import NodeInfo, SMInfo

from .chunk_table import ChunkTable
from .equal_rows import by_value, groups
from .history import SECOND_NS
from .locate import Int

MAX_SCOPES = 255
MAX_FRAMES = 1 << 24
"""Frames whose place is remembered, a byte each."""
MAX_GUIDS = 1 << 18
UNUSUAL_NS = 60 * SECOND_NS
"""For a minute no manager asks anything only where it is told to ask seldom: recording may have stopped."""
MAX_PAUSES = 1 << 16


class Scope(Record, frozen=True):
    """A place of capture, as the capture shows it."""

    interface: int
    """Index of the interface of a pcapng file, or the capture port of an ERF record."""
    vlan: int
    """VLAN id of the outermost tag; 0: none."""


class Scopes:
    """The place of every frame. One per capture; feed chunks in order."""

    def __init__(self) -> None:
        self.known: dict[Scope, int] = {}
        """Their numbers; the last one, MAX_SCOPES, stands for all further ones."""
        self.dropped = Dropped("places of capture")
        self._places = bytearray()
        """Number of the place of each frame; empty while all frames come from one."""
        self._frames = 0
        self._joined: dict[int, int] = {}
        """Places that are in one subnet, by number."""
        self._seen: dict[int, int] = {}
        """Place in which a port was seen to answer, by GUID."""
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        """Times of the first and the last frame of each interface, ns."""
        self._resumed: tuple[list[int], list[int]] = [], []
        """The first frames after pauses of a minute or more, and their times; if there are too many, no time is certain."""
        self._latest_ns = 0

    def feed(self, table: ChunkTable) -> tuple[()]:
        """Process a chunk; emits no events."""
        table.once(self.take)
        return ()

    def take(self, table: ChunkTable) -> None:
        """Note where the frames of a chunk were captured. Call it by `table.once`."""
        if not len(table):
            return
        interface, tags = table.chunk.interface.astype(np.int64), table.located.start.get("vlan")
        vlan = np.zeros(len(table), np.int64)
        if tags is not None and (tagged := np.flatnonzero(tags >= 0)).size:
            vlan[tagged] = u16(table.chunk.data, tags[tagged]) & 0xFFF
        one = (interface == interface[0]).all() and (vlan == vlan[0]).all()  # as in most captures
        first, which = (np.zeros(1, np.int64), np.zeros(len(table), np.int64)) if one else groups((interface, vlan))
        own = table.own if table.own is not None else np.arange(len(table))
        timed = own[table.chunk.time_ns[own] > 0]
        for number, index in by_value(interface[timed]):
            self._first.setdefault(number, int(table.chunk.time_ns[timed[index[0]]]))
            self._last[number] = int(table.chunk.time_ns[timed[index[-1]]])
        self._note_pauses(table, timed)
        numbers = np.array([self._number(Scope(int(interface[i]), int(vlan[i])), table, int(i)) for i in first.tolist()], np.uint8)
        if len(self.known) > 1 and not self._places:
            self._places = bytearray(min(self._frames, MAX_FRAMES))
        if self._places or len(self.known) > 1:
            self._places += numbers[which][: MAX_FRAMES - len(self._places)].tobytes()
            self._join(table, numbers[which])
        elif not self._seen:
            self._join(table, numbers[which])
        self._frames += len(table)

    def _note_pauses(self, table: ChunkTable, timed: Int) -> None:
        """Note where recording goes on after a pause."""
        times, (frames, since) = table.chunk.time_ns[timed], self._resumed
        late = np.flatnonzero(np.diff(times, prepend=self._latest_ns or times[:1]) >= UNUSUAL_NS)
        late = late[: MAX_PAUSES - len(frames)]
        frames += (timed[late] + table.chunk.first).tolist()
        since += times[late].tolist()
        self._latest_ns = int(times[-1]) if len(times) else self._latest_ns

    def _number(self, scope: Scope, table: ChunkTable, row: int) -> int:
        found = self.known.get(scope)
        if found is None:
            if len(self.known) >= MAX_SCOPES:
                self.dropped.add(table.chunk.first + row, int(table.chunk.time_ns[row]))
                return MAX_SCOPES
            found = self.known[scope] = len(self.known)
        return found

    def _join(self, table: ChunkTable, places: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        """Two places in which one port answers are in one subnet."""
        for field in (NodeInfo.port_guid, SMInfo.guid):
            rows = table.occurrences(field.owner).rows
            if not len(rows):
                continue
            answers = table.values_at(MAD.method, rows) == GET_RESP
            guids, where = table.values(field)[answers], places[rows[answers]]
            first, _ = groups((guids, where))
            for guid, place in zip(guids[first].tolist(), where[first].tolist(), strict=True):
                known = self._seen.get(guid)
                if known is None and len(self._seen) < MAX_GUIDS:
                    self._seen[guid] = place
                elif known is not None and guid:
                    self._joined[self._root(place)] = self._root(known)

    def _root(self, place: int) -> int:
        while self._joined.get(place, place) != place:
            place = self._joined[place]
        return place

    def together(self, frames: Iterable[int]) -> bool:
        """Whether these frames were captured in one place, or in places that are known to be in one subnet."""
        if not self._places:
            return True
        places = {self._place(frame) for frame in frames}
        return len(places) == 1 and None not in places and MAX_SCOPES not in places

    def only_vlan(self, frame: int) -> int:
        """The VLAN in whose tag all frames came that the interface of a frame recorded; 0: in several, or some without a tag."""
        place = self._places[frame - 1] if 0 < frame <= len(self._places) else MAX_SCOPES if self._places else 0
        interface = [*self.known][place].interface if place < len(self.known) else None
        vlans = {scope.vlan for scope in self.known if interface in (None, scope.interface)}
        return vlans.pop() if len(vlans) == 1 else 0

    def goes_on(self, frame: int, since_ns: int) -> int:
        """For how many nanoseconds after a time the interface of a frame was captured, as its last packet shows: a capture of several
        ports, or a merged one, may go on when one of them has ended. Negative if it was not captured so long. Beyond MAX_FRAMES or
        MAX_SCOPES any interface may be meant: the one that ended first counts.
        """
        return self._of(frame, self._last, min, since_ns) - since_ns

    def has_run(self, frame: int, until_ns: int) -> int:
        """The same before a time, since the beginning or the latest pause: nothing can be known of what was before."""
        frames, since = self._resumed
        began, at = self._of(frame, self._first, max, until_ns), bisect_right(frames, frame)
        return 0 if at >= MAX_PAUSES else until_ns - (max(began, since[at - 1]) if at else began)

    def _of(self, frame: int, times: dict[int, int], doubtful: Callable[[Iterable[int]], int], unknown: int) -> int:
        place = self._places[frame - 1] if 0 < frame <= len(self._places) else MAX_SCOPES if self._places else 0
        if place < len(self.known) and place != MAX_SCOPES:
            return times.get([*self.known][place].interface, unknown)
        return doubtful(times.values()) if times else unknown

    def _place(self, frame: int) -> int | None:
        return self._root(self._places[frame - 1]) if 0 < frame <= len(self._places) else None
