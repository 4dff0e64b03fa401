"""An index of a capture's set-ups: hosts that answer REQs, by service, and the hosts that an asker turns to next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Any

from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Code, HostNumber
from ibdissect.engine.connection_setups import SetUp

from .connections_from_lanes import Raw, text_of

AT_ONCE_NS = 5_000_000
"""Who asks again within that time after a REJ repeats what was refused."""


class AskedHosts:
    """Made once for a capture; hosts are numbers of the engine."""

    def __init__(self, raws: Iterable[Raw] = ()) -> None:
        self._answers: dict[tuple[HostNumber, Code | None], list[tuple[int, int]]] = {}
        """Times and frames of the answers of a host, for a service, and for any (None)."""
        self._asks: dict[tuple[HostNumber, Code | None], list[tuple[int, HostNumber]]] = {}
        """First frames of the REQs of a host for a service, and who is asked."""
        self._tries: dict[tuple[HostNumber, HostNumber, Code | None], list[tuple[int, int, bool]]] = {}
        """Times and frames of the first REQs of a host to another one for a service, and whether that was accepted."""
        self._accepted: dict[tuple[HostNumber, Code], list[tuple[int, int]]] = {}
        """Times and frames of the REPs, or RTUs, with which a host accepted who asked for a service."""
        self._hosts: dict[HostNumber, Any] = {}
        for raw in raws:
            if raw.setup is None:
                continue
            self._hosts[raw.hosts[1].number] = raw.hosts[1]
            service, answer = raw.setup.asked_service, answer_of(raw.setup)
            if answer is not None:
                for key in {service, None}:
                    insort(self._answers.setdefault((raw.hosts[1].number, key), []), answer)
            if raw.setup.reqs and service is not None:
                insort(self._asks.setdefault((raw.hosts[0].number, service), []), (raw.setup.reqs[0][0], raw.hosts[1].number))
                frame, time = raw.setup.reqs[0]
                one = time, frame, raw.setup.rej is None and (raw.setup.rep is not None or raw.setup.rtu is not None)
                insort(self._tries.setdefault((raw.hosts[0].number, raw.hosts[1].number, service), []), one)
                yes = raw.setup.rep or raw.setup.rtu
                if one[2] and yes is not None:
                    insort(self._accepted.setdefault((raw.hosts[1].number, service), []), (yes[1], yes[0]))

    def answers(self, host: HostNumber, setup: SetUp) -> dict[str, object]:
        """`answers`: the frame in which a host that leaves REQs unanswered answers another one, the first after them if there is such a
        one; `same_service`: that is for the same service. Empty if it answers none."""
        service = setup.asked_service
        for key in (service, None) if service is not None else (None,):
            found = self._answers.get((host, key))
            if found:
                place = min(bisect_right(found, (setup.first_time, 0)), len(found) - 1)
                return {"answers": found[place][1], "same_service": key is not None}
        return {}

    def after(self, asker: HostNumber, setup: SetUp, frame: int) -> tuple[int, str, bool] | None:
        """The first REQ of an asker for the same service after a frame, the address that it asks, and whether that accepted; None: there
        is none, or it cannot be told."""
        service = setup.asked_service
        found = self._asks.get((asker, service), [])
        place = bisect_right(found, (frame, AFTER_ALL))
        if place >= len(found):
            return None
        req, host = found[place]
        accepted = any(one[1] == req and one[2] for one in self._tries.get((asker, host, service), []))
        return req, text_of(self._hosts[host]), accepted

    def accepted(self, host: HostNumber, setup: SetUp) -> tuple[int | None, int | None] | None:
        """The frames with which a host accepted a connection to the service of a REQ that it refused, the last before and the first after
        its REJ; None: it accepted none."""
        service = setup.asked_service
        if setup.rej is None or service is None or not (found := self._accepted.get((host, service))):
            return None
        place = bisect_left(found, (setup.rej[1], 0))
        return found[place - 1][1] if place else None, found[place][1] if place < len(found) else None

    def again(self, asker: HostNumber, other: HostNumber, setup: SetUp) -> tuple[int, int] | None:
        """When an asker whose REQ was refused asked the same host for the same service again, in nanoseconds after the REJ, and the frame
        of that, if it did so at once and was accepted. None also where it asked for several connections at once: which of them the new
        one replaces cannot be told then."""
        found = self._tries.get((asker, other, setup.asked_service), [])
        if setup.rej is None or not setup.reqs:
            return None
        refused = setup.rej[1]
        near = [one for one in _between(found, setup.reqs[0][1] - AT_ONCE_NS, refused + AT_ONCE_NS) if one[1] != setup.reqs[0][0]]
        if len(near) != 1 or near[0][1] < setup.rej[0] or not near[0][2]:
            return None
        return near[0][0] - refused, near[0][1]

    def later(self, asker: HostNumber, other: HostNumber, setup: SetUp) -> tuple[int, int] | None:
        """The first REQ after a REJ with which the asker got a connection to the same host for the same service, how many nanoseconds after
        the REJ, and its frame; None: it got none."""
        if setup.rej is None or (service := setup.asked_service) is None:
            return None
        found = self._tries.get((asker, other, service), [])
        refused = setup.rej[1]
        return next(((time - refused, frame) for time, frame, accepted in found if accepted and time > refused), None)


def _between(found: list[tuple[int, int, bool]], since: int, until: int) -> list[tuple[int, int, bool]]:
    """Those of a time, both ends included."""
    return found[bisect_left(found, (since, 0, False)) : bisect_right(found, (until, AFTER_ALL, True))]


def answer_of(setup: SetUp) -> tuple[int, int] | None:
    """Time and frame of the first answer to its REQs: REP, MRA, or a REJ of the host that was asked."""
    found = [setup.rep, setup.mra, setup.rej if setup.rej is not None and setup.rej[3] == 1 else None]
    return min(((one[1], one[0]) for one in found if one is not None), default=None)
