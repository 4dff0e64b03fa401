"""Gaps and their fate, and distances of PSNs: what rules say in the end of packets that are missing."""

from __future__ import annotations

import io
import re

import pytest

import ibdissect
from tests.cases import every
from tests.craft import interfaces_pcapng
from tests.rules.RC.cases import IDLE, answer, ask

SEC, SOON, START = 1_000_000_000, 900_000, 1_700_000_000_000_000_000
Packet = tuple[int, int]
"""PSN, and nanoseconds since the one before; negative: a NAK for it."""
Told = tuple[str, int, int] | None
"""The rule that finds that packets are missing, how many, and from which PSN on."""


def told(*later: Packet, begins: int = 8) -> Told:
    """A requester sends two packets, the second of which is acknowledged, and goes on after three that are missing."""
    psn = [(begins + by) & 0xFFFFFF for by in range(6)]
    time, sent = 3, [(0, ask(psn[0])), (1, ask(psn[1])), (2, answer(psn[1], 2)), (3, ask(psn[5]))]
    for number, wait in later:
        time += abs(wait)
        sent.append((time, ask(number & 0xFFFFFF) if wait >= 0 else answer(number, 2, syndrome=0x60)))
    sent += [((2 + number) * SEC, frame) for number, frame in enumerate(IDLE)]
    data = interfaces_pcapng([(0, frame) for _, frame in sent], times=[START + time for time, _ in sent], link=1)
    with ibdissect.open(io.BytesIO(data)) as capture:
        found = capture.lint(select=("RC001", "RC011"))
    if not found:
        return None
    (one,) = found
    said = re.search(r"(\d+) packets? missing from PSN (\d+) on, ", one.message)
    assert said is not None
    return one.code, int(said[1]), int(said[2])


@pytest.mark.parametrize(
    ("late", "left"), [((), (3, 0)), ((1,), (1, 0)), ((0,), (2, 1)), ((2,), (2, 0)), ((0, 1), (1, 2)), ((2, 0, 1), None)]
)
def test_a_late_packet_leaves_two_gaps_one_or_none(late: tuple[int, ...], left: tuple[int, int] | None) -> None:
    """Also over the wrap of PSNs; of two gaps the first one is told."""
    for begins in (8, 0xFFFFFD):
        found = told(*((begins + 2 + by, SOON) for by in late), begins=begins)
        assert found == (left and ("RC001", left[0], (begins + 2 + left[1]) & 0xFFFFFF))


@every(("psn", "code"), [(9, "RC001"), (10, "RC011"), (12, "RC011"), (13, "RC001")])
def test_what_is_asked_for_is_marked(psn: int, code: str) -> None:
    assert told((psn, -SOON)) == (code, 3, 10)


@every(("psn", "wait", "sent"), [(13, SOON, True), (10, SOON, False), (9, 999_999, False), (9, 1_000_000, True)])
def test_who_repeats_later_psns_sent_those_of_the_gap(psn: int, wait: int, sent: bool) -> None:
    """The capture missed them. Copies of earlier ones within a millisecond were made by the network."""
    assert told((psn, wait)) == (None if sent else ("RC001", 2, 11) if psn == 10 else ("RC001", 3, 10))
