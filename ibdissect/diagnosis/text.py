"""The text of a diagnosis: what several connections have in common, with its evidence; then the worst of the others; then the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct as Record

from ibdissect.decode.identity import Index
from ibdissect.wire.text import Paint, counted, printable

from .connection import (
    BOTH,
    CANNOT_TELL,
    FAILED,
    HEALTHY,
    ODD,
    SEVERITIES,
    SLOW,
    CapturePoint,
    Connection,
    ConnectionTimes,
    Diagnosis,
    SharedCause,
)
from .phrases import clock, day, duration, reason_said, share, sum_of
from .time_bars import PARTS, cost, when_of

ORDER = {FAILED: 0, ODD: 1, SLOW: 2, CANNOT_TELL: 3, HEALTHY: 4}
SAID = {FAILED: "failed", ODD: "against the rules", SLOW: "slow", CANNOT_TELL: "unclear", HEALTHY: "healthy"}
REDIRECTED, REFUSED_ONCE, UNSURE = "redirected", "refused once", "perhaps failed"
SIGNS = {FAILED: "✖", ODD: "‼", SLOW: "⚠"}
"""The mark of each verdict; a redirection, a refusal that was made good at once, and what may have worked have that of an info."""
HEALTHY_SIGN, UNCLEAR_SIGN, INFO_SIGN = "✔", "?", "ℹ"
SILENT = ("psn-reused",)
"""Causes that lose data without a word to anybody: they are told first."""
LASTING = frozenset({"retries-exhausted", "icrc-wrong-at-sender", "wrong-partition", "roce-version-mix", "path-mtu"})
"""Causes that may have been there before anything showed them."""
LOST = ("rnr_wait", "loss_recovery", "timeout", "ack_wait")
"""The parts that somebody waits in."""
MOST = 3
"""Connections that are named where time was lost."""


def worst_first(connections: Iterable[Connection]) -> list[Connection]:
    """Those that lost data silently, failed ones, other odd ones, then slow ones by what it cost them; those that were only redirected or
    refused once after those that failed."""
    return sorted(connections, key=_rank)


def _rank(one: Connection) -> tuple[bool, int, int, int, int]:
    return one.cause not in SILENT, ORDER[one.verdict], SEVERITIES.get(one.shown_severity, 3), -cost(one), one.first_frame


def label(one: Connection) -> str:
    """The cause as lists say it: a port redirection is no refusal, and one that was made good at once no failure."""
    if one.redirected:
        return REDIRECTED
    return REFUSED_ONCE if one.recovered else SAID[CANNOT_TELL] if one.verdict == CANNOT_TELL else one.cause


def heading(one: Connection) -> str:
    """The cause with its verdict, if that is against the rules."""
    return f"{label(one)} ({SAID[ODD]})" if one.verdict == ODD else label(one)


def sign(one: Connection) -> str:
    """The mark of its verdict."""
    if one.redirected or one.recovered or one.unsure:
        return INFO_SIGN
    return SIGNS.get(one.verdict, UNCLEAR_SIGN if one.verdict == CANNOT_TELL else HEALTHY_SIGN)


def verdicts(connections: Iterable[Connection]) -> str:
    """How many connections have each verdict: `2 failed, 81 healthy`."""
    number = Counter(UNSURE if one.unsure else label(one) if one.redirected or one.recovered else SAID[one.verdict] for one in connections)
    order = [*SAID.values()]
    order[1:1] = UNSURE, REFUSED_ONCE, REDIRECTED
    return ", ".join(f"{number[said]:,} {said}" for said in order if number[said])


def counts_text(connections: Sequence[Connection]) -> str:
    """How many connections have each verdict, and how many of the healthy ones lost much time."""
    lost = sum(one.verdict == HEALTHY and troubled(one) for one in connections)
    of = "which" if lost == sum(one.verdict == HEALTHY for one in connections) == 1 else f"{lost:,} of which"
    return verdicts(connections) + (f", {of} lost a fifth of {'its' if lost == 1 else 'their'} time or more" if lost else "")


def proofs(one: Connection) -> list[tuple[int, str]]:
    """The frames that prove what is said of a connection, and what each is."""
    first, decisive = one.evidence
    return [
        (frame, what)
        for frame, what in ((first, "where it began"), (decisive if decisive != first else None, "what decides it"))
        if frame is not None
    ]


def span_text(start_ns: int, since: int | None, until: int | None, *, lasting: bool = False) -> str:
    """When something was so, in seconds since a capture began and its begin as a time of the day: `0.504 s (12:13:20.504 UTC) to 0.915 s`.

    Empty where neither is known. `lasting`: it may have begun before anything showed it.
    """
    begin = since if since is not None else until
    if begin is None:
        return ""
    first = moment(start_ns, begin)
    last = moment(start_ns, until) if until is not None else first
    told = f"{first} ({clock(begin, start_ns)} UTC)"
    if lasting:
        return f"since {told} at the latest" + (f", until at least {last}" if last != first else "")
    return f"since {told}" if until is None else told + (f" to {last}" if last != first else "")


def to(start_ns: int, since: int, until: int) -> str:
    """Both times, or one where they are written alike: `0.504 s to 0.915 s`."""
    first, last = moment(start_ns, since), moment(start_ns, until)
    return first if first == last else f"{first} to {last}"


def moment(start_ns: int, ns: int) -> str:
    """A time in a capture: `0.504 s`."""
    return f"{(ns - start_ns) / 1e9:,.3f} s"


def since_until(one: Connection, start_ns: int) -> str:
    """When what explains a connection was so; empty for a healthy one."""
    return span_text(start_ns, *when_of(one), lasting=one.cause == "icrc-wrong-at-sender")


class CommonCause(Record):
    """What several connections have in common, with those."""

    shared: SharedCause
    members: list[Connection]

    def when(self, start_ns: int) -> str:
        return span_text(start_ns, self.shared.since_ns, self.shared.until_ns, lasting=self.shared.cause in LASTING)


def culprits(diagnosis: Diagnosis) -> tuple[list[CommonCause], list[Connection]]:
    """What several connections have in common, each with its connections; and all others, the worst first. Where the same ones share a
    cause with two hosts, that with fewer other connections is told."""
    least: dict[tuple[str, tuple[Index, ...]], SharedCause] = {}
    for one in diagnosis.shared:
        known = least.setdefault((one.cause, one.members), one)
        least[one.cause, one.members] = min(known, one, key=lambda each: each.of)
    shared = [CommonCause(one, worst_first(diagnosis.connections[i] for i in one.members)) for one in least.values()]
    told = {i for one in diagnosis.shared for i in one.members}
    return shared, worst_first(one for i, one in enumerate(diagnosis.connections) if i not in told)


def lines(diagnosis: Diagnosis, paint: Paint, top: int, *, every: bool = False) -> Iterator[str]:
    """The diagnosis as text. `top`: most connections that are told, of each culprit and beside them; `every`: healthy ones, too."""
    counts, start_ns = counts_text(diagnosis.connections), diagnosis.start_ns
    yield f"{paint(printable(diagnosis.path), 'path')}: {counted(len(diagnosis.connections), 'connection', ',')} in " + (
        f"{counted(diagnosis.frames, 'frame', ',')}{': ' + counts if counts else ''}"
    )
    if diagnosis.points:
        yield paint(points_text(diagnosis), "faint")
    if diagnosis.connections:
        yield paint(begins(diagnosis), "faint")
    for note in diagnosis.notes:
        yield f"note: {note}"
    shared, others = culprits(diagnosis)
    if shared:
        yield ""
        yield paint("What several connections have in common", "path")
    for culprit in shared:
        yield ""
        yield from _culprit(culprit, paint, start_ns, top)
    others = [one for one in others if every or troubled(one)]
    if others and shared:
        yield ""
        yield paint("The other connections" if every else "The others that failed, were slow or lost time", "path")
    for one in others[:top]:
        yield ""
        yield from story(one, paint, start_ns)
    if len(others) > top:
        yield ""
        yield f"... and {len(others) - top:,} more ({verdicts(others[top:])}); --top {len(others)} shows them all"
    hidden = 0 if every else sum(one.verdict == CANNOT_TELL and not troubled(one) for one in diagnosis.connections)
    if hidden:
        yield ""
        yield f"not told here: {counted(hidden, 'unclear connection', ',')}; --all lists {'it' if hidden == 1 else 'them'}"
    yield from refusals(diagnosis.connections, paint)
    yield from where_time_went(diagnosis.connections, paint)


def troubled(one: Connection) -> bool:
    """Whether it failed, was slow, or trouble took much of its time, though too seldom to call it slow."""
    return not one.healthy or (one.directions == BOTH and one.times is not None and one.times.costly)


def begins(diagnosis: Diagnosis) -> str:
    """When the capture begins, how long it is, and how times and ends are written."""
    start, unknown = diagnosis.start_ns, any(end.qpn is None for one in diagnosis.connections for end in one.ends)
    unseen = sum(one.set_up.state == "not-captured" for one in diagnosis.connections)
    ends = [{end.address for end in one.ends} for one in diagnosis.connections]
    common = set.intersection(*ends) if not diagnosis.points and len(set().union(*ends)) > 2 else set[str]()
    return (
        f"It begins on {day(start)} at {clock(start)} UTC and lasts {moment(start, diagnosis.end_ns)}. Times count from its beginning. "
        "A → B: A asked for the connection (REQ), or sends the requests if that is not captured."
        + (" An end without QP: its number is not captured, or it has none (refused)." if unknown else "")
        + (f" The set-up of {counted(unseen, 'connection', ',')} is not captured." if unseen and len(ends) > 1 else "")
        + "".join(f" {host} is an end of all {len(ends):,} connections: the capture was probably made there." for host in common)
    )


def points_text(diagnosis: Diagnosis) -> str:
    """The capture points, and how their clocks differ."""
    first, *others = diagnosis.points
    clocks = ", ".join(f"that of {printable(one.name)} is {_ahead(one)}" for one in others)
    return (
        f"Captures of the same traffic; times are those of {printable(first.name)}'s clock, {clocks}. "
        "Each connection is reported as one of them shows it: `at NAME` names that capture, and frames are numbered as there."
    )


def _ahead(one: CapturePoint) -> str:
    """`39.5 ms ahead (to within 1 ms)`; how exactly that is known is said where it may be off by more than a hundredth."""
    ns, doubt = one.clock_ns, duration(one.doubt_ns)
    if abs(ns) <= one.doubt_ns:
        return f"the same to within {doubt}" if one.doubt_ns else "the same"
    return f"{duration(abs(ns))} {'ahead' if ns > 0 else 'behind'}" + (
        f" (to within {doubt})" if one.doubt_ns * 100 > abs(ns) else ""
    )


def _culprit(culprit: CommonCause, paint: Paint, start_ns: int, top: int) -> Iterator[str]:
    """A cause that several connections share: what, since when, what to do, and which connections show it."""
    shared, members = culprit.shared, culprit.members
    worst = members[0].shown_severity
    yield f"{paint(sign(members[0]), worst)} {printable(shared.why)}  {paint(shared.cause, worst)}"
    if when := culprit.when(start_ns):
        yield f"    {when}"
    if shared.advice:
        yield f"    {paint('What to do:', 'label')} {printable(shared.advice)}"
    differ = len({one.verdict for one in members}) > 1
    for one in members[:top]:
        which = f" ({SAID[one.verdict]})" if differ else ""
        yield f"    - {_ends(one)}{which}, {paint(proved(one), 'faint')}"
        yield f"      {dated(since_until(one, start_ns), one.why)}"
    if len(members) > top:
        yield f"    ... and {len(members) - top:,} more; --top {len(members)} shows them all"


def _ends(one: Connection) -> str:
    return f"{one.ends[0]} → {one.ends[1]}"


def dated(when: str, why: str) -> str:
    """A sentence with the time that it is about, if that is known."""
    return f"{when}: {why}" if when else why


def proved(one: Connection) -> str:
    """The frames that prove it: `proved by frames 116 and 441`; empty where nothing is wrong."""
    frames = [frame for frame, _ in proofs(one)]
    return f"{_at(one)}proved by frame{'s' if len(frames) > 1 else ''} {' and '.join(map(str, frames))}" if frames else ""


def _at(one: Connection) -> str:
    """The capture point whose frames are named; empty where there is one only."""
    return f"at {one.point}: " if one.point else ""


def story(one: Connection, paint: Paint, start_ns: int) -> Iterator[str]:
    """One connection."""
    yield f"{paint(sign(one), one.shown_severity)} {_ends(one)}  {one.transport}  {paint(heading(one), one.shown_severity)}"
    yield f"    {dated(since_until(one, start_ns), one.why)}"
    yield paint("    " + "; ".join(filter(None, (proved(one) or _at(one).rstrip(": "), life(one, start_ns)))), "faint")
    for text in (numbers(one), time_by_parts(one)):
        if text:
            yield paint(f"    {text}", "faint")
    if one.advice:
        yield f"    {paint('What to do:', 'label')} {one.advice}"


def life(one: Connection, start_ns: int) -> str:
    """Its first and its last frame, set-up and end included."""
    unseen = "; its set-up is not captured" if one.set_up.state == "not-captured" and one.set_up.id is None else ""
    if one.first_frame == one.last_frame:
        return f"its only frame is {one.first_frame} ({moment(start_ns, one.start_ns)}){unseen}"
    return f"its first frame is {one.first_frame}, its last {one.last_frame} ({to(start_ns, one.start_ns, one.last_ns)}){unseen}"


def numbers(one: Connection) -> str:
    """What it carried; empty for nothing."""
    counts = one.counts
    if not (counts.messages or counts.payload_bytes):
        return ""
    again = f", {counted(counts.packets_sent_again, 'packet', ',')} sent again" if counts.packets_sent_again else ""
    if one.cause == "psn-reused":
        again = f", {counted(counts.packets_sent_again, 'packet', ',')} with a PSN that was sent before"
    if not counts.messages and one.directions != BOTH:
        return f"{counted(counts.payload_bytes, 'byte', ',')} of answers to READs; requests are not captured"
    return f"{counted(counts.messages, 'message', ',')}, {counted(counts.payload_bytes, 'byte', ',')}{again}"


def time_by_parts(one: Connection) -> str:
    """How long it lasted, and the parts of that from a hundredth on, the largest first; empty without data."""
    if one.times is None or not one.times.span:
        return ""
    span = one.times.span
    if one.directions != BOTH:
        return f"{duration(span)} from its first to its last data; one direction is not captured, so where that went is not told"
    parts = [(getattr(one.times, name), said) for name, said in PARTS]
    return f"{duration(span)} from its first to its last data: " + ", ".join(
        f"{share(part, span)} {said}" for part, said in sorted(parts, reverse=True) if part * 100 >= span
    )


def refusals(connections: list[Connection], paint: Paint) -> Iterator[str]:
    """Which hosts refused several connections, for different reasons, and how often each."""
    found: dict[str, Counter[str]] = {}
    for one in connections:
        if one.cause == "refused" and one.blamed is not None and not one.redirected:
            found.setdefault(one.ends[one.blamed].address, Counter())[reason_said(one.set_up.reason)] += 1
    several = sorted(((sum(of.values()), host, of) for host, of in found.items() if len(of) > 1), key=lambda each: (-each[0], each[1]))
    if several:
        yield ""
        yield paint("Who refused connections for several reasons", "path")
    for number, host, of in several:
        yield f"  {host}: {number:,} ({'; '.join(f'{count:,} for {said}' for said, count in of.most_common())})"


def where_time_went(connections: list[Connection], paint: Paint, name: Callable[[str], str] = str) -> Iterator[str]:
    """The time of all connections together by its parts, who waited or made wait, and in which connections most. `name`: of an address."""
    timed = [(one, one.times) for one in connections if one.times is not None and one.times.span and one.directions == BOTH]
    whole = sum_of(times for _, times in timed)
    if whole.busy <= 0 or not any(getattr(whole, part) for part in LOST):
        return
    yield ""
    yield paint("Where the time went", "path")
    yield f"  {counted(len(timed), 'connection', ',')} with data lasted {duration(whole.span)}{', added up' * (len(timed) > 1)}. Of that:"
    said, rest, others = dict(PARTS), whole.busy, ["transferring"]
    for part in sorted(LOST, key=lambda part: -getattr(whole, part)):
        if (lost := getattr(whole, part)) and lost * 200 >= whole.span:
            rest -= lost
            some = sorted(((one, time) for one, times in timed if (time := getattr(times, part))), key=lambda each: -each[1])
            of = f"{said[part]}, in {counted(len(some), 'connection', ',')}"
            yield f"  {share(lost, whole.span)}, {duration(lost)}: {of}{_who(some, part, lost, name, timed)}"
            shown = ", ".join(
                f"{' → '.join(end.said(name) for end in one.ends)} {duration(time)} ({label(one)})" for one, time in some[:MOST]
            )
            yield paint(f"    {'most in ' if len(some) > MOST else ''}{shown}", "faint")
        else:
            others.append(part)
    if whole.idle_by_application * 200 >= whole.span:
        yield f"  {share(whole.idle_by_application, whole.span)}, {duration(whole.idle_by_application)}: idle, nothing was asked for"
    if rest * 200 >= whole.span:
        yield f"  {share(rest, whole.span)}, {duration(rest)}: {_rest(whole, others, rest)}"


def _rest(whole: ConnectionTimes, parts: list[str], rest: int) -> str:
    """The parts of the time that are told together: those that are a tenth of it or more, each with how long it took."""
    said, shown = dict(PARTS), [part for part in parts if getattr(whole, part) * 10 >= rest]
    if shown == ["transferring"] and whole.transferring == rest:
        return "transferring"
    named = ", ".join(f"{said[part]} {duration(getattr(whole, part))}" for part in shown)
    left = rest - sum(getattr(whole, part) for part in shown)
    return named + (f", and others {duration(left)}" if left > 0 else "")


def _who(
    some: list[tuple[Connection, int]], part: str, lost: int, name: Callable[[str], str], timed: list[tuple[Connection, ConnectionTimes]]
) -> str:
    """The host that lacks the buffers, or that waits, if one has half of a lost time or more; not one that all connections have, which says
    nothing."""
    by_host = Counter[str]()
    for one, time in some:
        by_host[one.ends[1 - one.requester if part == "rnr_wait" else one.requester].address] += time
    host, most = by_host.most_common(1)[0]
    everywhere = len(timed) > 1 and all(host in (end.address for end in one.ends) for one, _ in timed)
    if most * 2 < lost or (everywhere and part != "rnr_wait"):
        return ""
    does = "(receiver) lacked the buffers" if part == "rnr_wait" else "(sender) waited"
    return f"; {name(host)} {does} in {duration(most)} of that ({share(most, lost)})"
