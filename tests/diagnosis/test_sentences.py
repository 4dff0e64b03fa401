"""The sentences say who, since when and what proves it."""

from __future__ import annotations

import pytest

from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import MS, READ, RESPONSE_ONLY, SEC, SEND_LAST, US, WRITE_FIRST, C, Lab, joined, told
from tests.diagnosis.test_causes import CAUSES, partition, psn_reused, repeated

WORDS = {
    "exhausted": "10.0.0.1 sent PSN 105 eight times in 140 ms, and it was never acknowledged; 10.0.0.1 sent nothing more on this "
    "connection in the 859 ms that follow; 10.0.0.2 still sends on other connections (frame 20, 859 ms later), so that host is up: "
    "QP 0x000222 there does not answer, or what 10.0.0.1 sends to it is lost",
    "path MTU": "that packet carries 4,096 bytes, the largest that 10.0.0.2 acknowledged of 10.0.0.1 on any connection has 64, and "
    "a smaller one passed just before: packets above a size vanish on the way, as where a port has an MTU of 256 to 2048",
    "RNR exhausted": "10.0.0.2, the receiver, had no receive buffer for PSN 103 twice (RNR NAK); the RNR retry count of 10.0.0.1 is 1; "
    "10.0.0.1 then ended the connection (DREQ, frame 14)",
    "parts of a READ": "10.0.0.2 began its answer to a READ of 1,000 bytes with a later part",
    "a READ again": "10.0.0.2 began its answer to a READ of 1,000 bytes again in the middle of it",
    "READ": "10.0.0.2 answered a READ of 1,000 bytes with 500 bytes, too few",
    "ICRC": "10.0.0.1 writes the ICRC as a constant, in 10 of 11 whole packets of that host in this capture: 10.0.0.2 takes them",
    "partition": "10.0.0.1 sends with P_Key 0x8002, the REQ says 0x8001: 10.0.0.2 answers none of these packets",
    "MTU mismatch": "10.0.0.1 sent a packet of 4,096 bytes, more than the path MTU of 1,024 in the REQ: 10.0.0.2 refused it "
    "(NAK invalid request)",
}


def test_a_healthy_connection_says_what_its_recovery_cost() -> None:
    """Two time-outs are too few to be slow, but take most of the time; where they took little, they are not worth a word."""
    lab = Lab()
    time = lab.good(lab.up(), 100, 3)
    for psn in (103, 104):
        lab.ask(time, psn)
        time = lab.good(time + 20 * MS, psn)
    found = lab.only()
    assert found.cause == "healthy"
    assert found.why == "it works, but recovered from 2 time-outs, which took 40 ms of its 40.4 ms (99 %)"
    assert "it works, but recovered" in told(lab.diagnosis(), 5)
    lab.good(time, 105, opcode=WRITE_FIRST)
    lab.good(time + 300 * MS, 106, opcode=SEND_LAST)
    assert lab.only().why == "it works; recovered from 2 time-outs, which took 40 ms of its 341 ms (12 %)"
    assert "recovered" not in told(lab.diagnosis(), 5)


@pytest.mark.parametrize(("pause", "said"), [(99, True), (100, False)])
def test_an_application_that_pauses_hides_no_trouble(pause: int, said: bool) -> None:
    """A time-out of 6 ms is a hundredth of the time, or less."""
    lab = Lab()
    time = lab.good(0, 100)
    lab.ask(time, 101)
    lab.ask(time + 6 * MS, 101)
    for psn in range(102, 108):
        lab.answer(time + 6 * MS + 5 * US, psn - 1)
        time += pause * MS
        lab.ask(time + 6 * MS, psn)
    lab.answer(time + 6 * MS + 5 * US, 107)
    found, told = lab.only(), "nobody's fault; it also recovered from 1 time-out, which took 6 "
    assert found.cause == "slow-by-application" and (told in found.why) is said


def test_a_connection_without_data_says_so() -> None:
    lab = Lab()
    lab.up()
    found = lab.only()
    assert (found.cause, found.why) == ("healthy", "it was set up, and no data was captured")


@pytest.mark.parametrize(("tries", "certain"), [(3, False), (4, True)])
def test_few_tries_are_not_certain(tries: int, certain: bool) -> None:
    lab = Lab()
    repeated(lab, lab.good(lab.up(), 100, 5), 105, tries)
    lab.down(SEC)
    other = Lab(qa=0x700, qb=0x701)
    other.good(MS, 9000, 20, step=MS)
    (found,) = [one for one in joined(lab, other).diagnosis().connections if one.cause == "retries-exhausted"]
    assert ("it may have been loss" in found.why) is not certain and found.why.endswith(found.guess) and found.guess


@every(("answered", "nth"), [(0, "1st"), (1, "2nd"), (2, "3rd"), (3, "4th"), (10, "11th"), (11, "12th"), (12, "13th"), (20, "21st")])
def test_which_of_too_many_reads_was_refused(answered: int, nth: str) -> None:
    """The responder answers as many as it allows, and refuses the next one of those that came at once."""
    lab = Lab()
    lab.req(0)
    lab.rep(US, 100, responder_resources=2)
    lab.short(2 * US, cm.RTU_ID, cm.RTU)
    time, reads = lab.good(3 * US, 100, 3), max(5, answered + 2)
    for n in range(reads):
        lab.ask(time + n * 100, 103 + n, 64, READ, dma=64)
    for n in range(answered):
        lab.answer(time + 10 * US + n, 103 + n, opcode=RESPONSE_ONLY, size=64, msn=n)
    lab.answer(time + 12 * US, 103 + answered, 0x61)
    told = f"had {reads} READs or atomics under way, 10.0.0.2 allows 2 at a time (Responder Resources of its REP): 10.0.0.2 refused the "
    assert told + f"{nth} of them (frame {10 + answered}, NAK invalid request)" in lab.only().why


def test_a_send_that_was_refused_beside_reads_is_none_of_them() -> None:
    lab = Lab()
    lab.req(0)
    lab.rep(US, 100, responder_resources=1)
    lab.short(2 * US, cm.RTU_ID, cm.RTU)
    time = lab.good(3 * US, 100, 3)
    for n in range(3):
        lab.ask(time + n * 100, 103 + n, 64, READ, dma=64)
    lab.ask(time + US, 106)
    lab.answer(time + 12 * US, 106, 0x61)
    assert lab.only().why == ("10.0.0.2 refused a request of 10.0.0.1 with PSN 106 as invalid (NAK invalid request); the capture ends then")


def test_a_requester_that_goes_on_beyond_its_limit_is_told_so() -> None:
    lab = Lab()
    time = lab.good(lab.up(rnr_retries=1), 100, 3)
    for n in range(4):
        lab.ask(time + n * MS, 103)
        lab.answer(time + n * MS + 5 * US, 103, syndrome=0x21)
    lab.down(time + 20 * MS)
    assert "four times (RNR NAK); 10.0.0.1 went on beyond its RNR retry count of 1; 10.0.0.1 then ended" in lab.only().why


@every("name", WORDS)
def test_what_is_said(name: str) -> None:
    lab = Lab()
    CAUSES[name][2](lab)
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert WORDS[name] in found.why


def test_what_is_not_captured_is_not_told() -> None:
    lab = Lab()
    CAUSES["PSN"][2](lab)
    assert "10.0.0.2 acknowledges that as a repetition" in lab.only().why
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == lab.a]
    assert [one.why for one in lab.diagnosis().connections if "10.0.0.2 acknowledges" in one.why] == []


def from_the_first_packet(lab: Lab) -> None:
    repeated(lab, 0, 105)


def as_often_as_it_may(lab: Lab) -> None:
    lab.req(0, 4)
    lab.put(9 * SEC, C, bytes([10, 0, 0, 4]), 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))


ONE_WAY = {
    "retries-exhausted": (from_the_first_packet, "ms (the capture may begin amid its tries), as if no ack", "sends is not captured"),
    "connect-unanswered": (as_often_as_it_may, "as if no answer came", "so answers cannot be seen"),
    "wrong-partition": (partition, "the REQ says 0x8001", "a receiver drops what is not of its queue pair's partition"),
    "psn-reused": (psn_reused, "for another message (frame ", "acknowledgements are not captured"),
}
NEVER = ("gave up", "never acknowledged", "got no answer", "had been acknowledged", "answers none", "%")


@every("cause", ONE_WAY)
def test_what_one_direction_cannot_show_is_not_claimed(cause: str) -> None:
    lab = Lab()
    made, *said = ONE_WAY[cause]
    made(lab)
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] != lab.b]
    (found,) = lab.diagnosis().connections
    assert found.cause == cause and all(part in found.why for part in said) and not [word for word in NEVER if word in found.why]


def test_losses_are_not_counted_where_only_answers_are_captured() -> None:
    lab = Lab()
    CAUSES["loss"][2](lab)
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == lab.b]
    found = lab.only()
    assert "10.0.0.2 told 10.0.0.1" in found.why and "packets are missing (NAK sequence error)" in found.why and "%" not in found.why
    assert "lost on the way" not in found.why


def test_a_queue_pair_that_is_dead_beside_others_that_work() -> None:
    """What the same two hosts do meanwhile tells a dead queue pair from a lossy path."""
    lab = Lab()
    CAUSES["exhausted"][2](lab)
    other = Lab(qa=0x901, qb=0x902)
    other.good(0, 7000, 20, step=20 * MS)
    (found,) = [one for one in joined(lab, other).diagnosis().connections if one.cause == "retries-exhausted"]
    assert "acknowledges what 10.0.0.1 sends to other queue pairs there meanwhile" in found.why and "is lost" not in found.why
    assert "If it is well" not in found.advice


@pytest.mark.parametrize(("again", "said"), [(2, False), (3, True)])
def test_answers_alone_that_repeat(again: int, said: bool) -> None:
    """Without requests, more answers than PSNs show that something was sent again."""
    lab = Lab()
    for n in range(5):
        lab.answer(n * MS, 100 + n, msn=n)
    for n in range(again):
        lab.answer((9 + n) * MS, 104, msn=4)
    found = lab.only()
    assert found.cause == "cannot-tell" and (f"{5 + again} answers are for 5 PSNs only, as where 10.0.0.1 sends" in found.why) is said
