"""The worst connections are told first, and their cost."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import MS, SEC, START, US, Diagnosis, Lab, joined, spent, told
from tests.diagnosis.test_causes import CAUSES, exhausted, idle, repeated, slow_rnr, slow_timeout


def several() -> Lab:
    labs = []
    for i, make in enumerate((slow_rnr, idle, exhausted, slow_timeout, lambda lab: lab.good(0, 100, 5))):
        lab = Lab(a=bytes([10, 0, 1, i]), b=bytes([10, 0, 2, i]), qa=0x100 + i, qb=0x200 + i)
        make(lab)
        labs.append(lab)
    return joined(*labs)


def test_the_order() -> None:
    causes = re.findall(r"^\S 10\..*  (\S+)$", told(several().diagnosis()), re.MULTILINE)
    assert causes[:4] == ["retries-exhausted", "slow-by-timeout", "slow-by-rnr", "slow-by-application"]


def test_the_text() -> None:
    text = told(several().diagnosis(), 2)
    assert text.startswith("lab: 6 connections in ") and "1 failed, 3 slow, 2 healthy" in text
    assert "✖ 10.0.1.2 QP 0x000102 → 10.0.2.2 QP 0x000202  RC  retries-exhausted" in text
    assert "... and 2 more (2 slow); --top 4 shows them all" in text and "  slow-by-rnr" not in text
    assert "Where the time went" in text and "waiting for time-outs" in text.partition("Where the time went")[2]
    assert "healthy" in told(several().diagnosis(), every=True).partition("waiting")[2]


def went(found: Diagnosis) -> list[str]:
    """The lines that say where the time went."""
    return told(found).partition("Where the time went\n")[2].splitlines()


def test_the_rest_of_the_time_is_said_if_it_is_half_a_percent() -> None:
    """In the whole lab it is less than that; without the dead and the slow connection it is more."""
    found = several().diagnosis()
    assert ": transferring" not in "\n".join(went(found))
    some = [one for one in found.connections if one.cause == "slow-by-rnr" or one.healthy]
    assert ": transferring" in went(replace(found, connections=some))[-1]


@every(("rnr", "loss", "said"), [
    (400, 100, "transferring 500 us, waiting for receive buffers 400 us, making good losses 100 us"),
    (400, 99, "transferring 501 us, waiting for receive buffers 400 us, and others 99 us"),
    (0, 0, "transferring"), (0, 1, "transferring 999 us, and others 1 us"),
    (901, 0, "waiting for receive buffers 901 us, and others 99 us"),
])  # fmt: skip
def test_the_rest_hides_no_wait_that_is_a_tenth_of_it(rnr: int, loss: int, said: str) -> None:
    """It is told together where each part is less than half a percent of all: here of a fifth of a second with a long time-out."""
    parts = {"rnr_wait": rnr * US, "loss_recovery": loss * US, "timeout": 199 * MS, "transferring": (1000 - rnr - loss) * US}
    found = several().diagnosis()
    (last,) = [line for line in went(replace(found, connections=[spent(found.connections[0], 200 * MS, **parts)])) if "  0.5 %" in line]
    assert last.endswith(f": {said}")


def test_times_are_said_with_their_begin_and_as_a_time_of_the_day() -> None:
    text = told(several().diagnosis())
    assert "It begins on 2023-11-14 at 22:13:20.000 UTC and lasts 1." in text
    assert "    0.001 s (22:13:20.001 UTC) to 0.141 s: 10.0.1.2 sent PSN 105 eight times" in text
    assert "proved by frames 30 and 66; its first frame is 3, its last 66 (0.000 s to 0.141 s)" in text


def test_a_cause_that_takes_time_lasts_from_its_first_episode_on() -> None:
    """Not from the frame that ended the first wait: 80 ms of waiting do not fit into 60."""
    text = told(several().diagnosis())
    assert "    0.000 s (22:13:20.000 UTC) to 0.080 s: 10.0.1.3 waited four times" in text
    assert "    0.000 s (22:13:20.000 UTC) to 0.003 s: 10.0.2.0, the receiver, had no receive buffer four times" in text
    assert "    0.000 s (22:13:20.000 UTC) to 0.080 s: 10.0.1.1 had nothing to send four times" in text


@every(("since", "until", "said"), [
    (None, None, ""), (504 * MS, 915 * MS, "0.504 s (22:13:20.504 UTC) to 0.915 s: "),
    (504 * MS, None, "since 0.504 s (22:13:20.504 UTC): "),
    (504 * MS, 504 * MS + 9, "0.504 s (22:13:20.504 UTC): "), (None, 915 * MS, "0.915 s (22:13:20.915 UTC): "),
    (-MS, 0, "-0.001 s (22:13:19.999 UTC) to 0.000 s: "),
])  # fmt: skip
def test_when(since: int | None, until: int | None, said: str) -> None:
    lab = Lab()
    CAUSES["access"][2](lab)
    found = lab.diagnosis()
    start, end = (None if at is None else START + at for at in (since, until))
    one = replace(found.connections[0], since_ns=start, until_ns=end, why="Why.")
    assert told(replace(found, connections=[one])).splitlines()[4] == f"    {said}Why."


def dead_host() -> Lab:
    """Three connections to a host that is silent, and six others."""
    dead, labs = bytes([10, 0, 0, 9]), []
    for i in range(3):
        labs.append(Lab(b=dead, qa=0x100 + i, qb=0x200 + i))
        labs[-1].good(0, 1000 * i + 100, 5)
        repeated(labs[-1], MS, 1000 * i + 105)
    for i in range(6):
        labs.append(Lab(b=bytes([10, 0, 0, 20 + i]), qa=0x300 + i, qb=0x400 + i))
        labs[-1].good(SEC, 50_000 + 1000 * i, 5)
    slow = Lab(b=bytes([10, 0, 0, 40]), qa=0x500, qb=0x600)
    slow_rnr(slow)
    return joined(*labs, slow)


def test_the_evidence_of_a_culprit_stands_there_and_the_others_come_after() -> None:
    said = told(dead_host().diagnosis(), 1).splitlines()
    why = "10.0.0.9 does not answer: 3 connections with it were given up (all its connections in this capture)"
    at = said.index(f"✖ {why}  retries-exhausted")
    assert said[at + 1] == "    since 0.001 s (22:13:20.001 UTC) at the latest"
    assert said[at + 2].startswith("    What to do: See whether 10.0.0.9 is up")
    assert said[at + 3].startswith("    - 10.0.0.1 QP 0x000100 → 10.0.0.9 QP 0x000200, proved by frames ")
    assert said[at + 5] == "    ... and 2 more; --top 3 shows them all"
    others = said[said.index("The others that failed, were slow or lost time") :]
    assert "slow-by-rnr" in others[2] and sum("10.0.0.9" in line for line in others) == 1  # once more only where the time went


def test_the_time_is_that_of_the_connections_that_are_named() -> None:
    found = dead_host().diagnosis()
    text = [line.strip() for line in told(found).splitlines()]
    text = text[text.index("Where the time went") :]
    assert text[1] == "10 connections with data lasted 429 ms, added up. Of that:"
    assert text[2] == "98 %, 420 ms: waiting for time-outs, in 3 connections"  # all are of 10.0.0.1: that it waited says nothing
    assert "1 %, 5.49 ms: idle, nothing was asked for" in text
    assert text[3].count("(retries-exhausted)") == 3 and "most in" not in text[3]
    assert "10.0.0.40 (receiver) lacked the buffers" in text[4]


def test_one_direction_is_said_on_top() -> None:
    lab = dead_host()
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == lab.a]
    said = told(lab.diagnosis()).splitlines()
    assert said[2].startswith("note: this capture holds one direction only of 10 of 10 connections: what is sent to 10.0.0.1 is not in it.")
    assert "Capture both directions" in said[2]
    assert "\nnote:" not in told(dead_host().diagnosis())


def test_what_may_have_worked_perhaps_failed() -> None:
    """RNR NAKs whose limit only the set-up says."""
    lab = Lab()
    CAUSES["RNR exhausted"][2](lab)
    assert ": 1 failed" in (text := told(lab.diagnosis())) and "✖ 10.0.0.1 " in text
    lab.frames = lab.frames[3:]
    assert ": 1 perhaps failed" in (text := told(lab.diagnosis()))
    assert "ℹ 10.0.0.1 QP 0x000111 → 10.0.0.2 QP 0x000222  RC  rnr-exhausted" in text and "redirected" not in text


@pytest.mark.parametrize(("both", "said"), [(True, "✖ 10.0.0.2 does not answer: 3"), (False, "ℹ perhaps 10.0.0.2 does not answer: 3")])
def test_a_host_whose_answers_are_not_captured_perhaps_does_not_answer(both: bool, said: str) -> None:
    """Its RNR NAKs, or its acknowledgements, may have taken another way: the capture begins amid the tries of one direction."""
    labs = [Lab(qa=0x100 + n, qb=0x200 + n) for n in range(3)]
    for n, lab in enumerate(labs):
        lab.good(0, 1000 * n + 100, 2)
        for i in range(8):
            lab.ask(MS + i * 20 * MS, 1000 * n + 102)
            lab.ask(MS + i * 20 * MS + 10_000, 1000 * n + 103)
    found = joined(*labs)
    found.frames = [(time, frame) for time, frame in found.frames if both or (time >= MS and frame[26:30] == found.a)]
    text = told(found.diagnosis())
    assert said in text and (": 3 failed" if both else ": 3 perhaps failed") in text


def test_a_redirection_is_no_failure() -> None:
    lab = Lab()
    lab.req(0)
    gid = bytes(10) + b"\xff\xff\x0a\0\0\7"
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=25, reject_info_length=len(gid), ari=gid)
    text = told(lab.diagnosis())
    assert ": 1 redirected" in text and "ℹ 10.0.0.1 QP 0x000111 → 10.0.0.2  RC  redirected" in text
    assert "to ask another port: reason 25, port redirection; it names the port with GID ::ffff:10.0.0.7" in text
    assert "did not ask for that service again" in text and "Nothing, if 10.0.0.1 follows" in text
    assert "did not ask" not in told(lab.diagnosis(100)), "the service is cut off"


@every(("later", "accepted", "others", "once"), [
    (2 * MS, True, 0, True), (5 * MS, True, 0, True), (5 * MS + 1, True, 0, False), (2 * MS, False, 0, False), (2 * MS, True, 1, False),
])  # fmt: skip
def test_a_refusal_that_was_made_good_at_once_is_no_failure(later: int, accepted: bool, others: int, once: bool) -> None:
    """Not where it took long, was refused again, or where the asker asks for several at once: which one was repeated is not known then."""
    text = told(refused_and_asked_again(later, accepted, others).diagnosis())
    why = f"reason 28, consumer reject; refused once: 10.0.0.1 asked again {later // MS} ms later (frame {3 + others}) and was accepted"
    assert (why in text) == once
    assert ("ℹ 10.0.0.1 QP 0x000111 → 10.0.0.2  RC  refused once" in text) == (": 1 refused once" in text.splitlines()[0]) == once
    assert ("failed" in text.splitlines()[0]) != once


def refused_and_asked_again(later: int, accepted: bool = True, others: int = 0) -> Lab:
    """A REQ, its REJ, and another REQ of that asker. `others`: REQs that it sends beside the first one."""
    lab, again = Lab(), Lab(qa=0x112)
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=28)
    again.req(200 * US + later, local_communication_id=0xA1)
    if accepted:
        again.rep(300 * US + later, remote_communication_id=0xA1)
        again.short(400 * US + later, cm.RTU_ID, cm.RTU, local_communication_id=0xA1, remote_communication_id=0xB0)
    else:
        again.short(300 * US + later, cm.REJ_ID, cm.REJ, back=True, reason=28, local_communication_id=0, remote_communication_id=0xA1)
    beside = [Lab(qa=0x200 + i) for i in range(others)]
    for i, other in enumerate(beside):
        other.req(100 * US, local_communication_id=0xC0 + i)
    return joined(lab, again, *beside)


def test_the_json_of_a_refusal_that_was_made_good_stays() -> None:
    one = refused_and_asked_again(2 * MS).diagnosis().connections[0]
    assert (one.verdict, one.cause, one.severity) == ("failed", "refused", "error") and one.recovered and one.shown_severity == "info"


def test_connections_that_lost_no_time_are_not_told_of() -> None:
    """Not even where a capture's clock made their sums negative."""
    lab = Lab()
    lab.good(0, 100, 5)
    found = lab.diagnosis()
    for span, parts in ((-10, {"transferring": -10}), (-10, {"transferring": -11, "timeout": 1}), (10, {"transferring": 10})):
        assert went(replace(found, connections=[spent(found.connections[0], span, **parts)])) == []


def test_the_same_connections_are_told_once() -> None:
    """Two that lead from one host to another: the one with fewer other connections is named."""
    labs = []
    for i in range(2):
        labs.append(Lab(b=bytes([10, 0, 0, 9]), qa=0x100 + i, qb=0x200 + i))
        labs[-1].good(0, 1000 * i + 100, 5)
        repeated(labs[-1], MS, 1000 * i + 105)
    labs.append(Lab(b=bytes([10, 0, 0, 20]), qa=0x300, qb=0x400))
    labs[-1].good(SEC, 50_000, 5)
    found = joined(*labs).diagnosis()
    twice = replace(found.shared[0], host="10.0.0.1", of=3, why="10.0.0.1 asks them.")
    text = told(replace(found, shared=[twice, *found.shared]))
    assert twice.why not in text and f"✖ {found.shared[0].why}  retries-exhausted" in text


def test_who_refused_for_several_reasons_is_said_once() -> None:
    labs = []
    for n, reason in enumerate((28, 3, 28, 8, 3)):
        lab = Lab(a=bytes([10, 0, 1, n]), b=bytes([10, 0, 2, n < 3]), qa=0x100 + n)
        lab.req(n * SEC, local_communication_id=0xA7 + n, service_id=0x1061144 + n)
        lab.short(n * SEC + MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xA7 + n, reason=reason)
        labs.append(lab)
    text = told(joined(*labs).diagnosis())
    said = text.partition("Who refused connections for several reasons\n")[2]
    assert said.splitlines() == [
        "  10.0.2.1: 3 (2 for reason 28, consumer reject; 1 for reason 3, no resources available)",
        "  10.0.2.0: 2 (1 for reason 8, invalid Service ID; 1 for reason 3, no resources available)",
    ]
    assert "Who refused" not in told(joined(labs[0], labs[2], labs[3]).diagnosis())


@pytest.mark.slow
def test_what_a_capture_holds_is_said_on_top() -> None:
    labs = [Lab(b=bytes([10, 0, 2, n]), qa=0x100 + n, qb=0x200 + n) for n in range(3)]
    for lab in labs[:2]:
        lab.good(0, 100, 5)
    labs[2].good(labs[2].up(), 100, 5)
    said = told(joined(*labs).diagnosis())
    assert "The set-up of 2 connections is not captured. 10.0.0.1 is an end of all 3 connections: the capture was prob" in said
    assert "The set-up of 1 connection is not captured." in told(joined(*labs[1:]).diagnosis())
    assert " end of all" not in told(joined(labs[0]).diagnosis()) and "set-up" not in told(joined(labs[0]).diagnosis())
    assert " end of all" not in told(several().diagnosis())


def test_healthy_connections_that_lost_time_are_counted() -> None:
    lab = Lab()
    time = lab.good(lab.up(), 100, 3)
    for psn in (103, 104):
        lab.ask(time, psn)
        time = lab.good(time + 20 * MS, psn)
    found = lab.diagnosis()
    (one,) = found.connections
    well = spent(one, MS, transferring=MS)
    for some, said in (
        ([one], "1 healthy, which lost a fifth of its time or more"), ([well], "1 healthy"),
        ([one, well], "2 healthy, 1 of which lost a fifth of its time or more"),
    ):  # fmt: skip
        assert told(replace(found, connections=some)).splitlines()[0].endswith(f" frames: {said}")


def test_members_with_different_verdicts_are_marked_and_what_is_hidden_is_said() -> None:
    labs = [Lab(qa=0x100 + i, qb=0x200 + i) for i in range(2)]
    for lab in labs:
        CAUSES["ICRC"][2](lab)
    found = joined(*labs).diagnosis()
    one = found.connections[found.shared[0].members[0]]
    for verdict, marked in (("failed", True), (one.verdict, False)):
        said = told(replace(found, connections=[replace(each, verdict=verdict) if each is one else each for each in found.connections]), 5)
        assert ("(failed)" in said and "(against the rules), proved" in said) is marked
    unclear = replace(one, cause="cannot-tell", verdict="cannot-tell", severity="none", times=None)
    hidden = replace(found, connections=[unclear], shared=[])
    assert "not told here: 1 unclear connection; --all lists it" in told(hidden, 5) and "--all" not in told(hidden, 5, every=True)
