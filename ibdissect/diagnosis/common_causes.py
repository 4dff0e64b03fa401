"""Causes that several connections have in common with one host, and connections of which only one direction is captured."""

from __future__ import annotations

from collections import Counter, defaultdict

from ibdissect.decode.identity import HostNumber
from ibdissect.wire.text import counted

from .advice import shared_advice
from .connection import BOTH, CANNOT_TELL, SEVERITIES, Connection, SharedCause
from .phrases import duration, of_whole, sum_of
from .time_bars import COST, when_of

NamedHost = tuple[str, HostNumber | None]
"""An address, and whose it is if one capture tells of it: its networks may use it twice."""
LEAST, SHARE = 2, 3
"""Connections that a cause must have in common with a host, and which part of the host's connections they must be: a third."""
PLACED = frozenset({
    "path-mtu", "wrong-partition", "roce-version-mix", "connect-unanswered", "icrc-wrong-at-sender", "duplicate-qp-after-restart",
})  # fmt: skip
"""Causes that lie in how a host or the way to it is set up: two connections that show one are no chance, however many it has."""
LOST = "lost-between-points"
"""What connections have in common whose packets were lost between the same two capture points."""
BLAMED = {
    "retries-exhausted": "{host} does not answer: {n} connections with it were given up",
    "icrc-wrong-at-sender": "{host} writes a wrong ICRC into its packets, on {n} connections",
    "path-mtu": "large packets from or to {host} vanish on {n} connections, smaller ones pass",
    "slow-by-loss": "{n} connections lose packets on the way {way} {host}",
    "slow-by-reordering": "packets overtake each other on the way {way} {host}, on {n} connections",
    "slow-by-timeout": "{n} connections {way} {host} waited for time-outs",
    "slow-by-rnr": "{n} connections wait for receive buffers {way} {host}",
    "slow-by-congestion": "{n} connections {way} {host} are slowed down by congestion",
    "refused": "{host} refused {n} connections",
    "connect-unanswered": "{host} neither accepted nor refused {n} requests for a connection",
    "duplicate-qp-after-restart": "{host} asked {n} times for a connection of a queue pair that another host still holds as connected",
    "wrong-partition": "{host} sends with another partition than was agreed on, on {n} connections",
    "roce-version-mix": "{host} and the others speak different versions of RoCE on {n} connections",
    "rnr-exhausted": "{n} connections were given up because {host}, the receiver, had no receive buffers",
    "mtu-mismatch": "{host} sends packets longer than the agreed path MTU on {n} connections, which the receiver refuses",
    "remote-invalid-request": "requests {way} {host} were refused as invalid (NAK invalid request), which ended {n} connections",
    "remote-access-error": "requests {way} {host} did not fit the receiver's memory (NAK remote access error), which ended {n} connections",
    "remote-operational-error": "requests {way} {host} failed in the receiver (NAK remote operational error), which ended {n} connections",
    "rnr-timer-ignored": "{host} sends again sooner than the RNR NAKs ask it to, on {n} connections",
    "psn-reused": "{host} uses acknowledged PSNs again for other messages on {n} connections: the receiver drops these messages",
    "read-length-wrong": "{host} answers READs with another length than was asked for, on {n} connections",
    "read-order-wrong": "{host} sends the parts of its answers to READs in the wrong order, on {n} connections",
    "ack-stuck": "{host} acknowledges the same packet again and again, and nothing after it, on {n} connections",
}
"""What is said of the host; `way`: whether it is the one that asks or the one that answers."""


def shared_causes(connections: list[Connection]) -> list[SharedCause]:
    """Causes by the host they belong to: the blamed one, else the end that has it in a large part of its connections."""
    of_host: dict[NamedHost, int] = defaultdict(int)
    groups: dict[tuple[str, NamedHost], list[int]] = defaultdict(list)
    for i, one in enumerate(connections):
        for host in {_host(one, side) for side in (0, 1)}:
            of_host[host] += 1
        if one.healthy or one.redirected or one.cause == "slow-by-application":
            continue
        if between := one.detail.get("lost_between"):  # several points show where: that is no host's
            assert isinstance(between, list)
            groups[LOST, (" and ".join(between), None)].append(i)
            continue
        sides = (0, 1) if one.blamed is None else (one.blamed,)
        for side in sides:
            groups[one.cause, _host(one, side)].append(i)
    found = [
        _shared(cause, host[0], some, connections, of_host[host]) for (cause, host), some in groups.items()
        if len(some) >= LEAST and (
            cause == LOST or len(some) * SHARE >= of_host[host] or _placed(cause, host[0], [connections[i] for i in some])
        )
    ]  # fmt: skip
    worst = {one.cause: min(SEVERITIES.get(connections[i].severity, 3) for i in one.members) for one in found}
    return sorted(found, key=lambda one: (worst[one.cause], -one.connections, one.cause, one.host))


def _host(one: Connection, side: int) -> NamedHost:
    return one.ends[side].address, one.hosts[side] if one.hosts is not None else None


def _placed(cause: str, host: str, some: list[Connection]) -> bool:
    """Whether a cause lies at a host: it belongs to that host in all of some connections, or all of them come from there, or lead there."""
    if cause not in PLACED:
        return False
    sides = (0, 1) if all(one.blamed is None for one in some) else (0,)
    return any(all(one.ends[_end(one, side)].address == host for one in some) for side in sides)


def _end(one: Connection, side: int) -> int:
    """The end that a cause belongs to, else the one that asks (0) or answers (1)."""
    return one.blamed if one.blamed is not None else side ^ one.requester


def _shared(cause: str, host: str, members: list[int], connections: list[Connection], of: int) -> SharedCause:
    some = [connections[i] for i in members]
    began, ended = ([at for at in ends if at is not None] for ends in zip(*map(when_of, some), strict=True))
    lasting = cause == "retries-exhausted" and all(one.detail.get("scope") == "host" for one in some)
    return SharedCause(
        cause, host, len(some), _words(cause, host, some, of), of, shared_advice(cause, host, some), tuple(members),
        min(began, default=None), None if lasting else max(ended, default=None),
    )  # fmt: skip


def _words(cause: str, host: str, some: list[Connection], of: int) -> str:
    """The sentence about a cause that several connections share; what it cost, if it took time."""
    if cause == LOST:
        return f"requests or answers of {len(some)} connections that nobody answered were lost between {host}"
    asks = [one.ends[one.requester].address == host for one in some]
    way = "from" if all(asks) else "to" if not any(asks) else "from or to"
    if cause == "slow-by-rnr":
        way = {"from": "of the peers of", "to": "at"}.get(way, "at or of the peers of")
    told = ("perhaps " if all(one.unsure for one in some) else "") + BLAMED[cause].format(host=host, n=len(some), way=way)
    told += f" ({'all its' if len(some) == of else f'of its {of}'} connections in this capture)"
    part = COST.get(cause)
    if part is not None:
        timed = [one.times for one in some if one.times is not None and one.directions == BOTH]
        spent = sum(getattr(one, part) for one in timed)
        told += f"; that took {duration(spent)} {of_whole(spent, sum_of(timed), 'their')}" if timed else ""
    return told


def one_sided(connections: list[Connection], *, elsewhere: bool = False) -> list[str]:
    """A sentence about the connections of which only one direction is captured; none without such, or with few. `elsewhere`: other captures
    of the same traffic tell of them, too."""
    some = [one for one in connections if one.directions != BOTH]
    if len(some) < LEAST or len(some) * SHARE < len(connections):
        return []
    missing = [_missing(one) for one in some]
    for way, side in (("what {} sends", 0), ("what is sent to {}", 1)):
        host, most = Counter(ends[side] for ends in missing).most_common(1)[0]
        if most == len(some):
            lost = f"{way.format(host)} is not in it"
            break
    else:
        lost = "the answers to requests, or the requests, are not in it"
    of = f"{len(some):,} of {counted(len(connections), 'connection', ',')}"
    if elsewhere:
        return [f"this capture holds one direction only of {of}: {lost}; what the other captures show of it is told from them"]
    unclear = sum(one.verdict == CANNOT_TELL for one in some)
    return [
        f"this capture holds one direction only of {of}: {lost}. Whether and why they failed it mostly cannot tell: {unclear:,} of them "
        "are unclear. Capture both directions, at a host or at a mirror port that copies what is received and what is sent."
    ]


def _missing(one: Connection) -> tuple[str, str]:
    """Who sends the packets of a connection that are not captured, and who receives them."""
    asks, answers = one.ends[one.requester].address, one.ends[1 - one.requester].address
    return (answers, asks) if one.directions == "requests" else (asks, answers)
