"""How is a diagnosis read? What several connections have in common, with its evidence; then the worst of the others; then what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct as Record

from ibdissect.wire.text import Paint, counted, printable

from .connection import CANNOT_TELL, ERROR, FAILED, HEALTHY, INFO, ODD, SEVERITIES, SLOW, WARNING, Connection, Diagnosis, SharedCause
from .slices import PARTS, cost, when_of
from .words import clock, day, duration, share, sum_of

ORDER = {FAILED: 0, ODD: 1, SLOW: 2, CANNOT_TELL: 3, HEALTHY: 4}
SAID = {FAILED: "failed", ODD: "against the rules", SLOW: "slow", CANNOT_TELL: "unclear", HEALTHY: "healthy"}
REDIRECTED = "redirected"
SIGNS = {ERROR: "✖", WARNING: "⚠", INFO: "ℹ"}
LOST = ("rnr_wait", "loss_recovery", "timeout", "ack_wait")
"""The parts that somebody waits in."""
MOST = 3
"""Connections that are named where time was lost."""


def worst_first(connections: Iterable[Connection]) -> list[Connection]:
    """Failed ones, then odd ones, then slow ones by what it cost them; those that were only redirected after those that failed."""
    return sorted(connections, key=lambda one: (ORDER[one.verdict], SEVERITIES.get(one.severity, 3), -cost(one), one.first_frame))


def label(one: Connection) -> str:
    """The cause as a heading says it: a port redirection is no refusal."""
    return REDIRECTED if one.redirected else one.cause


def verdicts(connections: Iterable[Connection]) -> str:
    """How many connections have each verdict: `2 failed, 81 healthy`."""
    number = Counter(REDIRECTED if one.redirected else SAID[one.verdict] for one in connections)
    order = [*SAID.values()]
    order.insert(1, REDIRECTED)
    return ", ".join(f"{number[said]:,} {said}" for said in order if number[said])


def proofs(one: Connection) -> list[tuple[int, str]]:
    """The frames that prove what is said of a connection, and what each is."""
    first, decisive = one.evidence
    return [
        (frame, what)
        for frame, what in ((first, "where it began"), (decisive if decisive != first else None, "what decides it"))
        if frame is not None
    ]


def span_text(start_ns: int, since: int | None, until: int | None) -> str:
    """When something was so, in seconds since a capture began and as a time of the day: `0.504 s to 0.915 s (12:13:20.504 UTC)`.

    Empty where neither is known.
    """
    begin = since if since is not None else until
    if begin is None:
        return ""
    told = f"since {moment(start_ns, begin)}" if until is None else to(start_ns, begin, until)
    return f"{told} ({clock(begin)} UTC)"


def to(start_ns: int, since: int, until: int) -> str:
    """Both times, or one where they are written alike: `0.504 s to 0.915 s`."""
    first, last = moment(start_ns, since), moment(start_ns, until)
    return first if first == last else f"{first} to {last}"


def moment(start_ns: int, ns: int) -> str:
    """A time in a capture: `0.504 s`."""
    return f"{(ns - start_ns) / 1e9:,.3f} s"


def since_until(one: Connection, start_ns: int) -> str:
    """When what explains a connection was so; empty for a healthy one."""
    return span_text(start_ns, *when_of(one))


class Culprit(Record):
    """What several connections have in common, with those."""

    shared: SharedCause
    members: list[Connection]

    def when(self, start_ns: int) -> str:
        return span_text(start_ns, self.shared.since_ns, self.shared.until_ns)


def culprits(diagnosis: Diagnosis) -> tuple[list[Culprit], list[Connection]]:
    """What several connections have in common, each with its connections; and all others, the worst first."""
    shared = [Culprit(one, worst_first(diagnosis.connections[i] for i in one.members)) for one in diagnosis.shared]
    told = {i for one in diagnosis.shared for i in one.members}
    return shared, worst_first(one for i, one in enumerate(diagnosis.connections) if i not in told)


def lines(diagnosis: Diagnosis, paint: Paint, top: int, *, every: bool = False) -> Iterator[str]:
    """The diagnosis as text. `top`: most connections that are told, of each culprit and beside them; `every`: healthy ones, too."""
    counts, start_ns = verdicts(diagnosis.connections), diagnosis.start_ns
    yield f"{paint(printable(diagnosis.path), 'path')}: {counted(len(diagnosis.connections), 'connection', ',')} in " + (
        f"{counted(diagnosis.frames, 'frame', ',')}{': ' + counts if counts else ''}"
    )
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
    others = [one for one in others if every or not one.healthy]
    if others and shared:
        yield ""
        yield paint("The other connections" if every else "The others that failed or were slow", "path")
    for one in others[:top]:
        yield ""
        yield from story(one, paint, start_ns)
    if len(others) > top:
        yield ""
        yield f"... and {len(others) - top:,} more ({verdicts(others[top:])}); --top {len(others)} shows them all"
    yield from where_time_went(diagnosis.connections, paint)


def begins(diagnosis: Diagnosis) -> str:
    """When the capture begins, how long it is, and how times and ends are written."""
    start = diagnosis.start_ns
    return (
        f"It begins on {day(start)} at {clock(start)} UTC and lasts {moment(start, diagnosis.end_ns)}. Times count from its begin. "
        "A → B: A asked for the connection (REQ), or sends the requests if that is not captured."
    )


def _culprit(culprit: Culprit, paint: Paint, start_ns: int, top: int) -> Iterator[str]:
    """A cause that several connections share: what, since when, what to do, and which connections show it."""
    shared, members = culprit.shared, culprit.members
    worst = members[0].severity
    yield f"{paint(SIGNS.get(worst, '✔'), worst)} {printable(shared.why)}  {paint(shared.cause, worst)}"
    if when := culprit.when(start_ns):
        yield f"    {when}"
    if shared.advice:
        yield f"    {paint('What to do:', 'label')} {printable(shared.advice)}"
    for one in members[:top]:
        yield f"    - {_ends(one)}, {paint(proved(one), 'faint')}"
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
    return f"proved by frame{'s' if len(frames) > 1 else ''} {' and '.join(map(str, frames))}" if frames else ""


def story(one: Connection, paint: Paint, start_ns: int) -> Iterator[str]:
    """One connection."""
    sign = SIGNS.get(one.severity, "✔")
    yield f"{paint(sign, one.severity)} {_ends(one)}  {one.transport}  {paint(label(one), one.severity)}"
    yield f"    {dated(since_until(one, start_ns), one.why)}"
    yield paint("    " + "; ".join(filter(None, (proved(one), life(one, start_ns)))), "faint")
    for text in (numbers(one), time_by_parts(one)):
        if text:
            yield paint(f"    {text}", "faint")
    if one.advice:
        yield f"    {paint('What to do:', 'label')} {one.advice}"


def life(one: Connection, start_ns: int) -> str:
    """Its first and its last frame, set-up and end included."""
    return f"its first frame is {one.first_frame}, its last {one.last_frame} ({to(start_ns, one.start_ns, one.last_ns)})"


def numbers(one: Connection) -> str:
    """What it carried; empty for nothing."""
    counts = one.counts
    if not (counts.messages or counts.payload_bytes):
        return ""
    again = f", {counted(counts.packets_sent_again, 'packet', ',')} sent again" if counts.packets_sent_again else ""
    return f"{counted(counts.messages, 'message', ',')}, {counted(counts.payload_bytes, 'byte', ',')}{again}"


def time_by_parts(one: Connection) -> str:
    """How long it lasted, and the parts of that from a hundredth on, the largest first; empty without data."""
    if one.times is None or not one.times.span:
        return ""
    span = one.times.span
    parts = [(getattr(one.times, name), said) for name, said in PARTS]
    return f"{duration(span)} from its first to its last data: " + ", ".join(
        f"{share(part, span)} {said}" for part, said in sorted(parts, reverse=True) if part * 100 >= span
    )


def where_time_went(connections: list[Connection], paint: Paint, name: Callable[[str], str] = str) -> Iterator[str]:
    """The time of all connections together by its parts, who waited or made wait, and in which connections most. `name`: of an address."""
    timed = [(one, one.times) for one in connections if one.times is not None and one.times.span]
    whole = sum_of(times for _, times in timed)
    if whole.busy <= 0 or not any(getattr(whole, part) for part in LOST):
        return
    yield ""
    yield paint("Where the time went", "path")
    idle = f"; in {duration(whole.idle_by_application)} of that they were idle. Of the other {duration(whole.busy)}:"
    idle = idle if whole.idle_by_application else ". Of that:"
    yield f"  {counted(len(timed), 'connection', ',')} with data lasted {duration(whole.span)}{', added up' * (len(timed) > 1)}{idle}"
    said, rest = dict(PARTS), whole.busy
    for part in sorted(LOST, key=lambda part: -getattr(whole, part)):
        if (lost := getattr(whole, part)) and lost * 200 >= whole.busy:
            rest -= lost
            some = sorted(((one, time) for one, times in timed if (time := getattr(times, part))), key=lambda each: -each[1])
            of = f"{said[part]}, in {counted(len(some), 'connection', ',')}"
            yield f"  {share(lost, whole.busy)}, {duration(lost)}: {of}{_who(some, part, lost, name)}"
            shown = ", ".join(
                f"{' → '.join(end.said(name) for end in one.ends)} {duration(time)} ({label(one)})" for one, time in some[:MOST]
            )
            yield paint(f"    {'most in ' if len(some) > MOST else ''}{shown}", "faint")
    if rest * 200 >= whole.busy:
        yield f"  {share(rest, whole.busy)}, {duration(rest)}: transferring, and waits that are shorter"


def _who(some: list[tuple[Connection, int]], part: str, lost: int, name: Callable[[str], str]) -> str:
    """The host that lacks the buffers, or that waits, if one has half of a lost time or more."""
    by_host = Counter[str]()
    for one, time in some:
        by_host[one.ends[1 - one.requester if part == "rnr_wait" else one.requester].address] += time
    host, most = by_host.most_common(1)[0]
    if most * 2 < lost:
        return ""
    does = "(receiver) lacked the buffers" if part == "rnr_wait" else "(sender) waited"
    return f"; {name(host)} {does} in {duration(most)} of that ({share(most, lost)})"
