"""Sentences about the cause of a connection's fate: who, since when, and the proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibdissect.engine.packet_kinds import ROCE1
from ibdissect.engine.psn_gaps import MTUS
from ibdissect.wire.numbers import RNR_TIMER_US
from ibdissect.wire.text import counted

from .cause_found import CauseFound
from .causes import SURELY
from .connection import INFO, ConnectionEnd, ConnectionTimes
from .connections_from_lanes import Raw
from .phrases import duration, nth, of_whole, often, share
from .rnr_retries import rnr_limit
from .set_up_sentences import duplicate, refused, unanswered
from .story import Story
from .time_bars import PARTS
from .times_and_counts import timeouts_of

SET_UP = "a capture that holds the set-up of the connections (CM) tells"
LATER_PART_FIRST = -1
"""In place of the size of a wrong answer to a READ: it begins with a later part (`engine.requester_responder`)."""
LEAST_AGAIN = 3
"""Answers more than there are PSNs, from which on a requester whose packets are not captured seems to repeat."""


def _tried(s: Story) -> str:
    """How often a request was sent, and how that ended."""
    facts, last = s.facts, s.facts["last_ns"] - s.facts["first_ns"]
    within = f" in {duration(last)}" if last > 0 and facts["tries"] > 1 else ""
    waited = s.times.timeout if s.times is not None and s.half.timeouts == facts["tries"] - 1 else 0
    limit = s.agreed("retry_count")
    beside = [f"its retry count of {limit} allows no more"] if limit is not None and facts["tries"] == limit + 1 else []
    if within and waited and duration(waited) != duration(last):
        beside.append(f"{duration(waited)} of that were time-outs{s.timer}")
    if facts.get("early"):
        beside.append("the capture may begin amid its tries")
    may = f" ({'; '.join(beside)})" if beside else ""
    heard = "as if no acknowledgement came" if s.one_way and not s.half.answers else "and it was never acknowledged"
    least = "at least " if facts.get("early") else ""  # the capture may begin amid its tries
    return f"{s.asks} sent PSN {facts['psn']} {least}{often(facts['tries'])}{within}{may}, {heard}{s.ended}"


def _exhausted(s: Story) -> str:
    return f"{_silent(s)}{_of_silence(s)}"


def _silent(s: Story) -> str:
    """What a capture shows of a request that nobody answered, without what follows from that."""
    scope, host, told = s.found.detail.get("scope"), s.raw.hosts[1 - s.side], _tried(s)
    if scope == "qp" and s.facts["others_pass"]:
        return f"{told}; {s.answers} acknowledges what {s.asks} sends to other queue pairs there meanwhile"
    if scope == "qp":
        alive, since = s.facts["alive"], s.facts["last_ns"]
        what = "on other connections" if alive.connection else "other packets"
        return f"{told}; {s.answers} still sends {what} ({alive.said(since)}), so that host is up{alive.again(since)}"
    if scope == "host" and host.last_frame:
        quiet = duration(max(s.facts["host_quiet_ns"], 0))
        return f"{told}; the last packet of {s.answers} is frame {host.last_frame}, none comes from it in the {quiet} after that"
    if scope == "host":
        return f"{told}; nothing at all comes from {s.answers} in this capture"
    told += f"; what {s.answers} sends is not captured"
    if "served" in s.facts:
        served, since = s.facts["served"], s.facts["last_ns"]
        told += f", but it is up{served.again(since)}: {served.peer} answers a request of it ({served.said(since)})"
    return told


def _of_silence(s: Story) -> str:
    """Who is silent, as far as one capture tells: another one may show that the request did not arrive, or was answered."""
    if s.found.detail.get("scope") != "qp":
        return ""
    qpn = s.ends[1 - s.side].qpn
    queue_pair = f"QP 0x{qpn:06x}" if qpn is not None else "this queue pair"
    few = f" (seen only {often(s.facts['tries'])}: it may have been loss)" if s.facts["tries"] < SURELY else ""
    if s.facts["others_pass"]:
        return f", so that host works, and the network on that path: {queue_pair} does not answer{few}"
    return f": {queue_pair} there does not answer, or what {s.asks} sends to it is lost{few}"


def _path_mtu(s: Story) -> str:
    size, largest = s.facts["size"], s.facts["largest"]
    when = "smaller ones passed meanwhile or afterwards" if s.facts["passed"] else "a smaller one passed just before"
    arrived = s.facts.get("arrived")
    proof = ""
    if arrived:
        proof = f" a packet of {arrived.size:,} bytes arrived there (frame {arrived.frame}), as a NAK refuses it (frame {arrived.refused})"
    vanish, but = "packets above a size vanish on the way", ""
    if arrived and arrived.size >= size:
        which = "earlier" if arrived.frame < (s.found.first or 0) else "later"
        vanish, but = "as if packets above a size vanish on the way at that time", f"; but {which}{proof}"
    elif arrived and arrived.size > largest:
        largest, when = arrived.size, f"{when};{proof}"
    acknowledged = s.facts["largest"]
    return (
        f"{_tried(s)}; that packet carries {size:,} bytes, the largest that {s.answers} acknowledged of {s.asks} on any connection has "
        f"{acknowledged:,}, and {when}: {vanish}{_limit(size, largest)}{but}"
    )


def _limit(size: int, largest: int) -> str:
    """The MTUs that a port may have which lets one packet pass and not the other."""
    between = [mtu for mtu in MTUS if largest <= mtu < size]
    if not between:
        return ""
    which = f"{between[0]}" + (f"{' or' if len(between) == 2 else ' to'} {between[-1]}" if len(between) > 1 else "")
    return f", as where a port has an MTU of {which}"


def _mtu_mismatch(s: Story) -> str:
    size, mtu = s.facts["size"], s.facts["mtu"]
    return (
        f"{s.asks} sent a packet of {size:,} bytes, more than the path MTU of {mtu:,} {_agreed_mtu(s)}: "
        f"{s.answers} refused it (NAK invalid request){s.ended}"
    )


def _agreed_mtu(s: Story) -> str:
    return "in the REQ" if s.agreed("mtu") else f"that {s.answers} keeps to in its own packets"


def _invalid(s: Story) -> str:
    resources, reads = s.agreed("resources"), s.facts.get("reads", 0)
    if resources is not None and reads > resources:
        return (
            f"{s.asks} had {reads} READs or atomics under way, {s.answers} allows {resources} at a time (Responder Resources of its REP): "
            f"{s.answers} refused the {nth(s.facts['nth'])} of them (frame {s.found.first}, NAK invalid request){s.ended}"
        )
    return f"{s.answers} refused {_request(s)} as invalid (NAK invalid request){_unseen(s)}{s.ended}"


def _request(s: Story) -> str:
    """Which request a NAK refuses: `a request of 10.0.0.1`, `the WRITE of 10.0.0.1 with PSN 7`."""
    access = s.facts.get("access") if not _unseen(s) else None
    what = f"the {access.operation}" if access is not None else "a request"
    return f"{what} of {s.asks} with PSN {s.half.una & 0xFFFFFF}"


def _unseen(s: Story) -> str:
    """That a refused request is not in the capture."""
    return "; that request is not in the capture" if s.found.first in (None, s.found.decisive) else ""


def _access(s: Story) -> str:
    told = f"{s.answers} refused {_request(s)}: its rights, key or address do not fit memory of {s.answers} (NAK remote access error)"
    return f"{told}{_memory(s)}{s.ended}"


def _memory(s: Story) -> str:
    """What was to be accessed, with its R_Key as reports show keys."""
    if _unseen(s):
        return _unseen(s)
    access = s.facts.get("access")
    if access is None:
        return f"; R_Key, address and length are in frame {s.found.first}"
    masked = " (masked; --show-keys shows it)" if "#" in s.r_key else ""
    return f"; it asks for {access.said} (frame {s.found.first})" + (f" with R_Key {s.r_key}{masked}" if s.r_key else "")


def _operational(s: Story) -> str:
    told = f"{s.answers} could not carry out {_request(s)} (NAK remote operational error), for a reason that is not on the wire"
    return told + _unseen(s) + s.ended


def _rnr_exhausted(s: Story) -> str:
    limit = rnr_limit(s.raw, s.half)
    allowed = f"; the RNR retry count of {s.asks} is {limit}" if limit is not None else ""
    if limit is not None and s.half.rnr_count > limit + 1:
        allowed = f"; {s.asks} went on beyond its RNR retry count of {limit}"
    return (
        f"{s.answers}, the receiver, had no receive buffer for PSN {s.half.rnr & 0xFFFFFF} {often(s.half.rnr_count)} (RNR NAK)"
        f"{allowed}{s.ended}"
    )


def _rnr_ignored(s: Story) -> str:
    asked = RNR_TIMER_US[s.half.rnr_code] * 1000
    times = counted(s.half.hurried, "time")
    return (
        f"{s.answers} had no receive buffer and asked {s.asks} to wait at least {duration(asked)} (RNR NAK); "
        f"{s.asks} sent again after less than half of that, {times}"
    )


def _reused(s: Story) -> str:
    number, half = counted(s.half.reused, "PSN"), s.half
    where = f"frame {half.reused_first} has another message than frame {half.reused_before} had"
    if not half.answers:
        return (
            f"{s.asks} used {number} again for another message ({where}); acknowledgements are not captured: if the "
            f"one before was acknowledged, {s.answers} takes the other one as a repetition, and its data is lost"
        )
    return (
        f"{s.asks} used {number} again that had been acknowledged, for another message ({where}); {s.answers} acknowledges that as a "
        f"repetition and does not deliver it: the data of frame {half.reused_first} is lost"
    )


def _wrong_read(s: Story) -> str:
    size, wanted = s.facts["size"], s.facts["wanted"]
    return f"{s.answers} answered a READ of {wanted:,} bytes with {size:,} bytes, too {'few' if size < wanted else 'many'}{s.ended}"


def _late_read(s: Story) -> str:
    wanted = f"its answer to a READ of {s.facts['wanted']:,} bytes"
    how = "with a later part" if s.facts["size"] == LATER_PART_FIRST else "again in the middle of it"
    return f"{s.answers} began {wanted} {how}{s.ended}"


HOW = {"constant": "as a constant", "swapped": "with its bytes reversed", "vlan": "over the VLAN tag, too", "other": "wrongly"}


def _icrc(s: Story) -> str:
    blamed, facts = s.found.blamed or 0, s.facts
    host, peer = s.ends[blamed].address, s.ends[1 - blamed].address
    how = HOW.get(str(s.found.detail.get("how")), "wrongly")
    which = "all" if facts["wrong"] == facts["checked"] else f"{facts['wrong']:,} of"
    taken = f"{peer} takes them, although a receiver must drop them" if s.half.answers else f"whether {peer} takes them is not captured"
    if s.found.verdict == "failed":
        taken = (
            f"{peer} acknowledges none of this connection, as a receiver that drops them" if s.asks == host
            else f"{peer} repeats its requests, as if the answers were dropped"
        )  # fmt: skip
    if s.found.severity == INFO:
        both = f" and of {peer}" if facts["both"] else ""
        why = "addresses were replaced in this file" if both else f"it was captured on {host} before its adapter wrote the ICRC"
        again = " and nothing is sent again" if not s.half.again else ""
        right = f"{peer} takes them{again}, so it was right where they arrived, as"
        if not s.half.answers:
            right = "nothing is sent again, and the capture shows no answers; it may have been right where they arrived, as"
        whose = f"{which} {facts['checked']:,} whole packets of {host} in this capture"
        return f"the ICRC of {host}{both} is wrong, in {whose}: {right} if {why}"
    return f"{host} writes the ICRC {how}, in {which} {facts['checked']:,} whole packets of that host in this capture: {taken}"


def _versions(s: Story) -> str:
    asks, back = s.raw.lanes[s.side], s.raw.lanes[1 - s.side]
    used = ("v1", "v2") if asks.versions == 1 << ROCE1 else ("v2", "v1")
    return (
        f"{s.asks} speaks RoCE {used[0]}, {s.answers} answers in RoCE {used[1]} ({counted(back.packets, 'packet', ',')}): "
        f"{s.asks} repeats as if nothing had come{s.ended}"
    )


def _partition(s: Story) -> str:
    used, agreed = s.facts["p_key"], s.facts["agreed"]
    told = f"{s.asks} sends with P_Key 0x{used:04x}, the REQ says 0x{agreed:04x}"
    if s.one_way:
        return f"{told}: a receiver drops what is not of its queue pair's partition; what {s.answers} answers is not captured{s.ended}"
    return f"{told}: {s.answers} answers none of these packets, as a receiver does with a P_Key that is not its queue pair's{s.ended}"


def _stuck(s: Story) -> str:
    half = s.half
    return (
        f"{s.answers} acknowledges PSN {half.last_ack & 0xFFFFFF} with MSN {half.last_msn} again and again ({often(half.same_acks + 1)}) "
        f"and never what {s.asks} sent after it{s.ended}"
    )


def _slow(what: str, part: str, count: str, hidden: str = "") -> Callable[[Story], str]:
    def told(s: Story) -> str:
        assert s.times is not None
        spent, number = getattr(s.times, part), int(getattr(s.half, count))
        if s.hidden or not s.half.answers:
            sentence = hidden if s.hidden and hidden else what
            return f"{sentence.format(s=s, n=often(number))}; one direction only is captured, so how long that took is not told"
        return f"{what.format(s=s, n=often(number))}; that took {duration(spent)} {of_whole(spent, s.times)}"

    return told


def _congestion(s: Story) -> str:
    cnps = sum(lane.cnps for lane in s.raw.lanes if lane is not None)
    marks = f"{counted(s.half.marks, 'packet')} of {s.asks} came with a mark of congestion" if s.half.marks else ""
    if not cnps:
        return f"{marks}, set by a switch on the way"
    told = f"{s.answers} told {s.asks} of congestion {often(cnps)} (CNP), which asks it to send more slowly"
    return f"{told}; {marks}" if marks else told


def _application(s: Story) -> str:
    assert s.times is not None
    idle = s.times.idle_by_application
    return (
        f"{s.asks} had nothing to send {often(s.half.pauses)} for 5 ms or more: {duration(idle)} of the "
        f"{duration(s.times.span)} from its first to its last packet ({share(idle, s.times.span)}), nobody's fault{_beside(s)}"
    )


def _beside(s: Story) -> str:
    """What trouble took beside the pauses of an application; empty below a hundredth of the time."""
    assert s.times is not None
    if not _recovered(s.half) or s.times.trouble * 100 < s.times.span:
        return ""
    return f"; it also {_recovered(s.half)}, which took {duration(s.times.trouble)} {of_whole(s.times.trouble, s.times)}"


def _recovered(half: Any) -> str:
    """`recovered from 1 loss, 2 time-outs`; empty if there was no trouble."""
    named = (half.losses, "loss", "losses"), (timeouts_of(half), "time-out", "time-outs"), (half.rnrs, "RNR NAK", "RNR NAKs")
    trouble = [f"{number} {one if number == 1 else many}" for number, one, many in named if number]
    return f"recovered from {', '.join(trouble)}" if trouble else ""


def _healthy(s: Story) -> str:
    half = s.raw.main
    if half is None or not half.since:
        return "it was set up, and no data was captured"
    told = _recovered(half)
    if not told:
        return "nothing is wrong"
    if s.times is None or not s.times.trouble:
        return f"it works; {told}"
    took = f"took {duration(s.times.trouble)} {of_whole(s.times.trouble, s.times)}"
    if not s.times.costly:
        return f"it works; {told}, which {took}"
    parts = [f"{duration(spent)} {said}" for part, said in PARTS[2:5] if (spent := getattr(s.times, part)) * 100 >= s.times.trouble]
    which = f": {' and '.join(parts)}" if len(parts) > 1 else ""
    return f"it works, but {told}, which {took}{which}"


def _unknown(s: Story) -> str:
    half = s.raw.main
    if half is None or not half.since:
        setup = s.raw.setup
        if setup is not None and setup.tries and setup.rep is None:
            return f"{s.asker} sent its REQ {often(setup.tries)}{s.service}, and nothing that answers it was captured"
        if setup is not None and setup.rtu is not None:
            return "it was set up; its queue pairs are not captured, so which packets are its own is not known"
        return "only part of its set-up was captured"
    if s.raw.crowd:
        which = f"what {s.answers} answers to {s.asks}" if half.requests else f"what {s.asks} asks of {s.answers}"
        return (
            f"{which} cannot be told from that of {counted(s.raw.crowd, 'other queue pair')} with near PSNs, as where a program begins "
            f"all with one PSN; {SET_UP}"
        )
    if half.misfits and half.requests and half.answers:
        return (
            f"{counted(half.misfits, 'packet')} of {s.asks} and {s.answers} do not fit together ({half.fits} do): the capture lacks "
            f"packets, or these are two queue pairs with near PSNs; {SET_UP}"
        )
    if not half.answers:
        again = f", {counted(half.again, 'packet')} of them again" if half.again else ""
        return f"only what {s.asks} sends was captured{again}; what {s.answers} answered is not known"
    if half.forgotten:
        return "more packets were under way or missing than are remembered"
    if half.unread:
        return f"{counted(half.unread, 'answer')} of {s.answers} are cut off before they say whether they are ACKs or NAKs"
    told, acknowledged = f"only what {s.answers} answers was captured", half.una - half.front
    if 0 < acknowledged <= half.answers - LEAST_AGAIN and not half.naks and not half.rnrs:
        told += f"; {half.answers} answers are for {counted(acknowledged, 'PSN')} only, as where {s.asks} sends the same again"
    return told


SAID: dict[str, Callable[[Story], str]] = {
    "refused": refused, "duplicate-qp-after-restart": duplicate, "connect-unanswered": unanswered, "retries-exhausted": _exhausted,
    "path-mtu": _path_mtu, "mtu-mismatch": _mtu_mismatch, "remote-invalid-request": _invalid, "remote-access-error": _access,
    "remote-operational-error": _operational, "rnr-exhausted": _rnr_exhausted, "rnr-timer-ignored": _rnr_ignored, "psn-reused": _reused,
    "read-length-wrong": _wrong_read, "read-order-wrong": _late_read,
    "icrc-wrong-at-sender": _icrc, "roce-version-mix": _versions, "wrong-partition": _partition,
    "ack-stuck": _stuck,
    "slow-by-loss": _slow(
        "packets of {s.asks} were lost on the way to {s.answers} {n}, and {s.asks} sent again from there on", "loss_recovery", "losses",
        "{s.answers} told {s.asks} {n} that packets are missing (NAK sequence error)",
    ),
    "slow-by-reordering": _slow(
        "nothing was lost, but packets of {s.asks} overtook each other {n}, and {s.answers} asked to have all sent again", "loss_recovery",
        "losses",
    ),
    "slow-by-timeout": _slow("{s.asks} waited {n} until its timer ran out before it sent again{s.timer}", "timeout", "timeouts"),
    "slow-by-rnr": _slow("{s.answers}, the receiver, had no receive buffer {n} (RNR NAK){s.never}", "rnr_wait", "rnrs"),
    "slow-by-congestion": _congestion, "slow-by-application": _application, "healthy": _healthy, "cannot-tell": _unknown,
}  # fmt: skip
"""The sentence of each cause."""


def explain(
    found: CauseFound, raw: Raw, ends: tuple[ConnectionEnd, ConnectionEnd], times: ConnectionTimes | None, r_key: str = ""
) -> tuple[str, str]:
    """The sentence about a connection, and its end that only follows from silence (`Connection.guess`). `r_key`: that of a refused access,
    as reports show keys; empty: it is not told."""
    story = Story(found, raw, ends, times, r_key)
    return SAID[found.cause](story), _of_silence(story) if found.cause == "retries-exhausted" else ""
