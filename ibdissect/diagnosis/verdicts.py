"""The verdicts on all connections of a capture, told as plain values, and the causes that several have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ibdissect.decode.addresses import End
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.icrc_mistakes_of_hosts import Checksums
from ibdissect.decode.identity import HostNumber, Index, QpNumber
from ibdissect.wire.headers import RETH
from ibdissect.wire.opcodes import CNP_SERVICE, SERVICES
from ibdissect.wire.text import counted

from .asked_hosts import AskedHosts
from .cause_found import CaptureContext, CauseFound, asking_side
from .causes import SURELY, judge, lost_by_size, sees
from .connection import INFO, Connection, ConnectionEnd, ConnectionTimes, Diagnosis, SetUpState
from .connections_from_lanes import Raw, address_of, text_of
from .frame_times import FrameTimes
from .refused_accesses import Access, Accesses
from .set_up_causes import unanswered
from .signs_of_life import Nearby
from .times_and_counts import counts_of, episodes_of, round_trip_of, times_of

KeyName = Callable[[str, int], str]
ACCESS_REFUSED = "remote-access-error"
R_KEY = RETH.r_key.secret
"""The kind of key that refused accesses name."""


class Verdicts:
    """The causes of all connections, in the order of their first frames; each story is told when it is asked for."""

    def __init__(
        self, raws: list[Raw], lanes: Any, checksums: Checksums, when: FrameTimes, accesses: Accesses, scopes: Scopes,
    ) -> None:  # fmt: skip
        """Any: `Lanes`, compiled or not."""
        earlier: dict[tuple[HostNumber, QpNumber], list[Raw]] = {}
        by_pair: dict[tuple[QpNumber | None, QpNumber | None], list[tuple[Raw, int]]] = {}
        for raw in raws:
            for side in (0, 1):
                qpn = raw.qpn(side)
                if qpn is not None:
                    earlier.setdefault((raw.hosts[side].number, qpn), []).append(raw)
                if qpn is not None and (other := raw.qpn(1 - side)) is not None:
                    by_pair.setdefault((qpn, other), []).append((raw, side))
        self.capture = CaptureContext(
            scopes.goes_on, int(lanes.first_time), lambda host: checksums.of(address_of(host)), earlier, by_pair=by_pair
        )
        self.capture.large_only, self.capture.small_lost = lost_by_size(raws, self.capture)
        self.capture.asked, self.capture.nearby = AskedHosts(raws), Nearby(raws)
        self.capture.access = accesses.of
        halves = [half for raw in raws for half in raw.halves]
        self.capture.one_of_paths = any(half.answers > SURELY and not half.requests for half in halves)
        self.raws, self.when, self.notes = raws, when, notes_of(lanes, raws)
        self.times = [times_of(raw.main) for raw in raws]
        self.found = [judge(raw, self.capture, times) for raw, times in zip(raws, self.times, strict=True)]
        self._of_cause: dict[str, list[int]] = {}
        for i, found in enumerate(self.found):
            self._of_cause.setdefault(found.cause, []).append(i)
        self._told: dict[Index, Connection] = {}
        self.key_name: KeyName | None = None
        """How reports show a key, by its kind and value; set it before a story is told. None: keys are not told."""

    @property
    def names_keys(self) -> bool:
        """Whether a story tells of a key."""
        return any(self.r_key(i) is not None for i in range(len(self.found)))

    def r_key(self, i: int) -> int | None:
        """That of the access that the other end refused; None: there is no such one, or it is not captured."""
        found = self.found[i]
        access: Access | None = found.facts.get("access") if found.cause == ACCESS_REFUSED else None
        return access.r_key if access is not None else None

    def of_cause(self, cause: str) -> list[Connection]:
        """The connections that a cause explains."""
        return [self.tell(i) for i in self._of_cause.get(cause, ())]

    def blamed(self, cause: str) -> set[End]:
        """The ends that a cause belongs to; both of a connection where it explains what both sent."""
        ends: set[End] = set()
        for i in self._of_cause.get(cause, ()):
            found, hosts = self.found[i], self.raws[i].hosts
            sides = (0, 1) if found.severity == INFO and found.facts.get("both") else (found.blamed or 0,)
            ends.update(address_of(hosts[side]) for side in sides)
        return ends

    def set_up(self) -> Iterator[tuple[Raw, SetUpState]]:
        """The connections whose set-up was seen, and how that went."""
        return ((raw, set_up_of(raw, self.capture)) for raw in self.raws if raw.setup is not None)

    def diagnosis(self, path: str, frames: int) -> Diagnosis:
        """The story of each connection, and what several have in common."""
        from .common_causes import one_sided, shared_causes  # rules do not ask for it

        told = [self.tell(i) for i in range(len(self.raws))]
        return Diagnosis(path, frames, told, shared_causes(told), [*one_sided(told), *cut_off(self.when), *self.notes], *self.when.span)

    def tell(self, i: int) -> Connection:
        """One connection as a plain value."""
        if i not in self._told:
            key = self.r_key(i) if self.key_name is not None else None
            r_key = self.key_name(R_KEY, key) if self.key_name is not None and key is not None else ""
            self._told[i] = told(self.raws[i], self.found[i], self.times[i], self.capture, self.when, r_key)
        return self._told[i]


def told(
    raw: Raw, found: CauseFound, times: ConnectionTimes | None, capture: CaptureContext, when: FrameTimes, r_key: str = ""
) -> Connection:
    """One connection as a plain value."""
    from .advice import advice  # where all is well, nobody is told anything
    from .sentences import explain

    ends = ends_of(raw)
    what_to_do = advice(found, ends, asking_side(found, raw))
    forward, back = sees(raw, raw.requester)
    why, guess = explain(found, raw, ends, times, r_key)
    return Connection(
        ends, transport_of(raw), raw.requester, raw.first_frame, raw.last_frame, found.cause, found.verdict, found.severity,
        why, what_to_do, (found.first or None, found.decisive or None), set_up_of(raw, capture),
        *end_of(raw, found, capture), found.detail, times, counts_of(raw), episodes_of(raw), found.blamed,
        "both" if forward and back else "requests" if forward else "answers", raw.first_time, raw.last_time,
        when.of(found.first or None), when.of(found.decisive or None), round_trip_of(raw.main), recovered=bool(found.facts.get("again")),
        guess=guess, hosts=(HostNumber(raw.hosts[0].number), HostNumber(raw.hosts[1].number)),
    )  # fmt: skip


def ends_of(raw: Raw) -> tuple[ConnectionEnd, ConnectionEnd]:
    """Both ends as they are printed."""
    return ConnectionEnd(text_of(raw.hosts[0]), raw.qpn(0)), ConnectionEnd(text_of(raw.hosts[1]), raw.qpn(1))


def transport_of(raw: Raw) -> str:
    """RC, UC, XRC ...: of the packets, else what the REQ asks for."""
    for lane in raw.lanes:
        if lane is not None and lane.packets and int(lane.service) != CNP_SERVICE:
            return SERVICES.get(int(lane.service), "RC")
    kind = raw.setup.agreed["transport"] if raw.setup is not None else None
    return {0: "RC", 1: "UC", 2: "RD", 3: "XRC"}.get(kind or 0, "RC")


def set_up_of(raw: Raw, capture: CaptureContext) -> SetUpState:
    """How it was set up."""
    setup = raw.setup
    if setup is None:
        return SetUpState("not-captured", 0)
    silent, service = unanswered(setup, raw, capture), setup.agreed["service_id"]
    start = setup.reqs[0][1] if setup.reqs else None
    established = setup.rtu[1] if setup.rtu is not None else None
    if setup.rej is not None and not silent and not (setup.rtu is not None and raw.main is not None):
        return SetUpState("refused", setup.tries, start, established, setup.rej[2], setup.nvme_status, service, setup.ids[0])
    reason = setup.rej[2] if setup.rej is not None else None
    state = "unanswered" if silent else "not-captured" if not setup.reqs else "complete" if setup.rtu is not None else "partly"
    return SetUpState(state, setup.tries, start, established, reason, service_id=service, id=setup.ids[0])


def end_of(raw: Raw, found: CauseFound, capture: CaptureContext) -> tuple[str, int | None]:
    """How it ended, and when."""
    setup, main = raw.setup, raw.main
    if found.cause in ("refused", "duplicate-qp-after-restart") and setup is not None and setup.rej is not None:
        return "refused", setup.rej[1]
    if found.cause == "connect-unanswered":
        return "never-established", setup.last_time if setup is not None else None
    if found.verdict == "failed":
        return "failed", int(main.since) if main is not None else None
    if setup is not None and setup.dreqs and setup.drep is not None:
        return "closed", setup.drep[1]
    if setup is not None and (setup.dreqs or setup.drep is not None) and not all(sees(raw, raw.requester)):
        return "closed", setup.last_time  # one of the two is not captured
    return "open", None


def cut_off(when: FrameTimes) -> list[str]:
    """That many frames were not captured whole; none below a third of them."""
    if when.cut * 3 < max(when.frames, 1):
        return []
    return [
        f"{when.cut:,} of {counted(when.frames, 'frame', ',')} are cut off, at {when.cut_at} bytes or less: their ICRCs are not checked, "
        "and what stands behind is not known, as of a REQ a part of what it asks for. Capture whole frames"
    ]


def notes_of(lanes: Any, raws: list[Raw]) -> list[str]:
    """Which bounds were reached."""
    found = []
    if lanes.dropped:
        found.append(f"more queue pairs than are followed: {lanes.dropped} packets of further ones were not read")
    if lanes.hosts_dropped:
        found.append("more hosts than are remembered: packets of further ones were not read")
    halves = {id(half): half for raw in raws for half in raw.halves}.values()
    if any(half.dropped for half in halves):
        found.append("more episodes than are kept: counts and times hold all of them, the lists do not")
    many = sum(half.forgotten > 0 for half in halves)
    if many:
        where = counted(many, "connection")
        found.append(f"more packets were under way or missing than are remembered, on {where}: what made them slow is not told")
    mixed = sum(raw.crowd > 0 for raw in raws)
    if mixed:
        found.append(
            f"requests and answers of queue pairs with near PSNs cannot be told apart where their set-up is not captured: {mixed} of "
            "them are listed, each with one end or the other, as unclear. Begin the capture before they connect"
        )
    if lanes.setups.dropped:
        found.append(f"more connections were asked for than are kept: {lanes.setups.dropped} are missing")
    return found
