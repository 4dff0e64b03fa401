"""Directions that belong together, limited P_Keys in both and when they prove anything, and how many packets were lost."""

from __future__ import annotations

import random

import pytest

from ibdissect.rules.PKY import limited_queue_pairs
from tests.cases import few
from tests.craft import native, rc, ud
from tests.rules.findings import Facts, counted, facts_of, lint
from tests.rules.made.agreed import packet
from tests.rules.PKY.cases import AGREED_LIMITED as LIMITED
from tests.rules.PKY.cases import MORE

KEY = 0x123


def there(key: int = KEY, qp: int = 0x40, *, slid: int = 3, dlid: int = 5, opcode: int = 0x04) -> bytes:
    """A packet of a connection; no source QP."""
    return native(opcode, bytes(8), slid=slid, dlid=dlid, bth={"p_key": key, "destqp": qp})


def back(key: int = KEY, qp: int = 0x50) -> bytes:
    """One of the other direction."""
    return rc(0x11, slid=5, dlid=3, bth={"p_key": key, "destqp": qp})


def datagram(src: int, dest: int, key: int = KEY, *, slid: int = 3, dlid: int = 5) -> bytes:
    return ud(bytes(8), dest_qp=dest, src_qp=src, q_key=7, slid=slid, dlid=dlid, bth={"p_key": key})


def found(frames: list[bytes], **kw: tuple[int, ...]) -> list[tuple[int, int]]:
    """First frame and number of packets of each finding."""
    return counted(frames, "PKY021", **kw)


MESSAGE = "P_Key 0x0123 (limited) in both directions between LID 5 and LID 3, QPs 0x50 and 0x40"
ANSWERS = [datagram(0x50, 0x40), datagram(0x40, 0x50, slid=5, dlid=3)]


@few("chunks", [(), (1,), (2,), (3,), (1, 1, 1, 1)], fast=(0, 4))
def test_packets_of_both_directions_are_one_finding(chunks: tuple[int, ...]) -> None:
    """By connection management, by the queue pairs in datagrams, or since there is only one queue pair between two ports."""
    wanted = Facts(2, MESSAGE, "0123", KEY, ((1, "the other direction"),), "inferred", 2)
    assert facts_of([there(), back()], "PKY021", chunks=chunks) == [wanted]
    assert facts_of([there(), there(), back(), there(), back()], "PKY021", chunks=chunks) == [wanted._replace(frame=3, times=5)]
    assert facts_of(ANSWERS, "PKY021", chunks=chunks) == [wanted._replace(evidence="seen")]
    assert found([*ANSWERS, *ANSWERS, ANSWERS[0]], chunks=chunks) == [(2, 5)]
    agreed = [*LIMITED, MORE, packet(KEY), packet(KEY), packet(KEY, opcode=0x11, back=True), packet(KEY)]
    message = "P_Key 0x0123 (limited) in both directions between LID 2 and LID 1, QPs 0x100 and 0x200"
    proof = ((5, "the other direction"), (2, "REP of the connection"))
    assert facts_of(agreed, "PKY021", chunks=chunks) == [Facts(7, message, "0123", KEY, proof, "learnt", 4)]


@few("chunks", [(), (1,), (2,), (3,)], fast=(0, 2))
def test_what_proves_nothing(chunks: tuple[int, ...]) -> None:
    for frames in (
        [there(), back(0x124)],
        [there(), back(KEY | 0x8000)],
        [there(0), back(0)],
        [there(0x8000), back(0x8000)],
        [there(), there(slid=4), there(slid=3, dlid=6)],
        [there(), back(), there(0x8456, qp=0x41)],
        [there(), back(), back(0x8456, qp=0x51)],
        [there(qp=1), back(qp=1)],
        [there(dlid=0), there(slid=0, dlid=3, qp=0x50)],
        [there(dlid=0xC000), there(slid=0xC000, dlid=3, qp=0x50)],
        [there(opcode=0x40), there(opcode=0x40, slid=5, dlid=3, qp=0x50)],
        [there(opcode=0x60), there(opcode=0x60, slid=5, dlid=3, qp=0x50)],
        [datagram(1, 0x40), datagram(0x40, 1, slid=5, dlid=3)],
        [datagram(0x50, 0x40), datagram(0x40, 0x51, slid=5, dlid=3)],
        [datagram(0x50, 0x40), datagram(0x41, 0x50, slid=5, dlid=3)],
        [datagram(0x50, 0x40), back(qp=0x50)],
    ):
        assert found(frames, chunks=chunks) == []


@few("chunks", [(), (1,), (2,), (3,), (1, 1, 1, 1)], fast=(0, 4))
def test_a_full_key_clears_its_direction(chunks: tuple[int, ...]) -> None:
    """Only that one, and only until it is limited again."""
    full = KEY | 0x8000
    assert found([there(), there(full), back()], chunks=chunks) == []
    assert found([there(), there(0x8456), back()], chunks=chunks) == [], "of whatever partition"
    assert found([there(), there(full), there(), back()], chunks=chunks) == [(4, 2)]
    assert found([there(), there(), there(full), there(), back()], chunks=chunks) == [(5, 2)]
    assert found([there(), there(full, slid=7), there(full, dlid=8), back()], chunks=chunks) == [(4, 2)], "another direction"
    assert found([ANSWERS[0], datagram(0x51, 0x40, full), ANSWERS[1]], chunks=chunks) == [(3, 2)], "another sender"
    assert found([ANSWERS[0], datagram(0x50, 0x41, full), ANSWERS[1]], chunks=chunks) == [(3, 2)], "another receiver"
    assert found([ANSWERS[0], datagram(0x50, 0x40, full), ANSWERS[1]], chunks=chunks) == []
    assert found([there(), there(0x124), back()], chunks=chunks) == [], "limited in another partition by now"
    assert found([there(), there(0x124), back(), there()], chunks=chunks) == [(4, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_chunks_make_no_difference(seed: int, full: bool) -> None:
    """Only how many packets of a direction count while the other one is cleared depends on them."""
    rnd = random.Random(seed)
    frames = []
    for _ in range(60):
        key = rnd.choice((KEY, KEY, KEY, KEY | 0x8000 if full else KEY))
        slid, dlid = rnd.sample((3, 5, 7), 2)
        if rnd.random() < 0.5:
            frames.append(there(key, 0x40 + slid + (rnd.random() < 0.01), slid=slid, dlid=dlid))
        else:
            frames.append(datagram(0x60 + slid + rnd.randrange(2), 0x60 + dlid + rnd.randrange(2), key, slid=slid, dlid=dlid))

    def seen(chunks: tuple[int, ...]) -> list[Facts]:
        return sorted(one._replace(times=0) if full else one for one in facts_of(frames, "PKY021", chunks=chunks))

    assert seen(())
    for chunks in ((1,) * 60, (rnd.randrange(60),), (7,) * 8):
        assert seen(chunks) == seen(())


def test_small_numbers_and_small_packets() -> None:
    """Queue pairs from 2 on are ordinary; a datagram may carry nothing; other datagrams are no second queue pair of a connection."""
    assert found([there(qp=2), back(qp=2)]) == [(2, 2)]
    assert found([datagram(2, 3), datagram(3, 2, slid=5, dlid=3)]) == [(2, 2)]
    bare = [ud(b"", dest_qp=dest, src_qp=9 - dest, slid=slid, dlid=8 - slid, bth={"p_key": KEY}) for dest, slid in ((4, 3), (5, 5))]
    assert found(bare) == [(2, 2)]
    assert found([there(), datagram(0x60, 0x61, 0x8456), back()]) == [(3, 2)]


def test_both_directions_with_the_same_numbers() -> None:
    """From one port to itself, and with the same queue pair number at both ends."""
    assert found([datagram(9, 9), datagram(9, 9, slid=5, dlid=3)]) == [(2, 2)]
    assert found([there(qp=9), there(qp=9, slid=5, dlid=3)]) == [(2, 2)]


def test_pairs_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten is counted (CAP016)."""
    monkeypatch.setattr(limited_queue_pairs, "MAX_FLOWS", 2)

    def codes(frames: list[bytes], chunks: tuple[int, ...] = ()) -> list[tuple[str, int]]:
        return sorted((one.code, one.count) for one in lint(frames, "PKY021", "CAP016", chunks=chunks))

    replies = [datagram(0x60, 0x50 + i, slid=5, dlid=3) for i in range(3)]
    asks = [datagram(0x50 + i, 0x60) for i in range(3)]
    assert codes([asks[0], replies[0]]) == [("PKY021", 2)]
    assert codes([*asks, replies[0]]) == [("CAP016", 2)], "the first and then the second made room"
    assert codes([*asks, replies[2]]) == [("CAP016", 2), ("PKY021", 2)]
    pairs = [frame for pair in zip(asks, replies, strict=True) for frame in pair]
    assert [code for code, _ in codes(pairs)] == ["CAP016", "PKY021", "PKY021", "PKY021"]
    other = [there(0x8001, qp=0x70, slid=20 + i, dlid=30) for i in range(2)]
    for chunks in ((), (1,), (2,), (3,), (1, 1, 1)):
        assert codes([there(0x8001), *other, there(0x8001, qp=0x41), there(0x8001)], chunks)[0][0] == "CAP016"
