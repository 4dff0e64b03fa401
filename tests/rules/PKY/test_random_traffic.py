"""The P_Key rules judge random traffic as a plain loop over its packets does, in chunks of any size."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.craft import native, ud
from tests.rules.findings import lint
from tests.rules.PKY.cases import shown
from tests.standard import BASE, FULL
from tests.subnet.test_early_packets import crowd

LIDS = (3, 4, 5, 6, 0x103)
KEYS = (0x1234, 0x9234, 0x1235, 0x9235, 0x7FFF, 0xFFFF, 0x8000, 0x0000, 0x1236)
OPCODES = (0x04, 0x04, 0x04, 0x64, 0x7F, 0x80, 0x81)
Packet = tuple[int, int, int, int, int]
"""OpCode, SLID, DLID, destination QP, P_Key."""
Outcome = tuple[int, str, str, int]
"""Frame, code, evidence, count."""


def frame_of(packet: Packet) -> bytes:
    opcode, slid, dlid, qp, key = packet
    if opcode == 0x64:
        return ud(bytes(8), dest_qp=qp, src_qp=9, q_key=7, slid=slid, dlid=dlid, bth={"p_key": key})
    return native(opcode, bytes(28), slid=slid, dlid=dlid, bth={"p_key": key, "destqp": qp})


def verdict(table: Sequence[int], key: int) -> str:
    """What a table of a port says about a packet."""
    same = [one for one in table if one & BASE == key & BASE]
    if not key & BASE:
        return "partition 0"
    if not same:
        return "absent"
    return "allowed" if key & FULL or any(one & FULL for one in same) else "limited"


def expected(packets: dict[int, Packet], tables: dict[int, tuple[int, ...]], known: dict[int, int]) -> list[Outcome]:
    """`known`: frame from which on a table is known; what comes earlier is judged by flow, what comes later by QPs, too."""
    never = 1 << 40
    ordinary = {frame: one for frame, one in packets.items() if one[0] < 0x80 and one[3] > 1}
    early = {frame: one for frame, one in ordinary.items() if frame < max(known.get(one[1], never), known.get(one[2], never))}
    ways = {(one[1], one[2], one[4]) for one in early.values()}
    groups: dict[tuple[object, ...], list[int]] = {}
    for frame, (opcode, slid, dlid, qp, key) in ordinary.items():
        for end, code, what in ((dlid, "PKY001", "limited"), (dlid, "PKY003", "absent"), (slid, "PKY004", "absent")):
            if end not in tables or verdict(tables[end], key) != what:
                continue
            if frame > known[end]:
                groups.setdefault((code, "learnt", slid, dlid if end == dlid else 0, opcode == 0x64, qp, key), []).append(frame)
                continue
            back = (dlid, slid, key & BASE | FULL) in ways or (what == "absent" and (dlid, slid, key & BASE) in ways)
            if not back:
                groups.setdefault((code, "inferred", slid, dlid, key), []).append(frame)
        same = [one for one in tables.get(slid, ()) if key & BASE and one & BASE == key & BASE]
        if key & FULL and same and not any(one & FULL for one in same) and frame > known[slid]:
            groups.setdefault(("PKY004", "learnt", slid, 0, False, qp, key), []).append(frame)
    return sorted((frames[0], str(code), str(evidence), len(frames)) for (code, evidence, *_), frames in groups.items())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_traffic(seed: int) -> None:
    rnd = random.Random(seed)
    tables = {lid: tuple(rnd.sample([0xFFFF, 0x1234, 0x9234, 0x1235, 0x9235, 0x7FFF], rnd.randrange(1, 4))) for lid in rnd.sample(LIDS, 3)}
    lessons = [(rnd.randrange(70), lid) for lid in tables]
    frames: list[bytes] = []
    packets: dict[int, Packet] = {}
    known: dict[int, int] = {}
    for i in range(70):
        for lid in (lid for at, lid in lessons if at == i):
            frames += shown(lid, *tables[lid])
            known[lid] = len(frames)
        slid, dlid = rnd.sample(LIDS, 2)
        for _ in range(rnd.choice((1, 1, 2))):
            packet = (rnd.choice(OPCODES), slid, dlid, rnd.choice((0, 1, 2, 3, 0x10002)), rnd.choice(KEYS))
            frames.append(frame_of(packet))
            packets[len(frames)] = packet
    wanted = expected(packets, tables, known)
    for chunks in ((), (rnd.randrange(1, 40), rnd.randrange(1, 40)), (9,) * 10):
        found = lint(frames, "PKY001", "PKY003", "PKY004", chunks=chunks)
        assert sorted((one.frame, one.code, str(one.evidence), one.count) for one in found) == wanted


@pytest.mark.slow
def test_large_chunks() -> None:
    """Thousands of packets of few flows, some of which share a slot."""
    rnd = random.Random(5)
    pool: list[Packet] = [(0x04, *rnd.sample(LIDS, 2), 2, rnd.choice(KEYS)) for _ in range(40)]
    pool += [(0x04, slid, 5, 2, key) for slid, key in crowd()]
    made = {packet: frame_of(packet) for packet in pool}
    tables = {5: (0xFFFF, 0x1234), 3: (0xFFFF, 0x1235)}
    frames: list[bytes] = []
    packets: dict[int, Packet] = {}
    known: dict[int, int] = {}
    for i in range(6000):
        for lid in (lid for lid, at in ((5, 4600), (3, 5600)) if at == i):
            frames += shown(lid, *tables[lid])
            known[lid] = len(frames)
        packet = rnd.choice(pool)
        frames.append(made[packet])
        packets[len(frames)] = packet
    wanted = expected(packets, tables, known)
    for chunks in ((), (4500,), (5000,), (500, 4700)):
        found = lint(frames, "PKY001", "PKY003", "PKY004", chunks=chunks)
        assert sorted((one.frame, one.code, str(one.evidence), one.count) for one in found) == wanted


@pytest.mark.slow
def test_more_packets_than_are_looked_at_one_by_one() -> None:
    """Hundreds of packets and LIDs in a chunk, in front of the lesson and behind it."""
    senders = range(0x200, 0x200 + 300)
    before = [native(0x04, bytes(8), slid=lid, dlid=5, bth={"p_key": 0x9999, "destqp": 2}) for lid in senders]
    frames = [*before, *shown(5, 0xFFFF), *before, *before[::2]]
    for chunks in ((), (300,), (400, 200)):
        found = lint(frames, "PKY003", chunks=chunks)
        assert [(one.frame, str(one.evidence), one.count) for one in found] == [
            *((1 + i, "inferred", 1) for i in range(300)), *((307 + i, "learnt", 2 - i % 2) for i in range(300)),
        ]  # fmt: skip
