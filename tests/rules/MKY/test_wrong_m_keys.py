"""The M_Key rules about requests with a wrong key: the bytes, the port, the frames that prove it, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.rules.MKY import wrong_m_keys
from tests.cases import every, few
from tests.craft import smp
from tests.rules.findings import Facts, facts_of, lint
from tests.rules.made.traps import bad_key, trap
from tests.subnet.made import ANSWER, GET, REPRESS, SET, answer, ask, node, p_keys, port_info, switch

KEY, OTHER = 0x1122334455667788, 0xBAD
NOTICE, NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x02, 0x11, 0x15, 0x16
PORT = "0x0002c90300001050 port 1 (LID 5)"
HELD, WRONG, NONE = f"M_Key 0x{KEY:016x}", f"M_Key 0x{OTHER:016x}", "no M_Key"
NODE = answer(5, NODE_INFO, node(5))
SHOWN = (2, "showed the port's M_Key")
SECOND = 1_000_000_000


def shown(protect: int = 1, key: int = KEY, lid: int = 5, **values: Any) -> bytes:
    """A port shows its key to who has it."""
    return answer(lid, PORT_INFO, port_info(lid, m_key=key, m_key_protect_bits=protect, **values), m_key=key)


def write(key: int = OTHER, *, attribute: int = P_KEY_TABLE, method: int = SET, tid: int = 0x1234, lid: int = 5, **kw: Any) -> bytes:
    """A request that changes something."""
    body = p_keys(0xFFFF) if attribute == P_KEY_TABLE else b""
    return ask(lid, attribute, method=method, m_key=key, body=body, header={"transaction_id": tid}, **kw)


def done(tid: int = 0x1234, status: int = 0, attribute: int = P_KEY_TABLE) -> bytes:
    """The port answers."""
    return answer(5, attribute, p_keys(0xFFFF), header={"transaction_id": tid, "status": status})


KEYED = [NODE, shown()]
HIDDEN = port_info(5, m_key=KEY, m_key_protect_bits=1)
"""Only who has the key may see it."""


def test_a_write_with_another_key_and_the_trap_that_it_led_to() -> None:
    complaint = trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER))
    message = f"SubnSet(P_KeyTable) with {WRONG} to {PORT}, which holds {HELD}: the port drops it"
    wanted = Facts(3, message, "0000000000000bad", OTHER, (SHOWN, (4, "trap 256 of the port")), "learnt")
    assert facts_of([*KEYED, write(), complaint], "MKY002") == [wanted]
    assert facts_of([*KEYED, write()], "MKY002") == [wanted._replace(proof=(SHOWN,))]
    assert facts_of([*KEYED, write(), complaint], "MKY002", chunks=(3,)) == [wanted]
    assert facts_of([*KEYED, write(), complaint], "MKY002", step_ns=2_000_000_000) == [wanted._replace(proof=(SHOWN,))], "too late"


@pytest.mark.parametrize(
    "complaint",
    [
        trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER + 1)),
        trap(256, bad_key(attributeid=PORT_INFO, mkey=OTHER)),
        trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER, method=GET)),
        trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER), is_generic=0),
        trap(257, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER)),
        trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER), slid=6),
        trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER), slid=9),
    ],
    ids=["key", "attribute", "method", "vendor", "number", "port", "unknown port"],
)
def test_a_trap_about_something_else_proves_nothing(complaint: bytes) -> None:
    neighbour = [answer(6, NODE_INFO, node(6)), answer(6, PORT_INFO, port_info(6))]
    assert [one.proof for one in facts_of([*KEYED, *neighbour, write(), complaint], "MKY002")] == [(SHOWN,)]


def test_a_request_that_a_trap_places_has_that_trap() -> None:
    """Where the route leads is not known before the port's trap."""
    routed = smp(SET, P_KEY_TABLE, p_keys(0xFFFF), m_key=OTHER, path=[1])
    complaint = trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER, dr_notice=1, dr_hop_count=1))
    (found,) = facts_of([*KEYED, routed, complaint, complaint], "MKY002")
    assert (found.frame, found.proof[1:]) == (3, ((4, "trap 256 of the port"),))


def test_each_trap_is_about_one_request() -> None:
    complaint = [trap(256, bad_key(attributeid=P_KEY_TABLE, mkey=OTHER), tid=tid) for tid in (1, 2)]
    requests = [write(slid=7), write(slid=8, tid=2)]
    found = facts_of([*KEYED, *requests, *complaint], "MKY002")
    assert [(one.frame, one.proof[1:]) for one in found] == [(3, ((5, "trap 256 of the port"),)), (4, ((6, "trap 256 of the port"),))]
    found = facts_of([*KEYED, *requests, complaint[0]], "MKY002")
    assert [(one.frame, len(one.proof)) for one in found] == [(3, 2), (4, 1)]


def test_requests_are_counted_by_sender_and_port() -> None:
    neighbour = [answer(6, NODE_INFO, node(6)), shown(lid=6)]
    frames = [*KEYED, *neighbour, *(write(tid=tid) for tid in range(3)), write(slid=7), write(lid=6), write(slid=7, tid=9)]
    assert [(one.frame, one.times) for one in facts_of(frames, "MKY002")] == [(5, 3), (8, 2), (9, 1)]


@pytest.mark.slow
def test_a_write_without_key() -> None:
    message = f"SubnSet(P_KeyTable) without M_Key to {PORT}, which holds {HELD}: the port drops it"
    assert facts_of([*KEYED, write(0)], "MKY001") == [Facts(3, message, "00" * 8, 0, (SHOWN,), "learnt")]
    assert facts_of([*KEYED, write(0)], "MKY002") == facts_of([*KEYED, write()], "MKY001") == []
    assert facts_of([*KEYED, write(0, attribute=NOTICE, method=REPRESS)], "MKY001")[0].message.startswith("SubnTrapRepress(Notice) without")
    assert facts_of([*KEYED, write(0, attribute=PORT_INFO, method=GET)], "MKY001") == []


def test_an_attribute_without_name() -> None:
    assert facts_of([*KEYED, write(attribute=0xFF77)], "MKY002")[0].message.startswith("SubnSet(attribute 0xff77) with")
    assert facts_of([*KEYED, write(attribute=0x80)], "MKY002")[0].message.startswith("SubnSet(attribute 0x0080) with"), "Omni-Path has one"
    assert facts_of([*KEYED, write(attribute=PORT_INFO)], "MKY002")[0].message.startswith("SubnSet(PortInfo) with")


@pytest.mark.slow
def test_a_port_that_accepts_a_request_holds_its_key() -> None:
    """An answer with an error status is no such proof; in a directed route's, bit 15 of the status is no error."""
    assert facts_of([*KEYED, write(), done()], "MKY002") == []
    for status in (0x1C, 1, 0x4000):
        assert len(facts_of([*KEYED, write(), done(status=status)], "MKY002")) == 1
    assert len(facts_of([*KEYED, write(), done(tid=5)], "MKY002")) == 1
    route = [
        smp(ANSWER, NODE_INFO, node(5), path=[1, 2]),
        smp(ANSWER, PORT_INFO, HIDDEN, path=[1, 2]),
    ]
    asks = smp(SET, P_KEY_TABLE, p_keys(0xFFFF), path=[1, 2], m_key=OTHER)
    assert [one.frame for one in facts_of([*route, asks], "MKY002")] == [3]
    for status, silent in ((0x8000, True), (0x801C, False)):
        answers = smp(ANSWER, P_KEY_TABLE, p_keys(0xFFFF), path=[1, 2], header={"status": status})
        assert (facts_of([*route, asks, answers], "MKY002") == []) == silent


@few("window", [200, 1000, 1 << 20], fast=(1, 2))
def test_chunks_do_not_hide_an_answer(window: int) -> None:
    idle = [answer(6, NODE_INFO, node(6))] * 5
    frames = [*KEYED, write(), *idle, done(), *idle, write(tid=7), *idle]
    assert [one.frame for one in facts_of(frames, "MKY002", window=window)] == [15]


@pytest.mark.slow
def test_an_answer_is_awaited_to_the_end() -> None:
    """Wherever chunks end: a port that answers late has accepted the request, so its key is another one."""
    idle = [answer(6, NODE_INFO, node(6))] * 2
    for chunks in ((), (5,), (4,), (3, 1, 1), (3,)):
        assert len(facts_of([*KEYED, write(), *idle], "MKY002", chunks=chunks, step_ns=SECOND)) == 1
        assert not facts_of([*KEYED, write(), *idle, done()], "MKY002", chunks=chunks, step_ns=SECOND)


@pytest.mark.slow
def test_of_requests_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do not are counted (CAP016)."""
    monkeypatch.setattr(wrong_m_keys, "MAX_WAITING", 2)
    frames = [*KEYED, *(write(slid=lid, tid=lid) for lid in range(20, 25))]
    for chunks in ((), (3,), (4,), (5, 1)):
        found = lint(frames, "MKY002", "CAP016", chunks=chunks)
        assert [(one.code, one.frame, one.count) for one in found] == [("MKY002", 3, 1), ("MKY002", 4, 1), ("CAP016", 5, 3)]


@pytest.mark.slow
def test_a_get_of_a_port_that_forbids_reading() -> None:
    message = f"SubnGet(NodeInfo) with {NONE} to {PORT}, whose protect bits 2 forbid reading without its key"
    assert facts_of([NODE, shown(2), ask(5, NODE_INFO)], "MKY003") == [Facts(3, message, "00" * 8, 0, (SHOWN,), "learnt")]
    assert facts_of([NODE, shown(3), ask(5, NODE_INFO, m_key=OTHER)], "MKY003")[0].message.startswith(f"SubnGet(NodeInfo) with {WRONG} to")
    assert facts_of([NODE, shown(1), ask(5, NODE_INFO)], "MKY003") == []
    assert facts_of([NODE, shown(2), ask(5, NODE_INFO), answer(5, NODE_INFO, node(5))], "MKY003") == [], "it answers"
    assert facts_of([NODE, shown(2), ask(5, NODE_INFO, slid=5)], "MKY003") == [], "a port may ask itself"
    assert facts_of([NODE, shown(2), write()], "MKY003") == []


ASKED = ask(5, PORT_INFO)
EXPOSED = answer(5, PORT_INFO, HIDDEN)
BARED = f"{PORT} shows {HELD} at protect bits 1 to a Get that came with {NONE}"


@few("window", [1, 350, 1 << 20], fast=(2,))
def test_a_key_that_a_port_should_have_hidden(window: int) -> None:
    proof = ((2, "the Get without the key"),)
    wanted = Facts(3, BARED, f"{KEY:016x}", KEY, proof)
    assert facts_of([NODE, ASKED, EXPOSED], "MKY004", window=window) == [wanted]
    again = facts_of([NODE, ASKED, EXPOSED, ASKED, EXPOSED], "MKY004", window=window)
    assert again == [wanted._replace(times=2)]
    wrong = facts_of([NODE, ask(5, PORT_INFO, m_key=OTHER), EXPOSED], "MKY004", window=window)
    assert [one.message for one in wrong] == [BARED.replace(NONE, WRONG)]
    assert facts_of([NODE, ask(5, PORT_INFO, m_key=KEY), EXPOSED], "MKY004", window=window) == []
    assert facts_of([NODE, ASKED, shown(0), ASKED, shown(2)], "MKY004", window=window) == []
    assert facts_of([NODE, ask(5, PORT_INFO, header={"transaction_id": 9}), EXPOSED], "MKY004", window=window) == []


@pytest.mark.slow
def test_a_port_may_show_its_key_to_itself() -> None:
    own = ask(5, PORT_INFO, slid=5)
    back = smp(ANSWER, PORT_INFO, HIDDEN, slid=5, dlid=5)
    inside = [smp(method, PORT_INFO, body, path=[]) for method, body in ((GET, b""), (ANSWER, HIDDEN))]
    outside = [smp(method, PORT_INFO, body, path=[1]) for method, body in ((GET, b""), (ANSWER, HIDDEN))]
    for chunks in ((), (2,)):
        assert facts_of([NODE, own, back], "MKY004", chunks=chunks) == []
        assert facts_of([smp(ANSWER, NODE_INFO, node(5), path=[]), *inside], "MKY004", chunks=chunks) == []
        assert [one.frame for one in facts_of([smp(ANSWER, NODE_INFO, node(5), path=[1]), *outside], "MKY004", chunks=chunks)] == [3]


@every("chunks", [(), (1,), (2,), (3,)])
def test_the_answer_may_be_to_another_asker(chunks: tuple[int, ...]) -> None:
    """Two use one transaction id, and one of them knows the key; of two that do not know it, the latest is quoted."""
    knows, hides = ask(5, PORT_INFO, m_key=KEY), answer(5, PORT_INFO, HIDDEN)
    for frames in ([ASKED, knows, EXPOSED], [knows, ASKED, EXPOSED], [knows, ASKED, EXPOSED, hides], [ASKED, knows, hides, EXPOSED]):
        assert facts_of([NODE, *frames], "MKY004", chunks=chunks) == []
    assert [one.proof for one in facts_of([NODE, ASKED, ASKED, EXPOSED], "MKY004", chunks=chunks)] == [((3, "the Get without the key"),)]


@every("chunks", [(), (3,), (2, 1), (1, 2), (1, 1, 1)])
def test_a_shown_key_is_reported_once(chunks: tuple[int, ...]) -> None:
    """Whether or not another key was known before, and whatever else was told of the port."""
    before = [answer(6, NODE_INFO, node(6)), shown(lid=6)]
    install = write(KEY, attribute=PORT_INFO, lid=7)
    plain = answer(6, PORT_INFO, port_info(6))
    tiny = shown(key=1, lid=6)
    for first in (before[1], install, plain, tiny):
        found = facts_of([first, NODE, ASKED, EXPOSED], "MKY004", chunks=chunks)
        assert [(one.frame, one.times, one.proof) for one in found] == [(4, 1, ((3, "the Get without the key"),))]


def test_a_write_that_shows_a_key_is_no_answer() -> None:
    assert facts_of([NODE, ASKED, ask(5, PORT_INFO, method=SET, body=HIDDEN)], "MKY004", chunks=(2,)) == []


def test_a_switch_answers_for_all_its_ports() -> None:
    """Its M_Key is that of port 0, whatever port is asked about."""
    key = smp(ANSWER, PORT_INFO, port_info(9, m_key=KEY, m_key_protect_bits=1, local_port_num=2), path=[1], modifier=0, m_key=KEY)
    found = facts_of(
        [smp(ANSWER, NODE_INFO, switch(9), path=[1]), key, smp(SET, PORT_INFO, b"", path=[1], m_key=OTHER, modifier=3)], "MKY002"
    )
    assert [(one.frame, one.proof) for one in found] == [(3, (SHOWN,))]
    assert "to 0x0002c90200400090 (LID 9), which" in found[0].message


def test_no_fault_is_reported_by_two_rules() -> None:
    codes = ("MKY001", "MKY002", "MKY003")
    assert [one.code for one in lint([*KEYED, write(), write(0)], *codes)] == ["MKY002", "MKY001"]


def set_key(key: int, sender: int, held: int) -> list[bytes]:
    """A Set of a key by who presents the present one, and what the port shows then."""
    header = {"transaction_id": sender << 32 | key}
    body = port_info(5, m_key=key, m_key_protect_bits=1, port_state=0, port_physical_state=0)
    kept = port_info(5, m_key=key, m_key_protect_bits=1)
    return [
        ask(5, PORT_INFO, method=SET, body=body, m_key=held, slid=sender, header=header),
        smp(ANSWER, PORT_INFO, kept, m_key=held, slid=5, dlid=sender, header=header),
    ]


@few("chunks", [(), (3,), (4,), (5,), (6,)], fast=(0, 2))
def test_a_tool_that_writes_back_the_key_that_it_read(chunks: tuple[int, ...]) -> None:
    """It is no second manager, and the manager's next key fights nobody."""

    def found(*sets: list[bytes]) -> list[tuple[str, int]]:
        some = lint([NODE, *(frame for one in sets for frame in one)], "MKY013", chunks=chunks)
        return [(str(one.severity), one.frame) for one in some]

    first, back, second, again = set_key(3, 1, 0), set_key(3, 9, 3), set_key(4, 1, 3), set_key(4, 9, 4)
    assert found(first, back, second, again) == []
    assert found(first, set_key(7, 9, 3), second) == [("warning", 4)]
    unseen = [ask(5, PORT_INFO, m_key=4), answer(5, PORT_INFO, port_info(5, m_key=4, m_key_protect_bits=1), m_key=4)]
    assert found(first, unseen, again) == [] and found(first, unseen, set_key(7, 9, 8)) == [("warning", 6)]
    assert found(first, again) == [], "it presents that key"
    assert found(first, unseen, again, set_key(7, 1, 4)) == [], "nobody saw whose key 4 is"


def by_route(method: int, attribute: int, body: bytes = b"", tid: int = 0x1234, path: tuple[int, ...] = (1, 2)) -> bytes:
    return smp(method, attribute, body, path=[*path], header={"transaction_id": tid})


@pytest.mark.parametrize(("last", "found"), [(0x1234, []), (0x1235, []), (0x1236, ["error"])])
def test_tries_of_a_set_whose_answer_was_lost_behind_the_capture(last: int, found: list[str]) -> None:
    """Managers repeat it every 200 ms, while the port has the key that it gave; another request without a key is refused."""
    nodes = [by_route(ANSWER, NODE_INFO, node(1), path=()), by_route(ANSWER, NODE_INFO, switch(2), path=(1,))]
    to_it = [by_route(ANSWER, NODE_INFO, node(5)), by_route(GET, PORT_INFO, tid=7), by_route(ANSWER, PORT_INFO, port_info(5), tid=7)]
    keyed = port_info(5, m_key=KEY, m_key_protect_bits=1)
    written = port_info(5, m_key=KEY, m_key_protect_bits=1, port_state=0, port_physical_state=0)
    asks = [by_route(SET, PORT_INFO, written, tid) for tid in (0x1234, 0x1235)]
    answers = [by_route(ANSWER, PORT_INFO, keyed, tid) for tid in (0x1234, 0x1235)]
    frames = [*nodes, *to_it, *asks, *answers, *asks, *asks, by_route(SET, PORT_INFO, written, last)]
    frames += [by_route(GET, NODE_INFO, tid=8), by_route(ANSWER, NODE_INFO, node(5), tid=8)]
    assert [str(one.severity) for one in lint(frames, "MKY001", step_ns=SECOND // 5)] == found
