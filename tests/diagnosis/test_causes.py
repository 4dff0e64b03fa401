"""Each cause has a capture that shows it, and a near miss that blames nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import (
    ACK,
    MS,
    READ,
    RESPONSE_ONLY,
    SEC,
    SEND_ONLY,
    TIMEOUT,
    US,
    WRITE_FIRST,
    WRITE_LAST,
    WRITE_MIDDLE,
    WRITE_ONLY,
    A,
    B,
    C,
    Lab,
    joined,
)  # fmt: skip

Case = Callable[[Lab], None]


def alive(time: int) -> Lab:
    """B answers C: it lives."""
    other = Lab(a=C, qa=0x333, qb=0x444)
    other.good(time, 9000, 3)
    return other


def repeated(lab: Lab, start: int, psn: int, number: int = 8, size: int = 64, **more: object) -> int:
    """A request that nobody answers, and its repetitions."""
    for i in range(number):
        lab.ask(start + i * TIMEOUT, psn, size, **more)
    return start + number * TIMEOUT


def refused(lab: Lab) -> None:
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, reason=12)


def unanswered(lab: Lab) -> None:
    lab.req(0, 4)
    lab.frames += alive(2 * SEC).frames
    lab.put(2 * SEC, C, A, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))


def exhausted(lab: Lab) -> None:
    lab.good(0, 100, 5)
    repeated(lab, MS, 105)
    lab.frames += alive(SEC).frames


def path_mtu(lab: Lab) -> None:
    lab.good(0, 100, 5)
    repeated(lab, MS, 105, size=4096)
    lab.frames += alive(SEC).frames


def mtu_mismatch(lab: Lab) -> None:
    time = lab.good(lab.up(), 100, 3)
    lab.ask(time, 103, 4096, WRITE_ONLY)
    lab.answer(time + 5 * US, 103, 0x61)


def nak(code: int) -> Case:
    def make(lab: Lab) -> None:
        time = lab.good(0, 100, 3)
        lab.ask(time, 103)
        lab.answer(time + 5 * US, 103, 0x60 | code)
        lab.frames += alive(SEC).frames

    return make


def rnr_exhausted(lab: Lab) -> None:
    time = lab.good(lab.up(rnr_retries=1), 100, 3)
    for i in range(2):
        lab.ask(time + i * MS, 103)
        lab.answer(time + i * MS + 5 * US, 103, 0x20 | 12)
    lab.down(time + 10 * MS)


def rnr_ignored(lab: Lab) -> None:
    time = 0
    for psn in range(100, 104):
        lab.ask(time, psn)
        lab.answer(time + 5 * US, psn, 0x20 | 20)  # 10 ms
        lab.ask(time + MS, psn)
        lab.answer(time + MS + 5 * US, psn)
        time += 2 * MS


def psn_reused(lab: Lab) -> None:
    time = lab.good(0, 100, 5)
    lab.ask(time, 104, 64, fill=0x42)
    lab.answer(time + 5 * US, 104)


def read_short(lab: Lab) -> None:
    lab.ask(0, 100, 0, READ, dma=1000)
    lab.answer(5 * US, 100, opcode=RESPONSE_ONLY, size=500)


def read_disordered(lab: Lab, codes: tuple[int, ...] = (0x0E, 0x0D, 0x0F)) -> None:
    lab.good(0, 90, 10)
    lab.ask(TIMEOUT, 100, 0, READ, dma=1000)
    for i, code in enumerate(codes):
        lab.answer(TIMEOUT + (5 + i) * US, 100 + i, opcode=code, size=(256, 256, 488)[i])


def versions(lab: Lab) -> None:
    from ibdissect.wire.encapsulation import Ethernet
    from ibdissect.wire.headers import AETH, BTH, GRH
    from tests.craft import build

    repeated(lab, 0, 100, 5)
    for i in range(5):
        bth = build(BTH, opcode=0x11, m=1, p_key=0xFFFF, destqp=lab.qa, psn=100)
        gids = {"sgid": bytes(10) + b"\xff\xff" + B, "dgid": bytes(10) + b"\xff\xff" + A}
        grh = build(GRH, ipver=6, pay_len=len(bth) + 8, nxt_hdr=0x1B, hop_lmt=64, **gids)
        eth = build(Ethernet, type=0x8915)
        lab.frames.append((i * TIMEOUT + 5 * US, eth + grh + bth + build(AETH, syndrome=31, msn=1) + bytes(4)))


def partition(lab: Lab) -> None:
    time = lab.up(partition_key=0x8001)
    repeated(lab, time, 100, bth={"p_key": 0x8002})
    lab.down(time + 10 * TIMEOUT)


def stuck(lab: Lab) -> None:
    time = lab.good(0, 100, 5)
    for i in range(8):
        lab.ask(time + i * TIMEOUT, 105)
        lab.answer(time + i * TIMEOUT + 5 * US, 104, msn=104)
    lab.frames += alive(SEC).frames


def restarted(lab: Lab) -> None:
    lab.good(lab.up(), 100, 5)
    lab.req(SEC, local_communication_id=0xC0)
    lab.short(SEC + MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xC0, reason=10)


def lossy(lab: Lab, number: int = 6, late: bool = False, seen: bool = True) -> None:
    """Packets of messages of four that are lost (behind the capture, or before it), or come late."""
    time = 0
    for m in range(number):
        psn = 100 + 4 * m
        ops = (WRITE_FIRST, WRITE_MIDDLE, WRITE_MIDDLE, WRITE_LAST)
        order = [0, 2, 1, 3] if late else [0, 1, 2, 3] if seen else [0, 2, 3]
        for i, k in enumerate(order):
            lab.ask(time + i * US, psn + k, 1024, ops[k], dma=4096)
        lab.answer(time + 5 * US, psn + 1, 0x60)
        for i, k in enumerate((1, 2, 3)):
            lab.ask(time + 205 * US + i * US, psn + k, 1024, ops[k], dma=4096)
        lab.answer(time + 212 * US, psn + 3)
        time += 300 * US


def slow_timeout(lab: Lab) -> None:
    time = 0
    for psn in range(100, 104):
        lab.ask(time, psn)
        lab.ask(time + TIMEOUT, psn)
        lab.answer(time + TIMEOUT + 5 * US, psn)
        time += TIMEOUT + 100 * US


def slow_rnr(lab: Lab) -> None:
    time = 0
    for psn in range(100, 104):
        lab.ask(time, psn)
        lab.answer(time + 5 * US, psn, 0x20 | 12)  # 0.64 ms
        lab.ask(time + 700 * US, psn)
        lab.answer(time + 705 * US, psn)
        time += 800 * US


def congested(lab: Lab) -> None:
    lab.good(0, 100, 10)
    for i in range(6):
        lab.cnp(50 * US + i * 100 * US)


def idle(lab: Lab) -> None:
    lab.good(0, 100, 5, 20 * MS)


def wrong_icrc(lab: Lab) -> None:
    lab.good(0, 100, 10)
    lab.frames = [(t, f[:-4] + b"\xde\xad\xbe\xef") if f[26:30] == A else (t, f) for t, f in lab.frames]
    lab.good(SEC, 109)


CAUSES: dict[str, tuple[str, str, Case]] = {
    "refused": ("refused", "failed", refused), "unanswered": ("connect-unanswered", "failed", unanswered),
    "exhausted": ("retries-exhausted", "failed", exhausted), "path MTU": ("path-mtu", "failed", path_mtu),
    "MTU mismatch": ("mtu-mismatch", "failed", mtu_mismatch), "invalid": ("remote-invalid-request", "failed", nak(1)),
    "access": ("remote-access-error", "failed", nak(2)), "operational": ("remote-operational-error", "failed", nak(3)),
    "RNR exhausted": ("rnr-exhausted", "failed", rnr_exhausted), "RNR timer": ("rnr-timer-ignored", "odd", rnr_ignored),
    "PSN": ("psn-reused", "odd", psn_reused), "READ": ("read-length-wrong", "failed", read_short),
    "parts of a READ": ("read-order-wrong", "failed", read_disordered),
    "a READ again": ("read-order-wrong", "failed", lambda lab: read_disordered(lab, (0x0D, 0x0D, 0x0F))),
    "versions": ("roce-version-mix", "failed", versions), "partition": ("wrong-partition", "failed", partition),
    "stuck": ("ack-stuck", "failed", stuck), "loss": ("slow-by-loss", "slow", lossy),
    "loss before the capture": ("slow-by-loss", "slow", lambda lab: lossy(lab, seen=False)),
    "order": ("slow-by-reordering", "slow", lambda lab: lossy(lab, late=True)), "time-outs": ("slow-by-timeout", "slow", slow_timeout),
    "RNR": ("slow-by-rnr", "slow", slow_rnr), "congestion": ("slow-by-congestion", "slow", congested),
    "application": ("slow-by-application", "slow", idle), "ICRC": ("icrc-wrong-at-sender", "odd", wrong_icrc),
}  # fmt: skip


@every("name", CAUSES)
def test_each_cause_is_found(name: str) -> None:
    cause, verdict, make = CAUSES[name]
    lab = Lab()
    make(lab)
    found = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert [one.cause for one in found] == [cause] and found[0].verdict == verdict
    first, decisive = found[0].evidence
    assert first is not None and decisive is not None and 1 <= found[0].first_frame <= first <= found[0].last_frame
    assert found[0].why and (found[0].advice or cause == "slow-by-application")


def test_a_queue_pair_that_is_still_connected() -> None:
    lab = Lab()
    restarted(lab)
    assert [one.cause for one in lab.diagnosis().connections] == ["healthy", "duplicate-qp-after-restart"]
    lab.down(SEC // 2)
    assert [one.cause for one in lab.diagnosis().connections] == ["healthy", "refused"]


# -- near misses


def one_nak(lab: Lab) -> None:
    lossy(lab, 1)
    lab.good(MS, 104, 20)


def third_try(lab: Lab) -> None:
    lab.req(0, 3)
    lab.rep(300 * MS)
    lab.short(301 * MS, cm.RTU_ID, cm.RTU)
    lab.good(302 * MS, 100, 5)


def wrapping(lab: Lab) -> None:
    lab.good(0, (1 << 24) - 3, 6)


def rnr_recovers(lab: Lab) -> None:
    lab.ask(0, 100)
    lab.answer(5 * US, 100, 0x20 | 12)
    lab.ask(700 * US, 100)
    lab.answer(705 * US, 100)
    lab.good(MS, 101, 20)


def long_idle(lab: Lab) -> None:
    lab.good(lab.good(0, 100, 5) + 2 * SEC, 105, 5)


def copied(lab: Lab) -> None:
    """A mirror's copies, and those behind a router, are no repetitions."""
    lab.good(0, 100, 10)
    lab.frames += [(t + 700, f) for t, f in lab.frames]


def routed(lab: Lab) -> None:
    lab.good(0, 100, 10)
    lab.frames += [(t + 20 * US, f[:22] + bytes([63]) + f[23:]) for t, f in lab.frames]


def once_timed_out(lab: Lab) -> None:
    lab.ask(0, 100)
    lab.ask(TIMEOUT, 100)
    lab.answer(TIMEOUT + 5 * US, 100)
    lab.good(2 * TIMEOUT, 101, 20)


def delayed(lab: Lab) -> None:
    for psn in range(100, 120):
        lab.ask((psn - 100) * 300 * US, psn)
        lab.answer((psn - 100) * 300 * US + 250 * US, psn)


def repeated_read(lab: Lab) -> None:
    """A READ that is asked again from where its response was lost is no other message."""
    lab.ask(0, 100, 0, READ, dma=2048)
    lab.answer(5 * US, 100, opcode=0x0D, size=1024)
    lab.ask(TIMEOUT, 101, 0, READ, dma=1024)
    lab.answer(TIMEOUT + 5 * US, 101, opcode=RESPONSE_ONLY, size=1024)
    lab.good(2 * TIMEOUT, 102, 5)


NEAR: dict[str, Case] = {
    one.__name__: one
    for one in (one_nak, third_try, wrapping, rnr_recovers, long_idle, copied, routed, once_timed_out, delayed, repeated_read)
}


@every("name", NEAR)
def test_nobody_healthy_is_blamed(name: str) -> None:
    lab = Lab()
    NEAR[name](lab)
    found = lab.only()
    assert (found.cause, found.verdict, found.severity) == ("healthy", "healthy", "none")
    assert found.counts.packets_sent_again == {"one_nak": 3, "rnr_recovers": 1, "once_timed_out": 1, "repeated_read": 1}.get(name, 0)


def test_what_one_direction_cannot_show_is_not_guessed() -> None:
    lab = Lab()
    lossy(lab)
    every = lab.frames
    lab.frames = [(t, f) for t, f in every if f[26:30] == A]
    assert lab.only().cause == "cannot-tell"
    lab.frames = [(t, f) for t, f in every if f[26:30] == B]
    assert lab.only().cause in ("cannot-tell", "slow-by-loss")


def test_silence_is_one_of_the_queue_pair_or_of_the_host() -> None:
    lab = Lab()
    lab.good(0, 100, 5)
    end = repeated(lab, MS, 105)
    live = joined(lab, alive(end + SEC))
    assert [one.detail for one in live.diagnosis().connections if one.cause == "retries-exhausted"] == [{"tries": 8, "scope": "qp"}]
    dead = joined(lab, alive(0))
    dead.put(end + SEC, A, C, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    assert [one.detail for one in dead.diagnosis().connections if one.cause == "retries-exhausted"] == [{"tries": 8, "scope": "host"}]


@pytest.mark.parametrize(("lid", "severity"), [(0, "error"), (18, "info")])
def test_a_connection_with_an_alternate_path_may_go_on_there(lid: int, severity: str) -> None:
    lab = Lab()
    repeated(lab, lab.good(lab.up(alternate_remote_port_lid=lid), 100, 5) + MS, 105)
    found = joined(lab, alive(20 * SEC)).diagnosis().connections
    assert [one.severity for one in found if one.cause == "retries-exhausted"] == [severity]


def large(lab: Lab, number: int, start: int = MS) -> int:
    """Small messages pass, then large ones vanish."""
    lab.good(0, 100, 5)
    return repeated(lab, start, 105, number, 4096)


def causes(lab: Lab) -> list[str]:
    return [one.cause for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]


@pytest.mark.slow
def test_a_path_mtu_needs_smaller_packets_that_pass_meanwhile() -> None:
    beside, after, before, silent = (Lab(qa=0x331, qb=0x441) for _ in range(4))
    for lab, time in ((beside, TIMEOUT), (after, SEC), (before, -SEC)):
        lab.good(2 * SEC + time, 700, 3)
    for other, cause in ((beside, "path-mtu"), (after, "path-mtu"), (before, "retries-exhausted"), (silent, "retries-exhausted")):
        lab = Lab()
        lab.good(SEC, 100, 5)
        repeated(lab, 2 * SEC, 105, 3, 4096)
        assert causes(joined(lab, other, alive(4 * SEC)))[0] == cause


@pytest.mark.parametrize(("number", "severity"), [(3, "info"), (4, "error")])
def test_a_few_large_packets_may_have_been_lost(number: int, severity: str) -> None:
    lab, other = Lab(), Lab(qa=0x331, qb=0x441)
    lab.good(SEC, 100, 5)
    repeated(lab, 2 * SEC, 105, number, 4096)
    other.good(2 * SEC + TIMEOUT, 700, 3)
    found = joined(lab, other, alive(4 * SEC)).diagnosis().connections
    assert [one.severity for one in found if one.cause == "path-mtu"] == [severity]


@every(
    ("lost", "passes", "cause"),
    [
        (None, 1700, "path-mtu"), (None, 1900, "retries-exhausted"), (1500, 1700, "retries-exhausted"), (-900, 1700, "path-mtu"),
        (1500, 1000, "path-mtu"),
    ],
)  # fmt: skip
def test_large_packets_vanish_where_small_ones_pass_at_that_time(lost: int | None, passes: int, cause: str) -> None:
    """Four tries take 1.8 s. So soon after them small packets pass, and none is lost meanwhile; else the path was out."""
    lab, other, third = Lab(), Lab(qa=0x331, qb=0x441), Lab(qa=0x332, qb=0x442)
    lab.good(SEC, 100, 5)
    for i in range(4):
        lab.ask(4 * SEC + i * 600 * MS, 105, 4096)
    other.good(4 * SEC + 1800 * MS + (passes if passes > 1000 else passes - 1500) * MS, 700, 3)
    if lost is not None:
        repeated(third, 4 * SEC + lost * MS, 900, 8)
    assert causes(joined(lab, other, third, alive(30 * SEC)))[0] == cause


def test_copies_of_two_capture_points_are_no_tries() -> None:
    """Whose clocks differ by microseconds: each packet is there twice, the last one of each queue pair was never acknowledged."""
    for between, severity in ((399_999, "info"), (400_000, "error")):
        labs = [Lab(qa=0x500 + n, qb=0x600 + n) for n in range(2)]
        for n, lab in enumerate(labs):
            lab.good(n * MS, 100, 3)
            for at in (0, between):
                lab.ask(SEC + n * MS + at, 103, 4096)
        beside = Lab()
        beside.good(SEC + 5 * MS, 100, 3)
        found = joined(*labs, beside, alive(60 * SEC)).diagnosis().connections
        assert {one.severity for one in found if one.cause == "path-mtu"} == {severity}


def test_few_tries_of_several_queue_pairs_are_no_loss() -> None:
    labs = [Lab(qa=0x500 + n, qb=0x600 + n) for n in range(2)]
    for n, lab in enumerate(labs):
        lab.good(n * MS, 100, 3)
        repeated(lab, SEC + n * MS, 103, 3, 4096)
    beside = Lab()
    beside.good(SEC + TIMEOUT, 100, 3)
    found = joined(*labs, beside, alive(10 * SEC)).diagnosis().connections
    assert [one.severity for one in found if one.cause == "path-mtu"] == ["error", "error"]


@pytest.mark.parametrize(("number", "pause", "cause"), [(8, MS, "path-mtu"), (8, SEC, "retries-exhausted"), (7, MS, "retries-exhausted")])
def test_all_tries_right_after_a_smaller_one_point_at_the_path_mtu(number: int, pause: int, cause: str) -> None:
    lab = Lab()
    large(lab, number, pause)
    assert causes(joined(lab, alive(9 * SEC))) == [cause]


def test_what_a_network_doubles_was_not_sent_again() -> None:
    """A copy keeps the IPv4 identification; a repetition by its sender has another one, as one with zero may be."""
    lab = Lab()
    lab.good(lab.up(), 100, 20, MS)
    every = lab.frames
    lab.frames = [(t + more, f) for t, f in every for more in (0, 900 * US)]
    found = lab.only()
    assert (found.cause, found.counts.packets_sent_again, found.times and found.times.loss_recovery) == ("healthy", 0, 0)
    lab.frames = [(t, f[:18] + bytes(2) + f[20:]) for t, f in lab.frames]
    assert lab.only().counts.packets_sent_again == 20


@pytest.mark.parametrize(("more", "cause"), [(0, "healthy"), (1, "retries-exhausted")])
def test_a_request_is_given_up_after_two_times_its_longest_wait(more: int, cause: str) -> None:
    """Without a DREQ, and without a known retry count."""
    lab = Lab()
    start = lab.good(0, 100, 5) + MS
    end = repeated(lab, start, 105, 3) - TIMEOUT
    lab.put(end + 2 * TIMEOUT + more, C, A, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert found.cause == cause


def lost_again(lab: Lab, start: int, size: int, quiet: int) -> None:
    """A message whose first packet is lost five times, asked for by a NAK each time but the last; the capture ends `quiet` later."""
    for i in range(5):
        time = start + i * 100 * US
        lab.ask(time, 105, size, WRITE_FIRST, dma=2 * size)
        lab.ask(time + US, 106, size, WRITE_LAST)
        if i < 4:
            lab.answer(time + 50 * US, 105, 0x60, msn=105)
    lab.put(start + 401 * US + quiet, B, C, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))


@every(("size", "cause"), [(64, "retries-exhausted"), (1024, "path-mtu")])
@every(("timer", "quiet"), [(None, 10 * SEC), (14, (4 * 4096 << 14))])
def test_repetitions_that_naks_asked_for_tell_nothing_of_a_timer(size: int, cause: str, timer: int | None, quiet: int) -> None:
    """The requester waits for its timer next, which nobody has seen: the capture may end before."""

    def found(quiet: int) -> str:
        lab = Lab()
        start = lab.up(primary_local_ack_timeout=timer, retry_count=7) if timer else 0
        lost_again(lab, lab.good(start, 100, 5) + MS, size, quiet)
        return next(one.cause for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1")

    assert (found(quiet), found(quiet + US)) == ("slow-by-loss", cause)


def test_a_wrong_partition_is_the_senders() -> None:
    lab = Lab()
    partition(lab)
    (found,) = [one for one in lab.diagnosis().connections if one.cause == "wrong-partition"]
    assert found.blamed == found.requester


def test_a_partition_in_which_the_other_side_answered_is_not_wrong() -> None:
    lab = Lab()
    time = lab.good(lab.up(partition_key=0x8001), 100, 1, bth={"p_key": 0xFFFF})
    repeated(lab, time, 101, bth={"p_key": 0xFFFF})
    assert causes(joined(lab, alive(10 * SEC)))[0] == "retries-exhausted"


def test_a_queue_pair_is_used_again() -> None:
    """After a DREQ, its next connection begins with its own PSNs and trouble."""
    lab, end = Lab(), 10 * MS
    time = lab.good(lab.up(), 100, 5)
    lab.down(time)
    lab.req(end, local_communication_id=0xA1)
    values = {"local_communication_id": 0xB1, "remote_communication_id": 0xA1}
    lab.rep(end + 100 * US, 0x900000, rnr_retry_count=6, **values)
    lab.short(end + 200 * US, cm.RTU_ID, cm.RTU, local_communication_id=0xA1, remote_communication_id=0xB1)
    repeated(lab, end + 300 * US, 0x900000)
    first, second = joined(lab, alive(SEC)).diagnosis().connections[:2]
    assert (first.cause, first.counts.messages, first.end_state) == ("healthy", 5, "closed")
    assert (second.cause, second.counts.messages, second.counts.packets_sent_again) == ("retries-exhausted", 1, 7)


def test_an_unreliable_connection_loses_without_trouble() -> None:
    """UC has no answers: nothing is outstanding, and what is lost is not sent again."""
    lab = Lab()
    for psn in (100, 101, 103, 104):
        lab.ask(psn * MS, psn, opcode=0x20 | SEND_ONLY, bth={"a": 0})
    found = lab.only()
    assert (found.transport, found.cause, found.counts.messages, found.counts.packets_sent_again) == ("UC", "cannot-tell", 4, 0)
    assert found.times is not None and found.times.timeout == found.times.ack_wait == 0


def test_an_extended_connection_is_judged_as_a_reliable_one() -> None:
    """XRC: the requests carry an XRCETH."""
    lab = Lab()
    for psn in range(100, 105):
        lab.ask((psn - 100) * MS, psn, opcode=0xA0 | SEND_ONLY, headers=bytes(4))
        lab.answer((psn - 100) * MS + 5 * US, psn, opcode=0xA0 | ACK)
    for i in range(8):
        lab.ask(6 * MS + i * TIMEOUT, 105, opcode=0xA0 | SEND_ONLY, headers=bytes(4))
    (found,) = [one for one in joined(lab, alive(SEC)).diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert (found.transport, found.cause, found.counts.payload_bytes) == ("XRC", "retries-exhausted", 6 * 64)


def test_datagrams_are_no_connections() -> None:
    lab = Lab()
    for psn in range(100, 110):
        lab.put(psn * MS, A, B, 0x64, 0x222, psn, ext={"DETH": {"q_key": 1, "srcqp": 0x111}}, payload=bytes(64))
    assert lab.diagnosis().connections == []


def test_an_invalid_request_is_the_requesters() -> None:
    lab = Lab()
    nak(1)(lab)
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert (found.blamed, found.requester) == (0, 0)


def test_limited_and_full_members_are_of_one_partition() -> None:
    lab = Lab()
    time = lab.up(partition_key=0x8001)
    repeated(lab, time, 100, bth={"p_key": 0x0001})
    lab.down(time + 10 * TIMEOUT)
    assert causes(joined(lab, alive(SEC))) == ["retries-exhausted"]


@pytest.mark.parametrize(("naks", "used_up"), [(2, False), (3, True)])
def test_a_retry_count_is_used_up_by_one_more_rnr_nak(naks: int, used_up: bool) -> None:
    lab = Lab()
    time = lab.good(lab.up(rnr_retries=2), 100, 3)
    for i in range(naks):
        lab.ask(time + i * MS, 103)
        lab.answer(time + i * MS + 5 * US, 103, 0x20 | 12)
    found = lab.only()
    assert (found.cause == "rnr-exhausted") is used_up


@every(
    ("sizes", "cause"),
    [
        ((4096, 4096), "path-mtu"), ((4096,), "retries-exhausted"), ((4096, 64), "retries-exhausted"),
        ((4096, 4096, 64), "retries-exhausted"),
    ],
)  # fmt: skip
def test_queue_pairs_that_were_dead_when_the_capture_began(sizes: tuple[int, ...], cause: str) -> None:
    """One may be dead for any reason; several whose packets are all larger than what passes there point at the path."""
    labs = [Lab(qa=0x500 + n, qb=0x600 + n) for n in range(len(sizes))]
    for n, (lab, size) in enumerate(zip(labs, sizes, strict=True)):
        repeated(lab, n * US, 9000 * (n + 1), 4, size)
    passing = Lab()
    passing.good(2 * TIMEOUT, 100, 20, MS)
    passing.good(4 * SEC, 120, 3)
    found = joined(*labs, passing).diagnosis().connections
    assert {one.cause for one in found if one.ends[1].qpn != passing.qb} == {cause}


@every("change", ["", "answered", "acknowledged", "alive", "at once"])
def test_the_last_try_of_a_connection_that_was_given_up(change: str) -> None:
    """The capture begins after the other tries: what is left are one try, silence of that host, and a DREQ that it does not answer."""
    lab = Lab()
    lab.ask(0, 100)
    if change == "acknowledged":
        lab.answer(5 * US, 100)
    lab.down(100 * US if change == "at once" else TIMEOUT, answered=change == "answered")
    lab.put(SEC, C, A, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    every = joined(lab, *([alive(SEC)] if change == "alive" else [])).diagnosis().connections
    found = next(one for one in every if one.ends[0].address == "10.0.0.1")
    assert found.cause == {"": "retries-exhausted", "acknowledged": "healthy"}.get(change, "cannot-tell")
    if not change:
        assert found.detail == {"tries": 1, "scope": "host"}
        assert "at least once (the capture may begin amid its tries), and it was never" in found.why


def test_the_proof_of_a_silence_is_a_repetition_of_the_same_packet() -> None:
    """Not of one that was sent again after it."""
    lab = Lab()
    lab.good(0, 100, 5)
    for i in range(8):
        lab.ask(MS + i * TIMEOUT, 105)
        lab.ask(MS + i * TIMEOUT + 10 * US, 106)
    lab.frames += alive(SEC).frames
    found = next(one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1")
    assert found.cause == "retries-exhausted" and found.evidence == (11, 25) and "PSN 105 eight times in 140 ms" in found.why


@every(("begin", "heard", "said"), [
    (0, False, "at least eight times"), (TIMEOUT, False, "at least eight times"), (TIMEOUT + 1, False, "PSN 105 eight times"),
    (0, True, "PSN 105 eight times"),
])  # fmt: skip
def test_a_capture_may_begin_amid_the_tries(begin: int, heard: bool, said: str) -> None:
    """If the first that it shows lies within one time-out of its begin, and nothing was acknowledged before."""
    lab, other = Lab(), Lab(b=C, qa=0x300, qb=0x400)
    other.good(0, 500, 2)
    if heard:
        lab.good(100 * US, 100, 5)
    repeated(lab, MS if heard else begin, 105)
    found = joined(lab, other, alive(SEC)).diagnosis().connections
    (one,) = [one for one in found if one.cause == "retries-exhausted"]
    assert said in one.why


def test_a_timer_that_was_ignored_is_told_from_the_first_counted_time_to_the_last() -> None:
    """One that was kept before is not counted."""
    lab = Lab()
    lab.ask(0, 90)
    lab.answer(5 * US, 90, 0x20 | 20)  # 10 ms
    lab.ask(20 * MS, 90)
    lab.answer(20 * MS + 5 * US, 90)
    rnr_ignored(lab)
    lab.frames[4:] = [(time + 30 * MS, frame) for time, frame in lab.frames[4:]]
    found = lab.only()
    assert found.cause == "rnr-timer-ignored" and found.evidence == (6, 19) and "4 times" in found.why
