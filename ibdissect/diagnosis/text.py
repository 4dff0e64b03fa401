"""How is a diagnosis read? The worst connections first, what several have in common once, and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ibdissect.wire.text import Paint, counted, printable

from .connection import CANNOT_TELL, ERROR, FAILED, HEALTHY, INFO, ODD, SLOW, WARNING, Connection, Diagnosis
from .words import duration, share

ORDER = {FAILED: 0, ODD: 1, SLOW: 2, CANNOT_TELL: 3, HEALTHY: 4}
SEVERITIES = {ERROR: 0, WARNING: 1, INFO: 2}
SAID = {FAILED: "failed", ODD: "against the rules", SLOW: "slow", CANNOT_TELL: "unclear", HEALTHY: "healthy"}
SIGNS = {ERROR: "✖", WARNING: "⚠", INFO: "ℹ"}
PARTS = (
    ("transferring", "transferring"), ("ack_wait", "waiting for ACKs"), ("rnr_wait", "waiting for receive buffers"),
    ("loss_recovery", "making good losses"), ("timeout", "waiting for time-outs"), ("idle_by_application", "idle"),
)  # fmt: skip


def cost(one: Connection) -> int:
    """The time that trouble took."""
    return one.times.rnr_wait + one.times.loss_recovery + one.times.timeout if one.times is not None else 0


def worst_first(connections: list[Connection]) -> list[Connection]:
    """Failed ones, then odd ones, then slow ones by what it cost them."""
    return sorted(connections, key=lambda one: (ORDER[one.verdict], SEVERITIES.get(one.severity, 3), -cost(one), one.first_frame))


def verdicts(connections: Iterable[Connection]) -> str:
    """How many connections have each verdict: `2 failed, 81 healthy`."""
    number = Counter(one.verdict for one in connections)
    return ", ".join(f"{number[verdict]:,} {SAID[verdict]}" for verdict in ORDER if number[verdict])


def proofs(one: Connection) -> list[tuple[int, str]]:
    """The frames that prove what is said of a connection, and what each is."""
    first, decisive = one.evidence
    return [
        (frame, what)
        for frame, what in ((first, "where it began"), (decisive if decisive != first else None, "what decides it"))
        if frame is not None
    ]


def lines(diagnosis: Diagnosis, paint: Paint, start_ns: int, top: int, *, every: bool = False) -> Iterator[str]:
    """The diagnosis as text; `start_ns`: when the capture begins. `top`: most connections that are told; `every`: healthy ones, too."""
    counts = verdicts(diagnosis.connections)
    yield f"{paint(printable(diagnosis.path), 'path')}: {counted(len(diagnosis.connections), 'connection', ',')} in " + (
        f"{counted(diagnosis.frames, 'frame', ',')}{': ' + counts if counts else ''}"
    )
    for note in diagnosis.notes:
        yield f"note: {note}"
    if diagnosis.shared:
        yield ""
        yield paint("What several connections have in common", "path")
        for shared in diagnosis.shared:
            yield f"  {printable(shared.why)}"
    told = [one for one in worst_first(diagnosis.connections) if every or not one.healthy]
    for one in told[:top]:
        yield ""
        yield from story(one, paint, start_ns)
    if len(told) > top:
        yield ""
        yield f"... and {len(told) - top} more; --top {len(told)} shows them all"
    yield from where_time_went(diagnosis.connections, paint)


def story(one: Connection, paint: Paint, start_ns: int) -> Iterator[str]:
    """One connection."""
    sign = SIGNS.get(one.severity, "✔")
    yield f"{paint(sign, one.severity)} {one.ends[0]} → {one.ends[1]}  {one.transport}  {paint(one.cause, one.severity)}"
    yield f"    {one.why}"
    first, decisive = one.evidence
    where = [f"frames {one.first_frame} to {one.last_frame}"]
    if first is not None:
        where.append(f"proved by frame {first}" if decisive in (first, None) else f"proved by frames {first} and {decisive}")
    if one.end_ns is not None and one.verdict == FAILED:
        where.append(f"ended {duration(max(0, one.end_ns - start_ns))} after the capture began")
    yield paint(f"    {', '.join(where)}", "faint")
    for text in (numbers(one), time_by_parts(one)):
        if text:
            yield paint(f"    {text}", "faint")
    if one.advice:
        yield f"    {paint('What to do:', 'label')} {one.advice}"


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
    return f"{duration(span)}: " + ", ".join(
        f"{share(part, span)} {said}" for part, said in sorted(parts, reverse=True) if part * 100 >= span
    )


def where_time_went(connections: list[Connection], paint: Paint) -> Iterator[str]:
    """The time of all connections together by its parts, and the hosts on which most was lost."""
    timed = [(one, one.times) for one in connections if one.times is not None and one.times.span]
    busy = sum(times.busy for _, times in timed)
    lost = {name: sum(getattr(times, name) for _, times in timed) for name in ("rnr_wait", "loss_recovery", "timeout", "ack_wait")}
    if busy <= 0 or not any(lost.values()):
        return
    yield ""
    yield paint("Where the time went", "path")
    said = dict(PARTS)
    for name, part in sorted(lost.items(), key=lambda item: -item[1]):
        some = [(one, getattr(times, name)) for one, times in timed if getattr(times, name)]
        if not some or part * 200 < busy:
            continue
        by_host = Counter[str]()
        for one, time in some:
            by_host[one.ends[1 - one.requester if name == "rnr_wait" else one.requester].address] += time
        host, most = by_host.most_common(1)[0]
        at = f", {share(most, part)} of that {'on' if name == 'rnr_wait' else 'at'} {host}" if most * 2 >= part else ""
        yield f"  {share(part, busy)} of the time of {counted(len(some), 'connection', ',')} went into {said[name]} ({duration(part)}{at})"
