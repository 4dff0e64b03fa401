"""The diagnosis of one connection, and of all of a capture, as plain values for every command."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.identity import HostNumber
from ibdissect.wire.text import lid_of

FAILED, SLOW, ODD, HEALTHY, CANNOT_TELL = "failed", "slow", "odd", "healthy", "cannot-tell"
"""Verdicts. Odd: works against the rules."""
ERROR, WARNING, INFO, NONE = "error", "warning", "info", "none"
BOTH = "both"
"""Both directions are captured."""
SEVERITIES = {ERROR: 0, WARNING: 1, INFO: 2}
"""The worst first."""
COSTLY = 5


class ConnectionEnd(Record, frozen=True):
    """One end of a connection."""

    address: str
    """`LID 31` for InfiniBand, the IP address for RoCE."""
    qpn: int | None
    """None: the capture does not show it."""

    @property
    def lid(self) -> int | None:
        """Of InfiniBand."""
        return lid_of(self.address)

    def __str__(self) -> str:
        return self.said(str)

    def said(self, name: Callable[[str], str]) -> str:
        """It in words, with the name of its address."""
        return name(self.address) if self.qpn is None else f"{name(self.address)} QP 0x{self.qpn:06x}"


class SetUpState(Record, frozen=True):
    """How a connection was set up."""

    state: str
    """complete (REQ and RTU), refused, unanswered, partly, not-captured."""
    tries: int
    """REQs in the capture."""
    start_ns: int | None = None
    established_ns: int | None = None
    reason: int | None = None
    """Of the REJ; None: there is none, or it is cut off."""
    nvme_status: int | None = None
    service_id: int | None = None
    """What the REQ asks for."""
    id: int | None = None
    """The communication id of the asker."""


class ConnectionTimes(Record, frozen=True):
    """Where the time between the first and the last packet of the data went, in nanoseconds; the parts add up to `span`."""

    span: int = 0
    transferring: int = 0
    ack_wait: int = 0
    rnr_wait: int = 0
    loss_recovery: int = 0
    timeout: int = 0
    idle_by_application: int = 0

    @property
    def busy(self) -> int:
        """The time in which the application was not idle."""
        return self.span - self.idle_by_application

    @property
    def trouble(self) -> int:
        """The time that losses, time-outs and missing receive buffers took."""
        return self.rnr_wait + self.loss_recovery + self.timeout

    @property
    def costly(self) -> bool:
        """Whether that is a fifth or more of its time: it is told of a healthy connection, too."""
        return 0 < self.span <= COSTLY * self.trouble


class Counts(Record, frozen=True):
    """What the capture shows of a connection, copies left out."""

    messages: int = 0
    payload_bytes: int = 0
    packets_sent_again: int = 0
    naks: int = 0
    rnr_naks: int = 0
    cnps: int = 0
    ce: int = 0
    unread_answers: int = 0
    """Answers that are cut off before they say whether they are ACKs or NAKs: `naks` and `rnr_naks` are without them, times unknown."""


class Episode(Record, frozen=True):
    """A trouble or a pause: loss, reordering, timeout, rnr, idle."""

    kind: str
    start_ns: int
    end_ns: int
    packets_sent_again: int = 0


class AtOtherPoint(Record, frozen=True):
    """A connection as another capture point has it."""

    capture: int
    """Which of the captures."""
    first_frame: int
    last_frame: int
    cause: str


class LostPackets(Record, frozen=True):
    """Packets of a connection that were lost behind a capture point."""

    to: int
    """Which end they were sent to."""
    after: int
    """The last capture that has them."""
    before: int | None
    """The capture that they did not reach; None: only the receiver lacks them."""
    packets: int
    first_frame: int
    """The first of them, in the capture `after`."""


OF_ANSWERS = ("naks", "rnr_naks")
UNSEEN = {"requests": (*OF_ANSWERS, "cnps"), "answers": ("messages", "payload_bytes", "packets_sent_again")}
"""Counts that nobody knows where only one direction was captured."""


class Connection(Record, frozen=True):
    """The story of one connection: set-up, data, trouble, end, and what explains it."""

    ends: tuple[ConnectionEnd, ConnectionEnd]
    """The first one asked (REQ); without connection management it is the requester."""
    transport: str
    requester: int
    """Which end sends the requests, or most of them."""
    first_frame: int
    last_frame: int
    cause: str
    """What explains it: `refused`, `retries-exhausted` ... (docs/diagnose.md); `healthy` and `cannot-tell` are causes like the others."""
    verdict: str
    severity: str
    why: str
    """In words, who, since when, and what proves it."""
    advice: str
    """What to do; empty where there is nothing to do."""
    evidence: tuple[int | None, int | None]
    """The first frame that shows the cause, and one that decides it."""
    set_up: SetUpState
    end_state: str
    """closed (DREQ and DREP), failed, refused, never-established, open, unknown."""
    end_ns: int | None = None
    detail: dict[str, object] = field(default_factory=dict)
    times: ConnectionTimes | None = None
    counts: Counts = field(default_factory=Counts)
    episodes: tuple[Episode, ...] = ()
    blamed: int | None = None
    """Which end the cause belongs to; None: neither, or both."""
    directions: str = "both"
    """both, requests or answers: what the capture can show of it."""
    start_ns: int = 0
    """When its first frame was captured, set-up included."""
    last_ns: int = 0
    since_ns: int | None = None
    """When the first frame of `evidence` was captured; None: nothing is wrong, or that frame was too far in the capture."""
    until_ns: int | None = None
    """When the other frame of `evidence` was captured."""
    round_trip_ns: int | None = None
    """The shortest between its two hosts."""
    capture: int | None = None
    """Of several capture points of the same traffic the one that tells of it: its frames are of that capture."""
    point: str = ""
    """The name of that."""
    elsewhere: tuple[AtOtherPoint, ...] = ()
    """The other capture points that have it."""
    lost: tuple[LostPackets, ...] = ()
    """What was lost between capture points, or behind the last one."""
    recovered: bool = False
    """Whether it was refused, and its asker asked again at once and was accepted."""
    hosts: tuple[HostNumber, HostNumber] | None = None
    """Which hosts the ends are: several networks of a capture may use one address. None: several captures tell of it."""
    guess: str = ""
    """How `why` ends with what only follows from silence: other captures of the same traffic may show otherwise."""

    @property
    def known_counts(self) -> dict[str, int | None]:
        """`counts` by name; None in place of a 0 that the capture does not show: one direction was not captured, or its answers are cut
        off, or its set-up was captured without its queue pairs, so that nobody knows which packets are its own."""
        without = any(end.qpn is None for end in self.ends) and self.set_up.state in ("complete", "partly") and self.times is None
        names = Counts.__struct_fields__ if without else UNSEEN.get(self.directions, ())
        unseen = {*names, *(OF_ANSWERS if self.counts.unread_answers else ())}
        return {name: getattr(self.counts, name) or (None if name in unseen else 0) for name in Counts.__struct_fields__}

    @property
    def healthy(self) -> bool:
        return self.verdict in (HEALTHY, CANNOT_TELL)

    @property
    def redirected(self) -> bool:
        """Whether it was refused only to send the asker to another port, which is no failure."""
        return self.cause == "refused" and self.severity == INFO

    @property
    def unsure(self) -> bool:
        """Whether it only looks as if it had failed."""
        return self.verdict == FAILED and self.severity == INFO and not self.redirected

    @property
    def shown_severity(self) -> str:
        """The severity as lists show it: a refusal that was made good at once is an info."""
        return INFO if self.recovered else self.severity


class SharedCause(Record, frozen=True):
    """A cause that several connections have in common with one host."""

    cause: str
    host: str
    connections: int
    why: str
    of: int = 0
    """Connections of that host."""
    advice: str = ""
    """What to do."""
    members: tuple[int, ...] = ()
    """Which connections: indices into those of the capture."""
    since_ns: int | None = None
    """When the first of them began to show it."""
    until_ns: int | None = None
    """When the last of them showed it last; None: not known, or a host that is silent from `since_ns` to the end of the capture."""


class CapturePoint(Record, frozen=True):
    """A capture of traffic that others captured, too."""

    name: str
    path: str
    frames: int
    start_ns: int
    end_ns: int
    clock_ns: int
    """Its clock minus that of the first point, where it begins."""
    doubt_ns: int = 0
    """How far that may be off."""
    notes: tuple[str, ...] = ()


class Diagnosis(Record, frozen=True):
    """All connections of a capture, in the order of their first frames."""

    path: str
    frames: int
    connections: list[Connection]
    shared: list[SharedCause]
    notes: list[str]
    """What limits the answers: bounds that were reached, a direction that is not in the capture."""
    start_ns: int = 0
    """When the capture begins; times are told from here on."""
    end_ns: int = 0
    points: tuple[CapturePoint, ...] = ()
    """The captures of one traffic that it was made of; empty: of a single one."""
