"""Sweeps of each subnet manager: its requests by node and port, their order, speed and repetitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.addresses import End
from ibdissect.mad.request_outcomes import AnsweredMany, Request, Unanswered
from ibdissect.mad.transactions import Transactions
from ibdissect.subnet.describe import node_name
from ibdissect.subnet.nodes import SWITCH, Node
from ibdissect.subnet.smp_columns import Smps
from ibdissect.wire import numbers
from ibdissect.wire.text import printable, runs

if TYPE_CHECKING:
    from .background_analysis import BackgroundAnalysis

PAUSE_NS = 1_000_000_000
"""A manager that asks nothing for so long has ended its sweep."""
MAX_ASKED = 200_000
"""Requests that are shown; further ones are counted."""
STEP = 1 << 15
"""Frames read at once."""
SHOWN = 24
"""Different requests to a port whose order is told."""
ASKS = (numbers.GET, numbers.SET)
OF_PORTS = (numbers.P_KEY_TABLE, numbers.GUID_INFO, numbers.SL_TO_VL, numbers.VL_ARBITRATION)
"""Attributes of one port, besides PortInfo."""


class SweepTarget(Record, frozen=True):
    """Who asked, and whom: names, or routes and LIDs where no name is known."""

    manager: str
    node: str
    port: int
    """0: the node as a whole."""
    home: bool
    """The manager asked its own node who it is, as it does when a sweep begins."""


class SweepRequest(Record, frozen=True):
    """A request, and what became of it."""

    place: SweepTarget
    what: str
    """The attribute."""
    sets: bool
    frames: tuple[int, ...]
    """The first and the last try, and the answer if there is one."""
    time_ns: int
    end_ns: int
    """Of the answer, else of the last try."""
    tries: int
    response_ns: int
    """From the first try to the answer; -1 without one."""


class PortAsked(Record):
    """All requests to a port in a sweep."""

    node: str
    port: int
    order: int
    """1 for the port that was asked first."""
    start_ns: int
    asked: int = 0
    sets: int = 0
    retries: int = 0
    unanswered: int = 0
    times: list[int] = field(default_factory=list)
    """Response times in nanoseconds, from the first try."""
    what: Counter[str] = field(default_factory=Counter)
    """Requests in the order of their first: `PortInfo`, `Set PortInfo`."""
    frames: list[int] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        return self.node, self.port

    @property
    def slowest_ns(self) -> int:
        """-1 if nothing was answered."""
        return max(self.times, default=-1)

    @property
    def median_ns(self) -> int:
        return median_low(self.times) if self.times else -1

    @property
    def story(self) -> str:
        """What was asked and set, in order."""
        told = [f"{count}× {what}" if count > 1 else what for what, count in self.what.items()]
        return ", ".join(told[:SHOWN]) + (" …" if len(told) > SHOWN else "")


class Sweep(Record):
    """What a manager asked and set without a pause."""

    manager: str
    start_ns: int
    end_ns: int = 0
    ports: list[PortAsked] = field(default_factory=list)
    """Those that answered nothing first, then the slowest ones."""

    @property
    def requests(self) -> int:
        return sum(port.asked + port.sets for port in self.ports)

    @property
    def slowest(self) -> PortAsked:
        """The port with the slowest answer."""
        return max(self.ports, key=lambda port: port.slowest_ns)

    @property
    def silent(self) -> int:
        """Ports that left a request without an answer."""
        return sum(bool(port.unanswered) for port in self.ports)


class Sweeps(Record):
    all: list[Sweep]
    """In the order of their first request."""
    left_out: int
    """Requests beyond the bound."""


def find_sweeps(study: BackgroundAnalysis, wanted: Callable[[], bool] = lambda: True) -> Sweeps:
    """The sweeps in the frames that have been studied. Reads them once more, in a thread; ends early if it is no longer wanted."""
    transactions, places, found = Transactions(), dict[int, SweepTarget](), list[SweepRequest]()
    done, left_out, model = 0, 0, study.model
    while done < study.done and wanted() and not model.stopped:
        chunk = model.index.after(done, min(STEP, study.done - done))
        if not len(chunk):
            break
        table = model.reading.table_of(chunk)
        done = chunk.first + len(chunk) - 1
        _find_places(study, Smps(table, keyed=False), chunk.first, places)
        for event in transactions.feed(table):
            for request, frame, time_ns in _ended(event):
                left_out += not _take(study, found, places.pop(request.frame, None), request, frame, time_ns)
    for request in transactions.open_requests():
        if request.mgmt_class in numbers.SMP_CLASSES:
            left_out += not _take(study, found, places.pop(request.frame, None), request, 0, 0)
    return Sweeps(list(_divided(found)), left_out)


def frames_filter(frames: Sequence[int]) -> str:
    """The display filter for some frames."""
    return f"frame.number in {{{', '.join(str(a) if a == b else f'{a} .. {b}' for a, b in runs(sorted(set(frames))))}}}"


def _ended(event: object) -> Iterator[tuple[Request, int, int]]:
    """Requests of subnet management that an event tells the end of, with frame and time of the answer, 0 for none."""
    if isinstance(event, AnsweredMany):
        for one in event.some(np.isin(event.mgmt_class, [*numbers.SMP_CLASSES])):
            yield one.request, one.frame, one.time_ns
    elif isinstance(event, Unanswered) and event.request.mgmt_class in numbers.SMP_CLASSES:
        yield event.request, 0, 0


def _find_places(study: BackgroundAnalysis, smps: Smps, first: int, places: dict[int, SweepTarget]) -> None:
    """Note who is at the ends of the requests of a chunk."""
    follower = study.ends.follower
    assert follower is not None
    subnet, routes = follower.subnet, follower.routes
    asks = np.flatnonzero(np.isin(smps.method, ASKS))
    for i in asks[: max(MAX_ASKED - len(places), 0)].tolist():
        frame, path = first + int(smps.rows[i]), smps.path(i)
        if smps.directed[i]:
            origin = routes.origins.get(smps.sender(i))
            hop = routes.directed(origin, path) if origin is not None else None
            home = origin.home.now if origin is not None else None
            manager = _name(home[0] if home is not None else None) or f"sender {smps.sender(i):#x}"
            node, entered = (hop.node, hop.entered) if hop is not None else (None, 0)
            name = _name(node) or f"route {','.join(map(str, (0, *path)))}"
        else:
            source, target = (subnet.owner(lid, frame)[0] for lid in (smps.slid[i], smps.dlid[i]))
            manager = _name(source.node if source is not None else None) or f"LID {smps.slid[i]}"
            node, entered = (target.node, target.number) if target is not None else (None, 0)
            name = _name(node) or f"LID {smps.dlid[i]}"
        attribute, switch = int(smps.attribute[i]), node is not None and node.kind == SWITCH
        port = _port(attribute, int(smps.modifier[i]), entered, switch=switch)
        own = smps.directed[i] and not path and attribute == numbers.NODE_INFO
        places[frame] = SweepTarget(manager, name, port, own)


def _name(node: Node | None) -> str:
    return printable(node_name(node)) if node is not None else ""


def _port(attribute: int, modifier: int, entered: int, *, switch: bool) -> int:
    """The number of the port that a request is about, 0 for the node as a whole."""
    if attribute == numbers.PORT_INFO:
        return modifier & 0xFF or (0 if switch else entered)
    if attribute not in OF_PORTS:
        return 0
    if not switch:
        return entered
    return modifier >> 16 & 0xFF if attribute == numbers.P_KEY_TABLE else modifier & 0xFF


def _take(
    study: BackgroundAnalysis, found: list[SweepRequest], place: SweepTarget | None, request: Request, frame: int, time_ns: int
) -> bool:
    """Note a request that has ended; False beyond the bound."""
    if request.method not in ASKS or request.settled:
        return True
    if len(found) >= MAX_ASKED:
        return False
    if place is None:  # not a complete SMP to QP0
        place = SweepTarget(_end(request.source), _end(request.target), 0, home=False)
    what = study.model.catalog.attribute_name(request.mgmt_class, request.attribute, request.method)
    frames = tuple(sorted({request.frame, request.last_frame, frame} - {0}))
    response = max(time_ns - request.time_ns, 0) if frame else -1
    found.append(
        SweepRequest(
            place, what, request.method == numbers.SET, frames, request.time_ns, max(time_ns, request.last_ns), request.tries, response
        )
    )
    return True


def _end(end: End) -> str:
    return printable(str(end))


def _divided(found: list[SweepRequest]) -> Iterator[Sweep]:
    """Sweeps, the earliest first."""
    latest: dict[str, tuple[Sweep, dict[tuple[str, int], PortAsked]]] = {}
    every: list[tuple[Sweep, dict[tuple[str, int], PortAsked]]] = []
    for one in sorted(found, key=lambda one: (one.time_ns, one.frames)):
        sweep, ports = latest.get(one.place.manager, (None, {}))
        if sweep is None or one.time_ns - sweep.end_ns > PAUSE_NS or (one.place.home and len(ports) > 1):
            sweep, ports = latest[one.place.manager] = Sweep(one.place.manager, one.time_ns), {}
            every.append((sweep, ports))
        sweep.end_ns = max(sweep.end_ns, one.end_ns)
        key = one.place.node, one.place.port
        port = ports.setdefault(key, PortAsked(*key, len(ports) + 1, one.time_ns))
        port.asked += not one.sets
        port.sets += one.sets
        port.retries += one.tries - 1
        port.unanswered += one.response_ns < 0
        port.times += [one.response_ns] if one.response_ns >= 0 else []
        port.what[f"Set {one.what}" if one.sets else one.what] += 1
        port.frames += one.frames
    for sweep, ports in every:
        sweep.ports = sorted(ports.values(), key=lambda port: (-port.unanswered, -port.slowest_ns, port.order))
        yield sweep
