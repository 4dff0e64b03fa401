"""Are the two ways of a connection found without connection management, also among many between two hosts?"""

from __future__ import annotations

import random

import pytest

from ibdissect.diagnosis.follow import ConnectionFollower
from ibdissect.engine import pairing
from tests.diagnosis.lab import MS, US, Lab, diagnosis, joined


def crowd(number: int, seed: int = 1, packets: int = 6) -> Lab:
    """Connections between the same hosts, at the same time."""
    r, labs = random.Random(seed), []
    for i in range(number):
        lab = Lab(qa=0x1000 + i, qb=0x8000 + i)
        lab.good(r.randrange(2 * MS), r.randrange(1 << 24), packets)
        labs.append(lab)
    return joined(*labs)


def test_each_of_many_connections_finds_its_answers() -> None:
    found = diagnosis(crowd(300).pcap()).connections
    assert len(found) == 300
    assert all((one.ends[0].qpn or 0) - 0x1000 == (one.ends[1].qpn or 0) - 0x8000 and one.cause == "healthy" for one in found)


def test_equal_psns_are_told_apart_when_they_differ_at_last() -> None:
    """Both begin with PSN 100 at the same time: only the later packets tell."""
    one, two = Lab(qa=1, qb=0x11), Lab(qa=2, qb=0x22)
    for lab, more in ((one, 0), (two, 50)):
        for i in range(3):
            lab.ask(i * US, 100 + i)
        for i in range(3):
            lab.answer(20 * US + i * US, 100 + i)
        lab.good(MS, 103 + more, 5)
    found = diagnosis(joined(one, two).pcap()).connections
    assert sorted((end.ends[0].qpn, end.ends[1].qpn) for end in found if end.directions == "both") == [(1, 0x11), (2, 0x22)]


def test_of_too_many_candidates_none_is_taken() -> None:
    labs = [Lab(qa=0x1000 + i, qb=0x8000 + i) for i in range(pairing.MAX_CANDIDATES + 3)]
    for i, lab in enumerate(labs):
        lab.ask(i * 10, 7)
        lab.answer(MS + i * 10, 7)
    assert all(one.cause == "cannot-tell" for one in diagnosis(joined(*labs).pcap()).connections)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = ConnectionFollower()
    monkeypatch.setattr(pairing, "MAX_PSNS", 50)
    diagnosis(crowd(60).pcap(), follower)
    assert len(follower.lanes.waiting) <= 51 and len(follower.lanes.older) <= 51
