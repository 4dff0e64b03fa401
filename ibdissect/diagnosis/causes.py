"""The cause that explains a connection: the first one that the facts prove; `healthy` or `cannot-tell` if none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ibdissect.engine.packet_kinds import APART_NS, ROCE1, ROCE2, SOON_NS
from ibdissect.engine.psn_gaps import FAR, distance
from ibdissect.wire.convert import LATEST_NS

from .cause_found import CaptureContext, CauseFound
from .connection import CANNOT_TELL, ERROR, FAILED, HEALTHY, INFO, NONE, ODD, SLOW, WARNING, ConnectionTimes
from .connections_from_lanes import Raw
from .rnr_retries import rnr_exhausted, rnr_limit
from .set_up_causes import not_connected
from .signs_of_life import SignOfLife
from .times_and_counts import slow_by
from .wrong_icrc_hosts import all_taken, mostly_wrong

if TYPE_CHECKING:
    from ibdissect.engine.waiting_packets import Path

MOST_RETRIES = 7
"""A retry count has three bits."""
MANY_CNPS, MANY_PAUSES = 5, 3
DOUBT = 4
"""Where more than a quarter as many packets do not fit as do, PSNs alone do not prove that both ways are of one connection."""
SEEN_ALONE = frozenset({"icrc-wrong-at-sender", "slow-by-congestion", "slow-by-application"})
"""Causes that one direction proves, whichever is the other."""
SURELY = 4
"""Tries of a packet that are no chance. Any requester repeats after a loss: fewer prove nothing where PSNs alone paired it."""
ONE_WAY_ROUNDS = 3
"""Where answers are not captured, a requester that repeated so often at the end, and sent nothing else, has given up."""


def judge(raw: Raw, capture: CaptureContext, times: ConnectionTimes | None) -> CauseFound:
    """What explains a connection."""
    return not_connected(raw, capture) or _data(raw, capture, times) or _rest(raw, capture)


def sees(raw: Raw, requester: int) -> tuple[bool, bool]:
    """Whether the capture shows what the requester sends, and what the responder sends: something goes to the other host."""
    return bool(raw.hosts[1 - requester].heard), bool(raw.hosts[requester].heard)


def _data(raw: Raw, capture: CaptureContext, times: ConnectionTimes | None) -> CauseFound | None:
    found: CauseFound | None = None
    for side in (raw.requester, 1 - raw.requester):
        half = raw.half(side)
        if half is not None and half.since:
            for one in _of_half(raw, half, side, capture, times if side == raw.requester else None):
                one.half = one.half or half
                one.facts |= _ending(raw, half, side, capture)
                if found is None or RANK[one.verdict] < RANK[found.verdict]:
                    found = one
                break
    if found is not None and found.cause not in SEEN_ALONE and doubtful(raw, found.half):
        return CauseFound("cannot-tell", CANNOT_TELL, NONE, half=found.half)
    return found


def doubtful(raw: Raw, half: Any) -> bool:
    """Whether requests and answers may be of two queue pairs: no set-up names them, and many answers are of something else."""
    return raw.setup is None and bool(half.requests) and bool(half.answers) and DOUBT * half.misfits > half.fits


def _ending(raw: Raw, half: Any, side: int, capture: CaptureContext) -> dict[str, Any]:
    """How a direction ended: the DREQ after its last request, and who sent it, else how long the capture goes on without a request."""
    last = half.last_request_time
    for frame, time, by in raw.setup.dreqs if raw.setup is not None else ():
        if time >= last:
            return {"dreq": (frame, by)}
    return {"quiet_ns": capture.goes_on(half.last_request, last)} if last else {}


RANK = {FAILED: 0, ODD: 1, SLOW: 2, CANNOT_TELL: 3, HEALTHY: 4}


def _of_half(raw: Raw, half: Any, side: int, capture: CaptureContext, times: ConnectionTimes | None) -> Iterator[CauseFound]:
    """What explains one direction, the strongest first. Ask for the first only."""
    asks, back = raw.lanes[side], raw.lanes[1 - side]
    gave_up = given_up(raw, half, capture)
    wrong = _wrong_icrc(raw, capture)
    ignored = bool(half.rounds >= 2 and half.in_round and not raw.crowd)  # the requester repeats what was acknowledged, to the end
    if wrong is not None:
        wrong.verdict = FAILED if gave_up or ignored else ODD
        if wrong.verdict == ODD and all_taken(raw, wrong.detail.get("how")):
            wrong.severity = INFO
        yield wrong
    if half.fatal_frame:
        refused = _refused_request(raw, half, side)
        refused.facts["access"] = capture.access(refused.first or 0)
        yield refused
    if half.wrong_frame:
        cause = "read-length-wrong" if half.wrong_size >= 0 else "read-order-wrong"
        facts = {"size": half.wrong_size, "wanted": half.wrong_wanted}
        yield CauseFound(cause, first=half.wrong_request, decisive=half.wrong_frame, blamed=1 - side, facts=facts)
    if half.rnr_naks and rnr_exhausted(raw, half, capture.goes_on):
        severity = ERROR if rnr_limit(raw, half) is not None else INFO  # it may have gone another way, or was stopped
        yield CauseFound("rnr-exhausted", FAILED, severity, half.rnr_first, half.rnr_frame, 1 - side)
    if asks is not None and back is not None and half.requests and half.answers and mixed_versions(asks, back):
        first = asks.first_frame
        yield CauseFound("roce-version-mix", first=first, decisive=back.last_frame, blamed=1 - side)
    if gave_up:
        yield from _silence(raw, half, side, capture)
    if half.reused and not half.renewed and (not half.far_back or half.last_msn >= 0):  # else the queue pair may have begun anew
        lacks = half.missed or half.holes or half.unanswered  # the capture does, perhaps of a set-up, too
        yield CauseFound("psn-reused", ODD, INFO if lacks else ERROR, half.reused_before or half.reused_first, half.reused_frame, side)
    if half.hurried >= 2 or (half.hurried and half.hurried == half.rnrs):
        severity = WARNING if half.hurried > 1 else INFO  # a single one may be a copy from a slower mirror
        yield CauseFound("rnr-timer-ignored", ODD, severity, half.hurried_first, half.hurried_frame, side)
    if not half.unread and not half.forgotten:  # an answer that is cut off may have asked for what was sent again
        yield from _slow(raw, half, side, times)


def given_up(raw: Raw, half: Any, capture: CaptureContext) -> bool:
    """Whether a request was repeated, never acknowledged, and then given up."""
    if half.una >= half.front or not half.requests or half.rnr >= half.una or half.unread:
        return False
    if raw.setup is None and half.last_try != half.last_request and half.tries <= MOST_RETRIES:
        return False  # it sent something new after it had sent again: its answers may be another lane's
    if raw.picked and half.tries < SURELY:
        return False
    if raw.crowd and not half.answers:  # they may be in the capture
        return False
    if half.tries < 2 or half.last_try_end <= half.una:
        return _abandoned(raw, half)
    if _went_on(half) or _taken_leave_of(raw, half) or _moved(raw, half, capture):
        return False
    setup = raw.setup
    if not half.answers and not sees(raw, raw.requester if half is raw.main else 1 - raw.requester)[1]:
        return bool(half.rounds >= ONE_WAY_ROUNDS and half.last_try == half.last_request)
    ended = setup is not None and any(time >= half.last_try_time for _, time, _ in setup.dreqs)
    limit = setup.agreed["retry_count"] if setup is not None else None
    if half.tries > MOST_RETRIES and not half.rnr_count:  # else more RNR NAKs may have come than are captured
        return True
    quiet = capture.goes_on(half.last_request or half.last_answer, max(half.last_request_time, half.last_answer_time))
    wait = 2 * half.longest_wait or 8 * half.timer or LATEST_NS  # 4 times its timer, of which `timer` is half
    return ended or (limit is not None and half.tries > limit) or quiet > wait


def _went_on(half: Any) -> bool:
    """Whether a requester none of whose answers is captured sent something new, longer after its last try than it ever waited."""
    return bool(not half.answers and half.last_request_time - half.last_try_time > half.longest_wait)


def _taken_leave_of(raw: Raw, half: Any) -> bool:
    """Whether the responder ended the connection (DREQ) before the first repetition: what came after that it does not answer."""
    responder = 1 - raw.requester if half is raw.main else raw.requester
    setup, until = raw.setup, half.first_try_time + half.longest_wait
    return setup is not None and any(by == responder and time < until for _, time, by in setup.dreqs)


def _moved(raw: Raw, half: Any, capture: CaptureContext) -> bool:
    """Whether the same queue pairs went on with the unacknowledged packet over another path or link: a migration, a failover."""
    side = raw.requester if half is raw.main else 1 - raw.requester
    for other, asks in capture.by_pair.get((raw.qpn(side), raw.qpn(1 - side)), ()):
        later, lane = other.half(asks), other.lanes[asks]
        begun_later = other is not raw and lane is not None and lane.first_time >= half.first_try_time
        if begun_later and later is not None and 0 < distance(later.front, half.una) <= FAR:
            return True
    return False


def _abandoned(raw: Raw, half: Any) -> bool:
    """Whether a request that the capture shows once was never answered and the requester then ended the connection, with a DREQ that the
    other host, silent since then, did not answer either: the other tries were before the capture."""
    setup, side = raw.setup, raw.requester if half is raw.main else 1 - raw.requester
    if setup is None or setup.reqs or setup.drep is not None or half.answers or not sees(raw, side)[1]:
        return False
    ended = [time for _, time, by in setup.dreqs if by == side]
    return bool(ended and ended[0] - half.last_request_time > SOON_NS and raw.hosts[1 - side].last_time < half.last_request_time)


def lost_by_size(raws: list[Raw], capture: CaptureContext) -> tuple[set[Path], dict[Path, list[tuple[int, int]]]]:
    """`large_only` and `small_lost` of a capture."""
    large: Counter[Path] = Counter()
    small: dict[Path, list[tuple[int, int]]] = {}
    for raw in raws:
        for half in raw.halves:
            if half.tries > 1 and given_up(raw, half, capture):
                first = half.open.first()
                if first is not None and first[2] > half.path.largest >= 0:
                    large[half.path] += half.tried_time - half.first_try_time >= SOON_NS  # else perhaps copies of two capture points
                else:
                    small.setdefault(half.path, []).append((half.first_try_time, half.last_try_time))
    return {path for path, number in large.items() if number > 1 and path not in small}, small


def _wrong_icrc(raw: Raw, capture: CaptureContext) -> CauseFound | None:
    for side, lane in enumerate(raw.lanes):
        host, how = raw.hosts[side], capture.how_wrong(raw.hosts[side])
        if lane is None or not lane.wrong or not mostly_wrong(host, how):
            continue
        detail: dict[str, object] = {"how": how} if how is not None else {}
        peer = raw.hosts[1 - side]
        facts = {"wrong": host.wrong, "checked": host.checked, "both": mostly_wrong(peer, capture.how_wrong(peer))}
        return CauseFound("icrc-wrong-at-sender", first=lane.wrong_first, decisive=lane.wrong_last, blamed=side, detail=detail, facts=facts)
    return None


NAKS = {1: "remote-invalid-request", 2: "remote-access-error", 3: "remote-operational-error", 4: "remote-invalid-request"}


def _refused_request(raw: Raw, half: Any, side: int) -> CauseFound:
    """A NAK that ends the connection."""
    first = half.fatal_request or half.fatal_frame
    facts: dict[str, Any] = {"size": half.fatal_size, "reads": half.fatal_reads, "nth": half.fatal_nth}
    cause = NAKS.get(half.nak_code, "remote-invalid-request")
    if half.nak_code == 1:
        mtu = path_mtu(raw, half, side)
        facts["mtu"] = mtu
        if mtu and half.fatal_size > mtu:
            cause = "mtu-mismatch"
    return CauseFound(cause, first=first, decisive=half.fatal_frame, blamed=side if half.nak_code == 1 else None, facts=facts)


def path_mtu(raw: Raw, half: Any, side: int) -> int:
    """The MTU that both agreed on, else the one that the responder keeps to in its own packets; 0: not known."""
    code = raw.setup.agreed["mtu"] if raw.setup is not None else None
    if code is not None and 1 <= code <= 5:
        return 128 << code
    back = raw.half(1 - side)
    return int(back.mtu) if back is not None else 0


def mixed_versions(asks: Any, back: Any) -> bool:
    """Whether the answers come in the other version of RoCE only."""
    versions = {1 << ROCE1, 1 << ROCE2}
    return asks.versions != back.versions and {asks.versions, back.versions} == versions


def _smaller_pass(half: Any, capture: CaptureContext) -> tuple[bool, bool]:
    """Whether the path took other packets while one was tried or soon after that, as later it may work again; and whether it took them
    meanwhile, or just before all tries and lost none that is small."""
    first, last = half.first_try_time, half.last_try_time
    before, behind = half.path.passed_around(first)
    soon = 0 < behind <= last + max(APART_NS, last - first)
    just_before = half.tries > MOST_RETRIES and first - before < half.longest_wait
    small = (begun <= last and first <= ended for begun, ended in capture.small_lost.get(half.path, ()))
    return soon, 0 < behind <= last or ((soon or just_before) and not any(small))


def _silence(raw: Raw, half: Any, side: int, capture: CaptureContext) -> Iterator[CauseFound]:
    """A request was repeated and never acknowledged."""
    open_ = half.open.first()
    last, when = (half.last_try, half.last_try_time) if half.last_try else (half.last_request, half.last_request_time)
    tried, tried_ns = (half.tried, half.tried_time) if half.tries > 1 and half.last_try else (last, when)
    """The last repetition of the packet that `first` is; others may have been sent again after it."""
    first = open_[1] if open_ is not None else last
    target = raw.hosts[1 - side]
    detail: dict[str, object] = {}
    facts: dict[str, Any] = {"tries": half.tries, "psn": half.una & 0xFFFFFF, "first_ns": half.first_try_time}
    facts |= {"last_ns": tried_ns if half.last_try else half.first_try_time, "largest": half.path.largest}
    facts["size"] = open_[2] if open_ is not None else 0
    unheard = not half.answers and (raw.setup is None or not raw.setup.reqs)
    facts["early"] = unheard and (half.tries < 2 or half.first_try_time - capture.start_ns <= half.longest_wait)
    shown = sees(raw, side)[1]
    if half.same_acks >= 2 and half.last_answer_time >= half.first_try_time:
        yield CauseFound("ack-stuck", first=half.same_first, decisive=half.same_frame, blamed=1 - side, facts=facts)
    asks = raw.lanes[side]
    agreed = raw.setup.agreed["p_key"] if raw.setup is not None else None
    if agreed is not None and asks is not None and asks.pkey >= 0 and (asks.pkey ^ agreed) & 0x7FFF and half.largest < 0:
        facts |= {"p_key": asks.pkey, "agreed": agreed}
        yield CauseFound("wrong-partition", first=first, decisive=tried, blamed=side, facts=facts)
    facts["host_quiet_ns"] = capture.goes_on(last, target.last_time)
    served = capture.nearby.served_after(target.number, half.first_try_time)
    if not shown and served is not None:
        facts["served"] = served
    alive = target.last_time > when or (bool(half.last_try) and target.last_time > half.first_try_time + half.longest_wait)
    if alive:
        since = when if target.last_time > when else half.first_try_time + half.longest_wait
        facts["alive"] = capture.nearby.sent_after(raw, 1 - side, since) or SignOfLife(target.last_time, target.last_frame)
    facts["others_pass"], smaller_pass = _smaller_pass(half, capture)
    asked = bool(half.naks and half.last_answer_time > half.first_try_time)
    facts["passed"] = facts["others_pass"] or asked
    apart = half.largest >= 0 or half.path in capture.large_only  # it is not that the queue pair was dead from the beginning
    if open_ is not None and shown and open_[2] > half.path.largest >= 0 and apart and (smaller_pass or asked):
        facts["arrived"] = capture.nearby.arrived(half)
        severity = INFO if half.tries < SURELY and half.path not in capture.large_only else ERROR  # it may have been loss
        yield CauseFound("path-mtu", severity=severity, first=first, decisive=tried, facts=facts)
    detail["tries"] = half.tries
    if shown:
        detail["scope"] = "qp" if alive else "host"
    limit = raw.setup.agreed["retry_count"] if raw.setup is not None else None
    waits = half.tries > MOST_RETRIES + 1  # so many tries have RNR NAKs between them, which the capture need not show
    left = half.tries <= (MOST_RETRIES if limit is None else limit)  # it may try again, unless it was answered where nobody captured it
    unseen = not shown or (not half.answers and (waits or left or (capture.one_of_paths and raw.setup is None)))
    moves = raw.setup is not None and bool(raw.setup.agreed["alternate_lid"])  # it may go on there, where nobody captures it
    severity = INFO if unseen or moves or half.tries < SURELY or (waits and (half.rnr_count or not alive)) else ERROR
    yield CauseFound("retries-exhausted", severity=severity, first=first, decisive=tried, blamed=1 - side, detail=detail, facts=facts)


def _slow(raw: Raw, half: Any, side: int, times: ConnectionTimes | None) -> Iterator[CauseFound]:
    both = half.requests and half.answers
    slow = slow_by(half, times) if times is not None else None
    if slow is not None and (both or slow == "rnr" or half.naks):
        first, last = {
            "rnr": (half.rnr_begin, half.rnr_last), "timeout": (half.timeout_first, half.timeout_last),
        }.get(slow, (half.loss_first, half.loss_last))  # fmt: skip
        yield CauseFound(f"slow-by-{slow}", SLOW, WARNING, first, last)
    cnps = sum(lane.cnps for lane in raw.lanes if lane is not None)
    if cnps >= MANY_CNPS or (half.mark_groups >= MANY_CNPS and not half.answers):
        lanes = [lane for lane in raw.lanes if lane is not None and lane.cnps]
        first, last = (lanes[0].cnp_frame, lanes[0].cnp_last) if lanes else (half.mark_frame, half.mark_last)
        yield CauseFound("slow-by-congestion", SLOW, WARNING, first, last)
    if times is not None and half.pauses >= MANY_PAUSES and 2 * half.paused >= times.span and both:
        yield CauseFound("slow-by-application", SLOW, INFO, half.pause_frame, half.pause_frame, side)


def _rest(raw: Raw, capture: CaptureContext) -> CauseFound:
    """Nothing is wrong, or the capture cannot show whether something is."""
    half = raw.main
    if half is not None and half.since:
        shown = bool(half.requests and half.answers) and not half.unread and not half.forgotten
        return CauseFound("healthy", HEALTHY, NONE) if shown else CauseFound("cannot-tell", CANNOT_TELL, NONE)
    shown = raw.setup is not None and raw.setup.rtu is not None and None not in (raw.qpn(0), raw.qpn(1))
    return CauseFound("healthy", HEALTHY, NONE) if shown else CauseFound("cannot-tell", CANNOT_TELL, NONE)
