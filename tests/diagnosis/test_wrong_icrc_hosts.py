"""Packets whose ICRC is wrong in a capture only: their receiver takes them, and nothing is sent again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibdissect.decode.addresses import End
from ibdissect.diagnosis.connection_follower import ConnectionFollower
from tests.diagnosis.lab import SEC, US, A, B, Lab, diagnosis
from tests.diagnosis.test_causes import alive, repeated

Icrc = Callable[[bytes], bytes]


def arbitrary(frame: bytes) -> bytes:
    return bytes(byte ^ 0x5A for byte in frame[-4:])


def constant(_: bytes) -> bytes:
    return b"\xde\xad\xbe\xef"


def swapped(frame: bytes) -> bytes:
    return frame[-4:][::-1]


def capture(icrc: Icrc, senders: tuple[bytes, ...], *, again: bool = False, unanswered: int = 0, right: int = 0) -> Lab:
    """Twenty SENDs of A and their ACKs; what the senders send has another ICRC, but for the first `right` packets."""
    lab = Lab()
    end = lab.good(0, 100, 20 - unanswered)
    for psn in range(120 - unanswered, 120):
        end += 100 * US
        lab.ask(end, psn)
    if again:
        lab.good(end + 100 * US, 119)
    frames = enumerate(lab.frames)
    lab.frames = [(time, frame[:-4] + icrc(frame) if frame[26:30] in senders and i >= right else frame) for i, (time, frame) in frames]
    return lab


@pytest.mark.parametrize("icrc", [arbitrary, constant])
def test_what_is_acknowledged_and_not_sent_again_was_right_where_it_arrived(icrc: Icrc) -> None:
    found = capture(icrc, (A,)).only()
    assert (found.cause, found.severity) == ("icrc-wrong-at-sender", "info")
    assert "it was captured on 10.0.0.1 before its adapter wrote the ICRC" in found.why


def test_a_repetition_says_nothing_where_no_icrc_is_right_and_the_receiver_acknowledges() -> None:
    found = capture(arbitrary, (A,), again=True).only()
    assert (found.cause, found.severity) == ("icrc-wrong-at-sender", "info")
    assert "10.0.0.2 takes them, so it was right where they arrived" in found.why


def test_a_repetition_that_nobody_answers_says_that_it_was_dropped() -> None:
    lab = capture(arbitrary, (A,), again=True)
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == A]
    found = lab.only()
    assert (found.cause, found.severity) == ("icrc-wrong-at-sender", "error")


def test_where_the_connection_was_given_up_nothing_says_that_all_arrived() -> None:
    lab = Lab()
    repeated(lab, lab.good(0, 100, 20), 120)
    lab.frames = [(time, frame[:-4] + arbitrary(frame) if frame[26:30] == A else frame) for time, frame in lab.frames] + alive(SEC).frames
    found = next(one for one in lab.diagnosis().connections if one.cause == "icrc-wrong-at-sender")
    assert (found.verdict, found.severity) == ("failed", "error")


@pytest.mark.parametrize("icrc", [arbitrary, constant])
def test_one_direction_in_which_nothing_is_sent_again_says_nothing_of_what_arrived(icrc: Icrc) -> None:
    lab = capture(icrc, (A,))
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == A]
    found = lab.only()
    assert (found.cause, found.severity) == ("icrc-wrong-at-sender", "info")
    assert "nothing is sent again, and the capture shows no answers" in found.why


@pytest.mark.parametrize(
    "lab",
    [capture(arbitrary, (A,), again=True, right=1), capture(arbitrary, (A,), unanswered=11), capture(swapped, (A,))],
    ids=["sent again, and some are right", "hardly acknowledged", "computed in a known wrong way"],
)
def test_what_is_wrong_on_the_wire(lab: Lab) -> None:
    found = lab.only()
    assert (found.cause, found.severity) == ("icrc-wrong-at-sender", "error")


@pytest.mark.parametrize(("again", "unanswered", "blamed"), [(False, 0, {A, B}), (True, 0, {A, B}), (False, 11, {A})])
def test_addresses_that_were_replaced_in_a_file(again: bool, unanswered: int, blamed: set[bytes]) -> None:
    """The ICRCs of both hosts are wrong then: one finding tells of both."""
    lab, follower = capture(arbitrary, (A, B), again=again, unanswered=unanswered), ConnectionFollower()
    (found,) = diagnosis(lab.pcap(), follower).connections
    assert ("addresses were replaced in this file" in found.why) != bool(unanswered)
    assert follower.verdicts().blamed("icrc-wrong-at-sender") == {End(host) for host in blamed}
