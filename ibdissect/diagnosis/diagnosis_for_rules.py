"""`Stories`: the diagnosis of connections (`ibdissect diagnose`) as a follower, for rules."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from ibdissect.bounded import Dropped
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Code, HostNumber
from ibdissect.wire.cm_names import REJ_CONSUMER, is_own_port, same_service

from .frame_times import FrameTimes

if TYPE_CHECKING:
    from .connection import Connection, Diagnosis
    from .connection_follower import ConnectionFollower
    from .verdicts import KeyName, Verdicts

ACCEPTED = ("complete", "partly", "not-captured")
"""States of a set-up that was neither refused nor left without an answer; the last one: its REQ is not captured."""
ICRC_WRONG = "icrc-wrong-at-sender"
ANY_SERVICE = Code(-1)
"""Stands for all services of a host, where the one that was asked for is cut off."""
AT_ONCE_NS = 10 * SECOND_NS
"""A process that refuses a connection because it asks for one itself gets that within this time."""


class Stories:
    """Follows all connections; `of_cause` tells of them at the end of the capture. Without transport headers it loads and costs nothing."""

    after: ClassVar = (LaneFollower, Scopes)

    def __init__(self, packets: LaneFollower | None = None, scopes: Scopes | None = None) -> None:
        self.packets, self.scopes = packets or LaneFollower(), scopes or Scopes()
        self.follower: ConnectionFollower | None = None
        self.times = FrameTimes()
        self._lost = Dropped("queue pairs and set-ups of connections")
        self.dropped = (self.times.dropped, self._lost)
        self._verdicts: Verdicts | None = None
        self.key_name: KeyName | None = None
        """How sentences show a key; None: they tell of none, rules name it themselves."""
        self._latest: dict[tuple[HostNumber, HostNumber, Code | None], tuple[int, int]] | None = None
        """By who asked for a connection, whom, and for which service; None: the REQ is not captured."""
        self._own_ports: dict[tuple[HostNumber, HostNumber], list[int]] = {}
        """When processes accepted connections on ports of their own, by who asked and whom."""
        self._wrongly: set[End] | None = None

    def feed(self, table: ChunkTable) -> Iterable[object]:
        """The next chunk; there are no events before the end."""
        if self.follower is None:
            if "bth" not in table.located.start:
                self.times.seen(table)
                self.scopes.feed(table)
                return ()
            from .connection_follower import ConnectionFollower

            self.follower = ConnectionFollower(self.times, self.packets, self.scopes)
        self.follower.feed(table)
        lanes = self.follower.lanes
        more = lanes.dropped + lanes.hosts_dropped + lanes.setups.dropped - self._lost.count
        if more and len(table):
            self._lost.add(table.chunk.first, int(table.chunk.time_ns[0]), more)
        return ()

    @property
    def verdicts(self) -> Verdicts | None:
        """What explains each connection; None without any. Ask at the end of the capture."""
        if self._verdicts is None and self.follower is not None:
            self._verdicts = self.follower.verdicts()
        if self._verdicts is not None:
            self._verdicts.key_name = self.key_name
        return self._verdicts

    def r_key(self, one: Connection) -> int | None:
        """That of the access which a connection was refused; None if it is not captured."""
        access = self.verdicts.capture.access(one.evidence[0] or 0) if self.verdicts is not None else None
        return access.r_key if access is not None else None

    @property
    def diagnosis(self) -> Diagnosis | None:
        """What became of all connections; None without any. Ask at the end of the capture."""
        return self.verdicts.diagnosis("", self.times.frames) if self.verdicts is not None else None

    def of_cause(self, cause: str) -> list[Connection]:
        """The connections that a cause explains, in the order of their first frames. Ask at the end of the capture."""
        any_ = self.follower is not None and self.follower.any
        return self.verdicts.of_cause(cause) if any_ and self.verdicts is not None else []

    def connected_later(self, one: Connection) -> bool:
        """Whether a later request of the one who asked for a connection was accepted, for the same service of that host, or one that is
        not captured; if its own service is cut off, for any. It may be one of those beyond the bound."""
        beyond = self.follower is not None and self.follower.lanes.setups.dropped
        return bool(beyond) or any(first > one.first_frame for first, _ in self._accepted(one, 0))

    def connected_back(self, one: Connection) -> bool:
        """Whether the host that was asked for a connection asked for one itself, for the same service or by a REQ that is not captured, and
        was accepted then or later; or soon for another service, where both belong to processes that listen on ports of their own and
        refuse what is one connection too many (libfabric, MVAPICH, Open MPI).
        """
        service, start = one.set_up.service_id, one.set_up.start_ns
        if any(accepted > one.first_frame for _, accepted in self._accepted(one, 1)):
            return True
        if one.hosts is None or service is None or start is None or one.set_up.reason != REJ_CONSUMER or not is_own_port(service):
            return False
        times = self._own_ports.get(one.hosts[::-1], [])
        after = bisect_left(times, start)
        return after < len(times) and times[after] - start < AT_ONCE_NS

    def _accepted(self, one: Connection, side: int) -> list[tuple[int, int]]:
        """What `_set_up` knows of connections that an end asked the other one for: to its service, and by a REQ that is not captured. If
        the service is cut off, it may be any.
        """
        if self._latest is None:
            self._latest = self._set_up()
        if one.hosts is None:
            return []
        ends, asked = (one.hosts[side], one.hosts[1 - side]), same_service(one.set_up.service_id)
        return [self._latest.get((*ends, service), (0, 0)) for service in (ANY_SERVICE if asked is None else asked, None)]

    def _set_up(self) -> dict[tuple[HostNumber, HostNumber, Code | None], tuple[int, int]]:
        """The first frame of the latest connection that was accepted, and the frame that shows it."""
        latest: dict[tuple[HostNumber, HostNumber, Code | None], tuple[int, int]] = {}
        for raw, how in self.verdicts.set_up() if self.verdicts is not None else ():
            if raw.setup is not None and raw.taken is not None and how.state in ACCEPTED:
                ends = HostNumber(raw.hosts[0].number), HostNumber(raw.hosts[1].number)
                latest[*ends, raw.setup.asked_service] = latest[*ends, ANY_SERVICE] = raw.first_frame, raw.taken[0]
                if how.service_id is not None and is_own_port(how.service_id):
                    insort(self._own_ports.setdefault(ends, []), raw.taken[1])
        return latest

    def computes_wrongly(self, sender: End) -> bool:
        """Whether nearly all ICRCs of a sender are wrong. Ask at the end of the capture."""
        if self._wrongly is None:  # asked for each packet with a wrong ICRC
            self._wrongly = self.verdicts.blamed(ICRC_WRONG) if self.verdicts is not None else set()
        return sender in self._wrongly

    def time_of(self, frame: int) -> int:
        """When a frame was captured, in nanoseconds since 1970; beyond the bound, when the last one before it was."""
        time = self.times.of(frame)
        return self.times.last if time is None else time
