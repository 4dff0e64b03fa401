"""What is said of a cause: who, since when, what proves it, and what to do?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibdissect.wire.cm_names import REJ_REASONS
from ibdissect.wire.headers import RNR_TIMER_US
from ibdissect.wire.text import counted
from ibdissect.wire.ulp.nvme_rdma import STATUS as NVME_STATUS

from .assemble import Raw
from .causes import TIMEOUT_REASON, Found, rnr_limit
from .connection import Connection, End, Times

NUMBERS = ("no times", "once", "twice", "three times", "four times", "five times", "six times", "seven times", "eight times", "nine times")


def often(number: int) -> str:
    """`eight times`."""
    return NUMBERS[number] if 0 <= number < len(NUMBERS) else f"{number} times"


def duration(ns: int) -> str:
    """A time with three digits: `3.82 s`, `61.5 ms`, `12 us`."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)):
        if ns >= size:
            value = ns / size
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    return f"{ns} ns"


def share(part: int, whole: int) -> str:
    """`41 %`; below one percent with one digit behind the point."""
    value = 100 * part / whole if whole else 0.0
    return f"{value:.0f} %" if value >= 1 or not part else f"{value:.1g} %"


class Story:
    """What the sentences about one connection name. Any: a direction of the engine, compiled or not."""

    def __init__(self, found: Found, raw: Raw, ends: tuple[End, End], times: Times | None) -> None:
        self.found, self.raw, self.ends, self.times, self.facts = found, raw, ends, times, found.facts
        self.half: Any = found.half if found.half is not None else raw.main
        side = raw.requester
        if found.half is not None and found.half is not raw.main:
            side = 1 - side
        self.asks, self.answers = ends[side].address, ends[1 - side].address
        self.asker, self.other = ends[0].address, ends[1].address

    @property
    def never(self) -> str:
        """What the last RNR NAK asked to wait for, if it was not accepted before the capture or the connection ended."""
        return f", and PSN {self.half.rnr & 0xFFFFFF} was never accepted" if self.half.rnr >= self.half.una else ""

    def agreed(self, name: str) -> int | None:
        return self.raw.setup.agreed.get(name) if self.raw.setup is not None else None


def _refused(s: Story) -> str:
    reason, who = s.found.detail.get("reason"), s.ends[s.found.blamed or 0].address
    if reason == TIMEOUT_REASON and s.found.blamed == 1:
        return f"{who} accepted the connection that {s.asker} asked for, waited in vain for its RTU and gave up: reason 4, timeout"
    told = "the reason is cut off" if reason is None else f"reason {reason}"
    if isinstance(reason, int) and reason in REJ_REASONS:
        told += f", {REJ_REASONS[reason][0].lower()}{REJ_REASONS[reason][1:]}"
    status = s.found.detail.get("nvme_status")
    if isinstance(status, int):
        told += f"; NVMe status {status}, {NVME_STATUS.get(status, 'unknown')}"
    return f"{who} refused the connection that {s.asker} asked for: {told}"


def _duplicate(s: Story) -> str:
    return (
        f"{s.asker} asks with a queue pair that {s.other} still holds as connected: it started again without a DREQ, "
        f"and {s.other} refused with reason 10, stale connection"
    )


def _unanswered(s: Story) -> str:
    setup = s.raw.setup
    assert setup is not None
    if setup.mra is not None:
        return f"{s.other} received the REQ of {s.asker} and asked for time (MRA), but then neither accepted nor refused"
    if not setup.reqs:
        return f"{s.asker} gave up connecting to {s.other}, nobody answered its REQs (REJ, reason 4, timeout); they are not in the capture"
    lasted = setup.reqs[-1][1] - setup.reqs[0][1]
    within = f" in {duration(lasted)}" if lasted else ""
    ended = ", and gave up" if setup.rej is not None or (setup.agreed.get("max_cm_retries") or 99) < setup.tries else ""
    return f"{s.asker} sent its REQ {often(setup.tries)}{within} and got no answer from {s.other}{ended}"


def _tried(s: Story) -> str:
    facts, last = s.facts, s.facts["last_ns"] - s.facts["first_ns"]
    within = f" in {duration(last)}" if last > 0 and facts["tries"] > 1 else ""
    return f"{s.asks} sent PSN {facts['psn']} {often(facts['tries'])}{within}, it was never acknowledged, and {s.asks} gave up"


def _exhausted(s: Story) -> str:
    scope = s.found.detail.get("scope")
    if scope == "qp":
        return f"{_tried(s)}; {s.answers} sends afterwards (frame {s.facts['alive']}), so only this queue pair is dead"
    if scope == "host":
        return f"{_tried(s)}; {s.answers} sends nothing to anybody since then"
    return f"{_tried(s)}; the capture does not show what {s.answers} sends"


def _path_mtu(s: Story) -> str:
    size, largest = s.facts["size"], s.facts["largest"]
    when = "smaller ones still pass" if s.facts["passed"] else "a smaller one passed just before"
    return f"{_tried(s)}; it holds {size} bytes, nothing above {largest} bytes was acknowledged on this path, {when}: larger packets vanish"


def _mtu_mismatch(s: Story) -> str:
    size, mtu = s.facts["size"], s.facts["mtu"]
    return f"{s.asks} sent {size} bytes in a packet, the path MTU is {mtu}: {s.answers} refused it (NAK invalid request)"


def _invalid(s: Story) -> str:
    resources, reads = s.agreed("resources"), s.facts.get("reads", 0)
    if resources is not None and reads > resources:
        return (
            f"{s.asks} had {reads} READs or atomics under way, {s.answers} allows {resources} (REP, Responder Resources): "
            "it refused the next one (NAK invalid request)"
        )
    return f"{s.answers} refused a request of {s.asks} as invalid (NAK invalid request)"


def _access(s: Story) -> str:
    return f"{s.answers} refused a request of {s.asks}: its memory may not be accessed so (NAK remote access error)"


def _operational(s: Story) -> str:
    return f"{s.answers} could not carry out a request of {s.asks} (NAK remote operational error)"


def _rnr_exhausted(s: Story) -> str:
    limit = rnr_limit(s.raw, s.half)
    allowed = f", whose RNR retry count is {limit}," if limit is not None else ""
    return f"{s.answers} had no receive buffer for PSN {s.half.rnr & 0xFFFFFF} {often(s.half.rnr_count)}, and {s.asks}{allowed} gave up"


def _rnr_ignored(s: Story) -> str:
    asked = RNR_TIMER_US[s.half.rnr_code] * 1000
    times = counted(s.half.hurried, "time")
    return f"{s.asks} sent again long before the RNR timer of {s.answers} ({duration(asked)}) had run out, {times}"


def _reused(s: Story) -> str:
    taken = f"{s.answers} takes it for a repetition, acknowledges it and drops it"
    taken = taken if s.half.answers else "a responder drops it as a repetition"
    return f"{s.asks} used {counted(s.half.reused, 'PSN')} for another message than before; {taken}: its data is lost"


def _wrong_read(s: Story) -> str:
    return f"{s.answers} answered a READ of {s.facts['wanted']} bytes with {s.facts['size']} bytes"


def _late_read(s: Story) -> str:
    return f"{s.answers} began its answer to a READ of {s.facts['wanted']} bytes with a later part"


HOW = {"constant": "as a constant", "swapped": "with its bytes reversed", "vlan": "over the VLAN tag, too", "other": "wrongly"}


def _icrc(s: Story) -> str:
    host, facts = s.ends[s.found.blamed or 0].address, s.facts
    how = HOW.get(str(s.found.detail.get("how")), "wrongly")
    which = "all" if facts["wrong"] == facts["checked"] else f"{facts['wrong']:,} of"
    taken = "its peer takes them although it must not" if s.half.answers else "whether its peer takes them is not captured"
    so = "its packets are dropped" if s.found.verdict == "failed" else taken
    return f"{host} writes the ICRC {how}, in {which} {facts['checked']:,} packets that can be checked: {so}"


def _versions(s: Story) -> str:
    return f"{s.answers} answers in the other version of RoCE than {s.asks} speaks: {s.asks} hears nothing and repeats"


def _partition(s: Story) -> str:
    used, agreed = s.facts["p_key"], s.facts["agreed"]
    return f"{s.asks} sends with P_Key 0x{used:04x}, agreed was 0x{agreed:04x}: {s.answers} drops its packets silently"


def _stuck(s: Story) -> str:
    half = s.half
    return (
        f"{s.answers} acknowledges PSN {half.last_ack & 0xFFFFFF} with MSN {half.last_msn} again and again ({often(half.same_acks + 1)}) "
        f"and never what {s.asks} sent after it"
    )


def _slow(what: str, part: str, count: str) -> Callable[[Story], str]:
    def told(s: Story) -> str:
        assert s.times is not None
        spent = getattr(s.times, part)
        number = int(getattr(s.half, count))
        return f"{what.format(s=s, n=often(number))}; that took {duration(spent)}, {share(spent, s.times.busy)} of the time it was not idle"

    return told


def _congestion(s: Story) -> str:
    cnps = sum(lane.cnps for lane in s.raw.lanes if lane is not None)
    marks = f", {counted(s.half.marks, 'packet')} of {s.asks} came with a mark" if s.half.marks else ""
    return f"{s.answers} told {s.asks} of congestion {often(cnps)} (CNP){marks}: {s.asks} sends more slowly"


def _application(s: Story) -> str:
    assert s.times is not None
    return (
        f"{s.asks} had nothing to send {often(s.half.pauses)} for 5 ms or more: {share(s.times.idle_by_application, s.times.span)} "
        "of its time, nobody's fault"
    )


def _healthy(s: Story) -> str:
    half = s.raw.main
    if half is None or not half.since:
        return "it was set up, and no data was captured"
    trouble = []
    for number, name in ((half.losses, "loss"), (half.timeouts, "time-out"), (half.rnrs, "RNR NAK")):
        if number:
            trouble.append(f"{number} {name}" + ("" if number == 1 else "es" if name.endswith("s") else "s"))
    return f"nothing is wrong; recovered from {', '.join(trouble)}" if trouble else "nothing is wrong"


def _unknown(s: Story) -> str:
    half = s.raw.main
    if half is None or not half.since:
        setup = s.raw.setup
        if setup is not None and setup.tries and setup.rep is None:
            return f"{s.asker} sent its REQ {often(setup.tries)}, and nothing that answers it was captured"
        return "only part of its set-up was captured"
    if not half.answers:
        again = f", {counted(half.again, 'packet')} of them again" if half.again else ""
        return f"only what {s.asks} sends was captured{again}; what {s.answers} answered is not known"
    if half.forgotten:
        return "more packets were under way or missing than are remembered"
    if half.unread:
        return f"{counted(half.unread, 'answer')} of {s.answers} are cut off before they say whether they are ACKs or NAKs"
    return f"only what {s.answers} answers was captured"


SAID: dict[str, Callable[[Story], str]] = {
    "refused": _refused, "duplicate-qp-after-restart": _duplicate, "connect-unanswered": _unanswered, "retries-exhausted": _exhausted,
    "path-mtu": _path_mtu, "mtu-mismatch": _mtu_mismatch, "remote-invalid-request": _invalid, "remote-access-error": _access,
    "remote-operational-error": _operational, "rnr-exhausted": _rnr_exhausted, "rnr-timer-ignored": _rnr_ignored, "psn-reused": _reused,
    "read-length-wrong": _wrong_read, "read-order-wrong": _late_read,
    "icrc-wrong-at-sender": _icrc, "roce-version-mix": _versions, "wrong-partition": _partition,
    "ack-stuck": _stuck,
    "slow-by-loss": _slow("packets of {s.asks} were lost and sent again {n}", "loss_recovery", "losses"),
    "slow-by-reordering": _slow(
        "nothing was lost, but packets of {s.asks} overtook each other {n}, and {s.answers} had all sent again", "loss_recovery", "losses"
    ),
    "slow-by-timeout": _slow("{s.asks} waited {n} until its timer ran out before it sent again", "timeout", "timeouts"),
    "slow-by-rnr": _slow("{s.answers} had no receive buffer {n} (RNR NAK){s.never}", "rnr_wait", "rnrs"),
    "slow-by-congestion": _congestion, "slow-by-application": _application, "healthy": _healthy, "cannot-tell": _unknown,
}  # fmt: skip
"""The sentence of each cause."""

def explain(found: Found, raw: Raw, ends: tuple[End, End], times: Times | None) -> str:
    """The sentence about a connection."""
    return SAID[found.cause](Story(found, raw, ends, times))


SHARED = {
    "retries-exhausted": "{n} connections to {host} were given up: it does not answer them",
    "icrc-wrong-at-sender": "{host} writes a wrong ICRC into its packets, on {n} connections",
    "path-mtu": "large packets from or to {host} vanish on {n} connections, smaller ones pass: the path's MTU",
    "slow-by-loss": "{n} connections of {host} lose packets",
    "slow-by-reordering": "packets of {n} connections of {host} overtake each other",
    "slow-by-rnr": "{n} connections of {host} wait for receive buffers",
    "slow-by-congestion": "{n} connections of {host} are slowed down by congestion",
    "refused": "{host} refused {n} connections",
    "connect-unanswered": "{host} did not answer {n} requests for a connection",
}


COST = {"slow-by-loss": "loss_recovery", "slow-by-reordering": "loss_recovery", "slow-by-rnr": "rnr_wait", "slow-by-timeout": "timeout"}
"""The part of the time that a cause takes."""


def shared_words(cause: str, host: str, some: list[Connection], of: int) -> str:
    """The sentence about a cause that several connections share; what it cost, if it took time."""
    told = SHARED.get(cause, "{n} connections of {host} have the same cause: " + cause).format(host=host, n=len(some))
    part = COST.get(cause)
    if part is not None:
        timed = [one.times for one in some if one.times is not None]
        spent, busy = sum(getattr(one, part) for one in timed), sum(one.busy for one in timed)
        told += f": {share(spent, busy)} of their time, {duration(spent)}"
    return told + f" (of {of} that it has here)"


__all__ = ["duration", "explain", "often", "share", "shared_words"]
