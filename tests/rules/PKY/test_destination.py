"""The P_Key rules about tables: the bytes, whose table, the frames that prove it, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.lint.finding import Severity
from tests.cases import few
from tests.craft import gmp, native, smp, ud
from tests.rules.findings import Facts, counted, facts_of, lint
from tests.rules.made.ports import set_port
from tests.rules.made.subnets import back, sweep
from tests.rules.PKY.cases import OUT, TABLE, behind_a_switch, send, shown
from tests.rules.PKY.cases import early_send as sent_early
from tests.standard import SECOND_NS
from tests.subnet.made import ANSWER, SET, answer, ask, node, p_keys, port_info, switch

NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x15, 0x16
PORT = "0x0002c90300001050 port 1 (LID 5)"
LATER = "learnt later: the {}'s {}; never contradicted in this capture"


def learnt(end: str, lid: int, table: int) -> tuple[tuple[int, str], ...]:
    """The frames that showed LID and P_Key table of an end."""
    return (lid, f"showed the {end}'s LID"), (table, f"showed the {end}'s P_Key table")


@pytest.mark.parametrize("chunks", [(), (2,), (4,)])
def test_a_limited_member_to_another(chunks: tuple[int, ...]) -> None:
    """One finding for each sender and queue pair."""
    message = f"P_Key 0x1234 (limited) from LID 3 to QP 0x12 of {PORT}, which is a limited member of that partition too"
    first = Facts(3, message, "1234", 0x1234, learnt("destination", 1, 2), "learnt", 2)
    frames = [*TABLE, send(0x1234), send(0x1234, psn=2), send(0x1234, qp=0x10012), send(0x1234, slid=0x104), send(0x9234)]
    assert facts_of(frames, "PKY001", chunks=chunks) == [
        first,
        first._replace(frame=5, message=message.replace("0x12 of", "0x10012 of"), times=1),
        first._replace(frame=6, message=message.replace("LID 3", "LID 260"), times=1),
    ]


def test_a_partition_that_the_destination_does_not_know() -> None:
    message = f"P_Key 0x9999 from LID 3 to QP 0x12 of {PORT}, whose P_Key table does not hold that partition"
    assert facts_of([*TABLE, send(0x9999)], "PKY003") == [Facts(3, message, "9999", 0x9999, learnt("destination", 1, 2), "learnt")]
    assert counted([*TABLE, send(0x1999), send(0x9999), send(0x1999)], "PKY003") == [(3, 2), (4, 1)]
    assert counted([*TABLE, send(0x0000), send(0x8000)], "PKY003") == [], "that is no partition (PKY002)"


@pytest.mark.slow
def test_a_partition_that_the_sender_does_not_know() -> None:
    message = f"P_Key 0x9999 from {PORT} to QP 0x12; the sender's P_Key table does not hold that partition"
    frames = [*TABLE, send(0x9999, slid=5, dlid=3), send(0x1234, slid=5, dlid=3), send(0x9234, slid=5, dlid=3)]
    assert facts_of(frames, "PKY004")[:1] == [Facts(3, message, "9999", 0x9999, learnt("sender", 1, 2), "learnt")]
    assert counted(frames, "PKY004") == [(3, 1), (5, 1)], "all 16 bits come from the table, which has the limited form alone"
    many = [*TABLE, send(0x9998, slid=5, dlid=3, qp=9), send(0x9997, slid=5, dlid=3), send(0x9998, slid=5, dlid=3, qp=9)]
    assert counted(many, "PKY004") == [(3, 2), (4, 1)]


@few("chunks", [(), (1,) * 18, (14, 2), (13,)], fast=(0, 2))
def test_two_ports_exchange_their_lids(chunks: tuple[int, ...]) -> None:
    """The limited port 5 has LID 1 already; until port 1 has another one, a packet to LID 1 may be for that, a full member."""

    def written(lid: int, path: list[int]) -> list[bytes]:
        header = {"transaction_id": lid}
        return [smp(SET, PORT_INFO, set_port(lid), path=path, header=header), back(PORT_INFO, port_info(lid), path, header=header)]

    tables = [back(P_KEY_TABLE, p_keys(0x9234), []), back(P_KEY_TABLE, p_keys(0x1234), [1, 2])]
    frames = [*sweep(), *tables, *written(1, [1, 2]), send(0x1234, slid=2, dlid=1)]
    swapped = [*frames, *written(5, []), send(0x1234, slid=2, dlid=1), send(0x1234, slid=2, dlid=5)]
    found = lint(swapped, "PKY001", chunks=chunks, step_ns=SECOND_NS)
    assert [(one.frame, one.severity) for one in found] == [(14, Severity.INFO), (17, Severity.ERROR)]
    for later in ([], written(6, [1, 2])):
        found = lint([*frames, *later], "PKY001", chunks=chunks, step_ns=SECOND_NS)
        assert [one.severity for one in found] == [Severity.ERROR], "port 1 left"


def test_packets_that_are_not_judged() -> None:
    """QP0 checks nothing, other OpCodes have other rules, a multicast group has no table, and LID 0 is nobody's."""
    other = [native(opcode, bytes(28), slid=3, dlid=5, bth={"p_key": 0x9999}) for opcode in (0x80, 0x81)]
    nowhere = [send(0x9999, dlid=0), send(0x9999, dlid=0xC000), send(0x9999, dlid=6), send(0x9999, qp=0)]
    assert counted([*TABLE, *other, *nowhere, send(0x9999)], "PKY003") == [(9, 1)]
    assert counted([*TABLE, native(0x7F, bytes(28), slid=3, dlid=5, bth={"p_key": 0x9999})], "PKY003") == [(3, 1)]


def test_answers_repeat_the_p_key_of_their_request() -> None:
    """Only requests are judged on QP1, and what is no datagram there is not."""
    key: dict[str, Any] = {"slid": 3, "dlid": 5, "bth": {"p_key": 0x9999}}
    asks, answers = gmp(4, 1, 0x12, **key), gmp(4, 0x81, 0x12, **key)
    short = ud(bytes(8), slid=3, dlid=5, bth={"p_key": 0x9999})
    assert counted([*TABLE, answers, asks, short, answers, asks, send(0x9999, qp=1), send(0x9999)], "PKY003") == [(4, 2), (9, 1)]


@pytest.mark.slow
def test_a_table_is_judged_as_it_was() -> None:
    """In one chunk it changes twice, and is not known for a while."""
    sets = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x9999))
    done = answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x9999))
    frames = [*TABLE, send(0x9999), sets, send(0x9999), done, send(0x9999), TABLE[1], send(0x9999), send(0x9999)]
    for chunks in ((), (4,), (6,), (1,) * 10):
        for step, times in ((2_000_000_000, 3), (1_000_000_000, 2)):  # until a second after the change, a packet may have been under way
            found = facts_of(frames, "PKY003", chunks=chunks, step_ns=step)
            assert [(one.frame, one.times, [frame for frame, _ in one.proof]) for one in found] == [(3, times, [1, 2])]
    assert counted([*frames[:3], sets, done, *frames[4:8], send(0x9998)], "PKY003") == [(3, 1), (10, 1)]


@pytest.mark.slow
def test_a_lid_is_the_port_that_has_it() -> None:
    """Another port takes it, whose table is not known; when that is known, it decides."""
    other = answer(5, NODE_INFO, node(6))
    frames = [*TABLE, send(0x9999), other, send(0x9999), answer(5, P_KEY_TABLE, p_keys(0x9998)), send(0x9999), send(0x9998)]
    for chunks in ((), (3,), (4,), (5,)):
        seen = facts_of(frames, "PKY003", chunks=chunks)
        assert [(one.frame, [frame for frame, _ in one.proof]) for one in seen] == [(3, [1, 2]), (7, [4, 6])]
    assert "0x0002c90300001060" in seen[1].message


def test_behind_a_router_another_subnet_decides() -> None:
    router = [answer(5, NODE_INFO, node(5, node_type=3)), TABLE[1]]
    assert counted([*router, send(0x9999)], "PKY003") == counted([send(0x9999), *router], "PKY003") == []


@pytest.mark.slow
def test_virtual_ports_share_a_lid() -> None:
    """With a GRH a packet may be for any of them; without, it is for the port itself."""
    virtual = [*TABLE, answer(5, PORT_INFO, port_info(5, capability_mask2=4))]
    routed = send(0x9999, grh={"dgid": b"\xfe\x80" + bytes(14)})
    plain = [*TABLE, answer(5, PORT_INFO, port_info(5))]
    assert counted([*virtual, routed], "PKY003") == []
    assert counted([*virtual, send(0x9999)], "PKY003") == counted([*plain, routed], "PKY003") == [(4, 1)]
    assert counted([*virtual, routed, send(0x9999), routed, send(0x9999, dlid=6)], "PKY003") == [(5, 1)]


CHECKED = "P_Key 0x9999 from LID {} to QP 0x12: 0x0002c90200400090 port 2 checks P_Keys, and its table does not hold that partition"


def checked(end: str) -> tuple[tuple[int, str], ...]:
    """What shows that the switch port before an end refuses a packet."""
    port = "showed the switch port's"
    way = "Outbound" if end == "destination" else "Inbound"
    return (4, "showed the cable"), (5, f"showed the {end}'s LID"), (6, f"{port} PartitionEnforcement{way}"), (7, f"{port} P_Key table")


@pytest.mark.slow
def test_a_switch_port_that_checks_for_the_port() -> None:
    wanted = Facts(8, CHECKED.format(3), "9999", 0x9999, checked("destination"), "learnt")
    assert facts_of([*behind_a_switch(1, 0xFFFF), send(0x9999)], "PKY003") == [wanted]
    assert facts_of([*behind_a_switch(0, 0xFFFF, inbound=1), OUT], "PKY004") == [
        wanted._replace(message=CHECKED.format(5), proof=checked("sender"))
    ]
    assert counted([*behind_a_switch(0, 0xFFFF, inbound=1), send(0x9999)], "PKY003") == [], "it checks the other direction"
    assert counted([*behind_a_switch(1, 0xFFFF), OUT], "PKY004") == []
    assert counted([*behind_a_switch(1, 0x1999), send(0x1999)], "PKY001") == [], "it compares the partition, whoever is a full member"
    assert counted([*behind_a_switch(1, 0xFFFF), send(0x1999)], "PKY003") == [(8, 1)]


@pytest.mark.slow
def test_a_switch_port_checks_from_when_it_is_known_to() -> None:
    lesson = behind_a_switch(1, 0xFFFF)
    frames = [*lesson[:5], send(0x9999), lesson[5], send(0x9999), lesson[6], send(0x9999), send(0x9999)]
    for chunks in ((), (6,), (8,), (9,), (10,)):
        assert counted(frames, "PKY003", chunks=chunks) == [(10, 2)]
    frames = [*lesson[:5], lesson[6], send(0x9999), lesson[5], send(0x9999)]
    for chunks in ((), (6,), (7,), (8,)):
        assert counted(frames, "PKY003", chunks=chunks) == [(9, 1)]
    late = [*lesson[:3], lesson[5], lesson[6], send(0x9999), *lesson[3:5], send(0x9999)]
    for chunks in ((), (6,), (7,)):
        assert counted(late, "PKY003", chunks=chunks) == [(9, 1)], "in front of it, nobody knows where the port is"


def test_the_table_of_a_switch_itself() -> None:
    """Its port 0 is a destination like any other, and checks nothing for others."""
    own = smp(ANSWER, P_KEY_TABLE, p_keys(0xFFFF), path=[1])
    frames = [smp(ANSWER, NODE_INFO, switch(9), path=[1]), smp(ANSWER, PORT_INFO, port_info(9), path=[1]), own, send(0x9999, dlid=9)]
    (one,) = facts_of(frames, "PKY003")
    assert one.frame == 4 and one.message.startswith("P_Key 0x9999 from LID 3 to QP 0x12 of 0x0002c90200400090")


@pytest.mark.slow
def test_a_table_of_two_blocks() -> None:
    """What the first says is known before the second is; nothing is told twice."""
    blocks = [
        frame
        for number, keys in enumerate(((0xFFFF, 0x1234), (0x8777,)))
        for header in [{"transaction_id": 80 + number}]
        for frame in (
            ask(5, P_KEY_TABLE, modifier=number, header=header),
            answer(5, P_KEY_TABLE, p_keys(*keys), modifier=number, header=header),
        )
    ]
    frames = [*shown(5, 0xFFFF)[:4], *blocks[:2], send(0x1234), *blocks[2:], send(0x1234)]
    for chunks in ((), (6,), (7,), (9,)):
        seen = facts_of(frames, "PKY001", chunks=chunks)
        assert [(one.frame, one.evidence, one.times) for one in seen][:1] == [(7, "learnt", 2)] and len(seen) == 1


def test_the_ports_own_table_comes_first() -> None:
    own = smp(ANSWER, P_KEY_TABLE, p_keys(0xFFFF), path=[1, 2])
    (one,) = facts_of([*behind_a_switch(1, 0xFFFF), own, send(0x9999)], "PKY003")
    assert PORT in one.message
    allowed = smp(ANSWER, P_KEY_TABLE, p_keys(0xFFFF, 0x9999), path=[1, 2])
    (one,) = facts_of([*behind_a_switch(1, 0xFFFF), allowed, send(0x9999)], "PKY003")
    assert one.message == CHECKED.format(3)


@few("chunks", [(), (1,), (2,), (4,), (1, 1, 1, 1)], fast=(0, 4))
def test_packets_before_the_answer_that_shows_the_table(chunks: tuple[int, ...]) -> None:
    """They are counted by sender, receiver and P_Key, whatever queue pair they go to."""
    frames = [sent_early(0x9999), sent_early(0x1234), send(0x9999, qp=7), *shown(5, 0xFFFF, 0x1234)]
    message = f"P_Key 0x9999 from LID 3 to QP 0x12 of {PORT}, whose P_Key table does not hold that partition"
    proof = ((7, LATER.format("destination", "LID")), (9, LATER.format("destination", "P_Key table")))
    assert facts_of(frames, "PKY003", chunks=chunks) == [Facts(1, message, "9999", 0x9999, proof, "inferred", 2)]
    limited = f"P_Key 0x1234 (limited) from LID 3 to QP 0x12 of {PORT}, which is a limited member of that partition too"
    assert facts_of(frames, "PKY001", chunks=chunks) == [Facts(2, limited, "1234", 0x1234, proof, "inferred")]
    source = [sent_early(0x9999), *shown(3, 0xFFFF)]
    message = "P_Key 0x9999 from 0x0002c90300001030 port 1 (LID 3) to QP 0x12; the sender's P_Key table does not hold that partition"
    proof = ((5, LATER.format("sender", "LID")), (7, LATER.format("sender", "P_Key table")))
    assert facts_of(source, "PKY004", chunks=chunks) == [Facts(1, message, "9999", 0x9999, proof, "inferred")]


def test_early_packets_of_virtual_ports_are_not_judged() -> None:
    routed = send(0x9999, grh={"dgid": b"\xfe\x80" + bytes(14)})
    assert counted([routed, send(0x9999), *shown(5, 0xFFFF)], "PKY003") == [(2, 1)]
    assert counted([routed, *shown(5, 0xFFFF)], "PKY003") == []


@pytest.mark.slow
def test_who_sends_back_in_a_partition_is_a_member() -> None:
    """As a full member when the key says so; a limited one may be what is wrong."""
    lesson = shown(5, 0xFFFF, 0x1234)
    for p_key, absent, limited in ((0x9999, [], [(2, 1)]), (0x1999, [], [(2, 1)]), (0x9234, [(1, 1)], []), (0x1234, [(1, 1)], [(2, 1)])):
        frames = [sent_early(0x9999), sent_early(0x1234), send(p_key, slid=5, dlid=3), *lesson]
        assert (counted(frames, "PKY003"), counted(frames, "PKY001")) == (absent, limited)
    assert counted([sent_early(0x9999), send(0x9999, slid=5, dlid=4), *lesson], "PKY003") == [(1, 1)], "to somebody else"


@pytest.mark.parametrize(("attribute", "severity"), [(P_KEY_TABLE, Severity.ERROR), (0xFF52, Severity.INFO)])
def test_a_tool_that_reads_registers_is_no_manager_whose_next_table_the_capture_would_show(attribute: int, severity: Severity) -> None:
    """The manager writes P_Keys; a tool for registers sends Sets, too. An hour later the table may be another one, unless the capture shows
    who writes it."""
    body = p_keys(0x1234) if attribute == P_KEY_TABLE else b""
    written = [ask(5, attribute, method=SET, body=body), answer(5, attribute, body)]
    frames = [*TABLE, *written, *[send(0x9234, psn=i) for i in range(60)], send(0x9999)]
    times = [i * 60 * SECOND_NS for i in range(len(frames))]
    assert [one.severity for one in lint(frames, "PKY003", times=times, lost=())] == [severity]
