"""Requests sent before their port showed its M_Key are judged by it, once, for every port and sender."""

from __future__ import annotations

import pytest

from ibdissect.subnet import early_writes
from tests.cases import few
from tests.craft import smp
from tests.rules.findings import Facts, facts_of, lint
from tests.subnet.made import ANSWER, GET, REPRESS, SET, answer, ask, node, nodes, p_keys, port_info, switch

KEY, OTHER = 0x1122334455667788, 0x99
NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x15, 0x16


def keyed(lid: int, key: int = KEY) -> list[bytes]:
    """Somebody with the key asks a port for its PortInfo."""
    header = {"transaction_id": lid << 16}
    return [
        ask(lid, PORT_INFO, m_key=key, header=header),
        answer(lid, PORT_INFO, port_info(lid, m_key=key, m_key_protect_bits=1), m_key=key, header=header),
    ]


def write(lid: int, tid: int = 7, key: int = OTHER, slid: int = 1, method: int = SET) -> bytes:
    return ask(lid, P_KEY_TABLE, method=method, body=p_keys(0xFFFF), m_key=key, slid=slid, header={"transaction_id": tid})


PORT = "0x0002c90300001050 port 1 (LID 5)"


@few("chunks", [(), (1,), (2,), (3,), (1, 1, 1, 1)], fast=(0, 4))
def test_a_write_before_the_key(chunks: tuple[int, ...]) -> None:
    message = f"SubnSet(P_KeyTable) with M_Key 0x{OTHER:016x} to {PORT}, which holds M_Key 0x{KEY:016x}: the port drops it"
    wanted = Facts(2, message, f"{OTHER:016x}", OTHER, ((4, "showed the port's M_Key"),), "inferred")
    frames = [*nodes(5), write(5), *keyed(5)]
    assert facts_of(frames, "MKY002", chunks=chunks) == [wanted]
    assert [(one.code, one.count) for one in lint(frames, "MKY001", "MKY002", chunks=chunks)] == [("MKY002", 1)], "whoever else asks"
    found = facts_of([*nodes(5), write(5, method=REPRESS), *keyed(5)], "MKY002", chunks=chunks)
    assert [one.message[:24] for one in found] == ["SubnTrapRepress(P_KeyTab"]
    assert facts_of([*nodes(5), write(5, key=KEY), *keyed(5)], "MKY002", chunks=chunks) == []
    assert facts_of([*nodes(5), write(5, method=GET), *keyed(5)], "MKY002", chunks=chunks) == []
    assert facts_of([write(5), *nodes(5), *keyed(5)], "MKY002", chunks=chunks) == [], "whom it reached is not known"


@pytest.mark.parametrize("chunks", [(), (5,), (9,), (12,)])
@pytest.mark.parametrize("late", range(5))
def test_every_port_is_judged_by_its_own_key(late: int, chunks: tuple[int, ...]) -> None:
    """All show theirs in front of the request, but for the one it goes to."""
    lids = (5, 6, 7, 8, 9)
    others = [frame for lid in lids if lid != lids[late] for frame in keyed(lid)]
    frames = [*nodes(*lids), *others, write(lids[late]), *keyed(lids[late])]
    found = facts_of(frames, "MKY002", chunks=chunks)
    assert [(one.frame, one.evidence, one.proof[0][0]) for one in found] == [(14, "inferred", 16)]
    assert f"(LID {lids[late]})" in found[0].message
    known = facts_of([*nodes(*lids), *others, *keyed(lids[late]), write(lids[late])], "MKY002", chunks=chunks)
    assert [(one.frame, one.evidence, one.times) for one in known] == [(16, "learnt", 1)]


@pytest.mark.parametrize("chunks", [(), (2,)])
def test_requests_are_counted_by_sender(chunks: tuple[int, ...]) -> None:
    """Of a directed route, the manager is known by the high half of its transaction ids."""
    frames = [*nodes(5), *(write(5, tid, slid=slid) for slid, tid in ((1, 1), (2, 2), (1, 3), (2 << 8, 4), (2, 5), (2, 6))), *keyed(5)]
    assert [(one.frame, one.times) for one in facts_of(frames, "MKY002", chunks=chunks)] == [(2, 2), (3, 3), (5, 1)]
    managers = (1, 2, 1 << 8 | 1, 1 << 24)
    frames = [routed(ANSWER, NODE_INFO, node(5), manager << 32) for manager in managers]
    frames += [
        routed(SET, P_KEY_TABLE, p_keys(0xFFFF), managers[who] << 32 | tid << 23, OTHER) for tid, who in enumerate((0, 0, 1, 2, 3, 3), 1)
    ]
    frames += [routed(GET, PORT_INFO, b"", 1 << 32, KEY), routed(ANSWER, PORT_INFO, port_info(5, m_key=KEY), 1 << 32, KEY)]
    found = facts_of(frames, "MKY002", chunks=chunks)
    assert [(one.frame, one.times) for one in found] == [(5, 2), (7, 1), (8, 1), (9, 2)]
    assert found[0].marked == f"{OTHER:016x}"


def routed(method: int, attribute: int, body: bytes, tid: int, key: int = 0) -> bytes:
    """An SMP along a directed route."""
    return smp(method, attribute, body, path=[1, 2], m_key=key, header={"transaction_id": tid})


@pytest.mark.parametrize("chunks", [(), (2,), (3,)])
def test_a_switch_has_the_key_of_port_0(chunks: tuple[int, ...]) -> None:
    ask_key = smp(GET, PORT_INFO, path=[1], m_key=KEY, modifier=0, header={"transaction_id": 9})
    body = port_info(9, m_key=KEY, m_key_protect_bits=1, local_port_num=1)
    key = smp(ANSWER, PORT_INFO, body, path=[1], m_key=KEY, modifier=0, header={"transaction_id": 9})
    asks = smp(SET, P_KEY_TABLE, p_keys(0xFFFF), path=[1], m_key=OTHER, header={"transaction_id": 8})
    first = smp(ANSWER, NODE_INFO, switch(9, local_port_num=3), path=[1])
    found = facts_of([first, asks, ask_key, key], "MKY002", chunks=chunks)
    assert [(one.frame, one.evidence) for one in found] == [(2, "inferred")]


@pytest.mark.parametrize("chunks", [(), (3,), (4,)])
def test_a_port_that_took_a_write_had_no_key_or_that_one(chunks: tuple[int, ...]) -> None:
    """Its other requests are not judged either; those of other ports are."""
    took = answer(5, P_KEY_TABLE, p_keys(0xFFFF), header={"transaction_id": 7})
    frames = [*nodes(5, 6), write(5), took, write(5, tid=8), write(6, tid=9), *keyed(5), *keyed(6)]
    assert [(one.frame, one.proof[0][0]) for one in facts_of(frames, "MKY002", chunks=chunks)] == [(6, 10)]


@few("chunks", [(), (4,), (5,)], fast=(0,))
def test_requests_with_equal_transaction_ids_are_answered_by_their_ports(chunks: tuple[int, ...]) -> None:
    """An answer of a port that is not known may be anybody's."""
    frames = [*nodes(5, 6), write(5), write(6), *keyed(5), *keyed(6)]
    for lid, judged in ((6, [3]), (5, [4]), (9, [])):
        took = answer(lid, P_KEY_TABLE, p_keys(0xFFFF), header={"transaction_id": 7})
        assert [one.frame for one in facts_of([*frames[:4], took, *frames[4:]], "MKY002", chunks=chunks)] == judged


@pytest.mark.slow
def test_requests_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest requests go first, and are counted (CAP016)."""
    monkeypatch.setattr(early_writes, "MAX_WRITES", 3)
    lids = (5, 6, 7, 8, 9)
    frames = [*nodes(*lids), *(write(lid) for lid in lids), *(frame for lid in lids for frame in keyed(lid))]
    for chunks in ((), (6,), (7,), (9,)):
        found = lint(frames, "MKY002", "CAP016", chunks=chunks)
        assert [(one.frame, one.count) for one in found if one.code == "CAP016"] == [(9, 2)], "also in the last chunk"
        assert [one.frame for one in found if one.code == "MKY002"] == [8, 9, 10]
