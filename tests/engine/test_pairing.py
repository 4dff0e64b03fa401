"""The two ways of a connection are found without connection management, also among many between two hosts."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from ibdissect.diagnosis.connection import Connection, Diagnosis
from ibdissect.diagnosis.connection_follower import ConnectionFollower
from ibdissect.engine import lanes, pairing
from tests.cases import every
from tests.diagnosis.lab import MS, READ, US, Lab, diagnosis, joined


def crowd(number: int, seed: int = 1, packets: int = 6) -> Lab:
    """Connections between the same hosts, at the same time."""
    r, labs = random.Random(seed), []
    for i in range(number):
        lab = Lab(qa=0x1000 + i, qb=0x8000 + i)
        lab.good(r.randrange(2 * MS), r.randrange(1 << 24), packets)
        labs.append(lab)
    return joined(*labs)


def test_each_of_many_connections_finds_its_answers() -> None:
    found = diagnosis(crowd(120).pcap()).connections
    assert len(found) == 120
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
    found = diagnosis(joined(*labs).pcap())
    assert all(one.cause == "cannot-tell" and "cannot be told from that of 19 other queue pairs" in one.why for one in found.connections)
    assert "38 of them are listed" in found.notes[0]


# -- queue pairs that begin with the same PSN

Packets = list[tuple[str, Callable[[int], None]]]
"""Of one queue pair, in order: `q` or `a`, a request or an answer, and what puts it into its lab at a time."""


def talk(lab: Lab, number: int, r: random.Random, psn: int = 0, reads: bool = True) -> Packets:
    """SENDs and READs that are all answered."""
    found: Packets = []
    for msn in range(1, number + 1):
        size = r.choice((300, 1024, 3000, 4096)) if reads and r.random() < 0.5 else 0
        if not size:
            found.append(("q", partial(lab.ask, psn=psn)))
            found.append(("a", partial(lab.answer, psn=psn, msn=msn)))
        else:
            found.append(("q", partial(lab.ask, psn=psn, size=0, opcode=READ, dma=size)))
            parts = -(-size // 1024)
            for i in range(parts):
                opcode = 0x10 if parts == 1 else 0x0D if not i else 0x0F if i == parts - 1 else 0x0E
                found.append(("a", partial(lab.answer, psn=psn + i, msn=msn, opcode=opcode, size=min(1024, size - 1024 * i))))
        psn += max(1, -(-size // 1024))
    return found


def dead(lab: Lab, number: int) -> Packets:
    """SENDs, of which the last is sent eight times and never answered."""
    return [*talk(lab, number, random.Random(0), reads=False), *[("q", partial(lab.ask, psn=number))] * 8]


def mixed(seed: int, *talks: Packets) -> None:
    """Packets of several queue pairs, some of one and then some of another, 20 us apart."""
    r, left, time = random.Random(seed), [*map(list, talks)], 0
    while left := [one for one in left if one]:
        one = r.choice(left)
        for _ in range(r.randint(1, 4)):
            if one:
                one.pop(0)[1](time)
                time += 20 * US


def alike(number: int) -> list[Lab]:
    return [Lab(qa=0x1000 + i, qb=0x8000 + i) for i in range(number)]


def blamed(found: Diagnosis) -> list[str]:
    return [one.why for one in found.connections if one.cause not in ("healthy", "cannot-tell", "slow-by-application")]


def wrong(found: Diagnosis) -> list[Connection]:
    """Connections of two queue pairs that never spoke with each other."""
    pairs = [(one.ends[0].qpn, one.ends[1].qpn, one) for one in found.connections if None not in (one.ends[0].qpn, one.ends[1].qpn)]
    return [one for a, b, one in pairs if (a or 0) & 0xFFF != (b or 0) & 0xFFF]


@every("psn", [0, 0xFFFFF8, 77_777])
@every("reads", [True, False])
def test_queue_pairs_that_begin_with_one_psn_are_told_apart_by_time(psn: int, reads: bool) -> None:
    labs, r = alike(6), random.Random(3)
    mixed(1, *(talk(lab, r.randint(12, 20), r, psn, reads) for lab in labs))
    found = joined(*labs).diagnosis()
    assert not blamed(found) and not wrong(found) and sum(one.cause != "cannot-tell" for one in found.connections) >= 5


@pytest.mark.parametrize("keep", ["qa,a,q", "a,q", "q,qa", "q"], ids=["mixed", "either", "half", "requests"])
@pytest.mark.parametrize("reads", [True, False])
def test_nobody_is_blamed_where_only_one_way_of_some_is_captured(keep: str, reads: bool) -> None:
    """The answers of one queue pair are not those of another one."""
    labs, r, ways = alike(6), random.Random(5), keep.split(",")
    talks = [talk(lab, r.randint(8, 20), r, 0, reads) for lab in labs]
    again = [("q", talks[0][0][1])]  # one is sent again, as after a loss before the capture point
    talks[0] = [*again, *again, *talks[0]]
    mixed(2, *([part for part in one if part[0] in ways[i % len(ways)]] for i, one in enumerate(talks)))
    found = joined(*labs).diagnosis()
    assert not blamed(found) and not [one for one in wrong(found) if one.cause not in ("healthy", "cannot-tell")]


def test_queue_pairs_that_go_in_step_are_unclear() -> None:
    labs = alike(4)
    for i, lab in enumerate(labs):
        for k in range(30):
            lab.ask(k * MS + i * US, k)
            lab.answer(k * MS + (20 + i) * US, k)
        lab.ask(30 * MS, 0)  # a copy from elsewhere: nobody may say that it was never acknowledged
    found = joined(*labs).diagnosis()
    assert [one.cause for one in found.connections] == ["cannot-tell"] * 8


def test_a_dead_one_among_many_is_named_where_the_others_are_known() -> None:
    labs, r = alike(6), random.Random(4)
    mixed(7, dead(labs[0], 14), *(talk(lab, 20, r, reads=False) for lab in labs[1:]))
    found = [one for one in joined(*labs).diagnosis().connections if one.verdict == "failed"]
    assert [(one.ends[0].qpn, one.ends[1].qpn, one.detail["tries"]) for one in found] == [(0x1000, 0x8000, 8)]


def test_of_too_large_a_crowd_nobody_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    labs, r = alike(4), random.Random(3)
    mixed(1, *(talk(lab, 20, r) for lab in labs))
    assert {one.cause for one in joined(*labs).diagnosis().connections} == {"healthy"}
    monkeypatch.setattr(pairing, "MAX_CROWD", 1)
    found = joined(*labs).diagnosis()
    assert {one.cause for one in found.connections} == {"cannot-tell"} and len(found.connections) == 8


def test_few_tries_are_no_proof_where_psns_alone_told_whose_answers_are_whose() -> None:
    """A message sent again at the end, as after a loss: its answer may be another queue pair's."""
    for tries, blames in ((3, 0), (4, 1)):
        labs, r = alike(6), random.Random(4)
        mixed(7, dead(labs[0], 14)[: 28 + tries], *(talk(lab, 20, r, reads=False) for lab in labs[1:]))
        later = Lab(qa=0x1077, qb=0x8077)
        later.good(50 * MS, 500_000, 5)
        assert len(blamed(joined(*labs, later).diagnosis())) == blames


@every(("answered", "pause", "lives"), [(True, 4 * US, 1), (True, 5 * US, 2), (False, -1, 1), (False, 0, 2)])
def test_a_queue_pair_that_begins_anew_uses_no_psn_again(answered: bool, pause: int, lives: int) -> None:
    """It is another connection if it was silent for a millisecond."""
    lab = Lab()
    for life in range(2):
        for i in range(40):
            lab.ask((40 * life + i) * MS + life * pause, i, fill=life)
            if answered:
                lab.answer((40 * life + i) * MS + life * pause + 5 * US, i, msn=i + 1)
    assert [one.cause for one in lab.diagnosis().connections] == ["healthy" if answered else "cannot-tell"] * lives


def test_what_waited_too_long_is_not_paired_in_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of two lanes told before would be lost, and the other blamed for it."""
    monkeypatch.setattr(lanes, "MAX_HELD", 8)
    labs, r = alike(4), random.Random(4)
    mixed(7, *(talk(lab, 20, r) for lab in labs))
    found = joined(*labs).diagnosis()
    assert {one.cause for one in found.connections} == {"cannot-tell"}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = ConnectionFollower()
    monkeypatch.setattr(pairing, "MAX_PSNS", 50)
    diagnosis(crowd(60).pcap(), follower)
    assert len(follower.lanes.pairing.waiting) <= 51 and len(follower.lanes.pairing.older) <= 51


@pytest.mark.parametrize(("asked", "forgotten"), [(2, []), (3, [1]), (4, [1, 2])])
def test_the_latest_queue_pairs_that_are_expected_are_kept(asked: int, forgotten: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets to a queue pair that a REQ named, and that is forgotten, are those of another connection."""
    monkeypatch.setattr(pairing, "MAX_PSNS", 2)
    labs = [Lab(qa=number, qb=0x100 + number) for number in range(1, asked + 1)]
    for number, lab in enumerate(labs, 1):
        lab.req(number * US, local_communication_id=number)
        for k in range(3):
            lab.answer((10 + k + 5 * number) * MS, 1000 * number + k, msn=k + 1)
    found = joined(*labs).diagnosis().connections
    assert [one.ends[0].qpn for one in found if one.set_up.state == "not-captured"] == forgotten
    assert [one.ends[0].qpn for one in found if one.set_up.state == "partly"] == list(range(1, asked + 1))
