"""Leases that run out, managers that come too seldom, storms of traps, and tries of keys: how long, how often, and by whom."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint.setting import checked_settings
from ibdissect.rules.MKY import leases, violation_reports
from tests.cases import few
from tests.craft import smp
from tests.rules.findings import Facts, counted, facts_of, lint, rules
from tests.rules.made.traps import bad_key, repress, trap
from tests.subnet.made import ANSWER, GET, SET, answer, ask, node, nodes, p_keys, port_info, switch

KEY, REVERSED = 0x1122334455667788, 0x8877665544332211
NODE_INFO, PORT_INFO, P_KEY_TABLE, SM_INFO = 0x11, 0x15, 0x16, 0x20
PORT = "0x0002c90300001050 port 1 (LID 5)"
SECOND = 1_000_000_000
SHOWN = "showed the port's M_Key"


def shown(lid: int = 5, key: int = KEY, lease: int = 0, protect: int = 1) -> bytes:
    """A port shows its key to who has it."""
    return answer(lid, PORT_INFO, port_info(lid, m_key=key, m_key_protect_bits=protect, m_key_lease_period=lease), m_key=key)


def tried(key: int, lid: int = 5, slid: int = 1, method: int = SET) -> bytes:
    """A request with a key."""
    return ask(lid, P_KEY_TABLE, method=method, m_key=key, body=p_keys(0xFFFF), slid=slid, header={"transaction_id": 0x1000 + slid})


IDLE = nodes(7)
NODE = nodes(5)


def test_a_key_with_its_bytes_reversed() -> None:
    message = f"M_Key 0x{REVERSED:016x} to {PORT} is M_Key 0x{KEY:016x} with the bytes reversed"
    frames = [*NODE, shown(), tried(REVERSED), tried(REVERSED), tried(REVERSED, slid=2), tried(REVERSED + 1)]
    first = Facts(3, message, f"{REVERSED:016x}", REVERSED, ((2, SHOWN),), "learnt", 2)
    assert facts_of(frames, "SMP023") == [first, first._replace(frame=5, times=1)]


@few("chunks", [(), (3,), (4,), (1, 1, 1, 1)], fast=(0, 3))
def test_a_lease_that_runs_out(chunks: tuple[int, ...]) -> None:
    message = f"the M_Key lease of {PORT} (2 s) ran out 2.0 s after a request with a wrong key"
    frames = [*NODE, shown(lease=2), tried(9), *IDLE, *IDLE, *IDLE]
    wanted = Facts(5, message, "", None, ((3, "the request with a wrong key"),), "learnt")
    assert facts_of(frames, "MKY008", chunks=chunks, step_ns=SECOND) == [wanted]
    assert facts_of(frames[:4], "MKY008", chunks=chunks, step_ns=SECOND) == [], "not yet"
    assert facts_of([*NODE, shown(lease=0), *frames[2:]], "MKY008", chunks=chunks, step_ns=SECOND) == [], "it never runs out"
    assert facts_of([*frames[:3], tried(KEY), *IDLE * 3], "MKY008", step_ns=SECOND) == []
    assert facts_of([*frames[:4], tried(KEY), *IDLE * 3], "MKY008", chunks=chunks, step_ns=SECOND // 2) == []
    assert facts_of([*NODE, shown(lease=2), tried(9, method=GET), *IDLE * 3], "MKY008", chunks=chunks, step_ns=SECOND) == [], (
        "it may be read"
    )


@pytest.mark.slow
def test_a_removed_lease_does_not_expire() -> None:
    frames = [*NODE, shown(lease=2), tried(9), *IDLE, shown(lease=0), *IDLE * 3]
    for chunks in ((), (4,), (5,), (6,)):
        assert facts_of(frames, "MKY008", chunks=chunks, step_ns=SECOND // 2) == []


def test_leases_run_out_by_port_and_again() -> None:
    """The timer starts with the first refused request, and again behind one with the right key."""
    frames = [*nodes(5, 6), shown(lease=2), shown(6, lease=3), tried(9), tried(9, 6), tried(8), *IDLE * 3]
    found = facts_of(frames, "MKY008", step_ns=SECOND)
    assert [(one.frame, one.proof[0][0]) for one in found] == [(7, 5), (9, 6)]
    again = [*NODE, shown(lease=2), tried(9), *IDLE * 2, shown(lease=2, protect=0), shown(lease=2), tried(8), *IDLE * 3]
    for chunks in ((1,) * 12, (5, 3)):
        assert counted(again, "MKY008", chunks=chunks, step_ns=SECOND) == [(5, 2)]


@few("chunks", [(), (5,), (6,), (7,), (9,), (1,) * 12], fast=(0, 5))
def test_what_a_port_shows_and_answers_counts_in_the_order_of_frames(chunks: tuple[int, ...]) -> None:
    """Protect bits from before the end of the lease say nothing of it; one who answers the request has no other key."""

    def found(*rest: bytes) -> list[tuple[str, int]]:
        start = [*NODE, ask(5, PORT_INFO, m_key=KEY), shown(lease=2, protect=2), ask(5, NODE_INFO, header={"transaction_id": 8})]
        return [(str(one.severity), one.frame) for one in lint([*start, *rest], "MKY008", chunks=chunks, step_ns=SECOND)]

    again, idle = shown(lease=2, protect=2), [trap(128, slid=6)] * 3
    assert found(again, *idle) == [("warning", 6)]
    assert found(*idle, again) == [("info", 6)]
    assert found(*idle, answer(5, NODE_INFO, node(5), header={"transaction_id": 8})) == []


def test_only_so_many_ports_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_TRAPS", 2)
    lids = (5, 6, 7)
    frames = [*nodes(*lids), *(shown(lid, lease=1) for lid in lids), *(tried(9, lid) for lid in lids), *IDLE * 3]
    found = lint(frames, "MKY008", "CAP016", step_ns=SECOND)
    assert [(one.code, one.frame, one.count) for one in found] == [("MKY008", 8, 1), ("CAP016", 9, 1), ("MKY008", 9, 1)]


@few("chunks", [(), (2,), (3,), (1, 1, 1, 1)], fast=(0, 3))
def test_a_manager_that_comes_too_seldom(chunks: tuple[int, ...]) -> None:
    message = f"{PORT} has a lease of 2 s, and got nothing with its M_Key for 3 s"
    frames = [*NODE, shown(lease=2), tried(KEY), *IDLE * 2, tried(KEY, method=GET)]
    wanted = Facts(6, message, f"{KEY:016x}", KEY, ((3, "the latest request with the key"),), "learnt")
    assert facts_of(frames, "MKY009", chunks=chunks, step_ns=SECOND) == [wanted]
    assert [one.times for one in facts_of([*frames, *IDLE, tried(KEY)], "MKY009", chunks=chunks, step_ns=SECOND)] == [2]
    assert facts_of([*frames[:4], *frames[5:]], "MKY009", chunks=chunks, step_ns=SECOND)[0].message.endswith("for 2 s"), "just as long"
    assert facts_of([*frames[:4], *frames[5:]], "MKY009", chunks=chunks, step_ns=SECOND - 1) == []
    for other in (tried(9), tried(KEY, method=7), tried(KEY, lid=8)):
        assert facts_of([*frames[:3], other, *frames[4:]], "MKY009", chunks=chunks, step_ns=SECOND) == [wanted], "that is no visit"
    assert facts_of([*frames[:3], tried(KEY, method=GET), *frames[4:]], "MKY009", chunks=chunks, step_ns=SECOND * 2 // 3) == []
    assert facts_of([*NODE, shown(lease=0), *frames[2:]], "MKY009", chunks=chunks, step_ns=SECOND) == []
    assert facts_of([*NODE, shown(lease=2, key=0), tried(0), *IDLE * 2, tried(0)], "MKY009", chunks=chunks, step_ns=SECOND) == []
    assert facts_of([tried(KEY), *frames[:2], *IDLE * 4, tried(KEY), tried(KEY)], "MKY009", chunks=chunks, step_ns=SECOND) == [], (
        "read, not managed"
    )


def test_visits_count_by_port() -> None:
    """Each has its lease, and a lease of another length counts from there on."""
    frames = [*nodes(5, 6, 7), shown(lease=2), shown(6, lease=9), shown(7, lease=2), *(tried(KEY, lid) for lid in (5, 6, 7)), *IDLE * 2]
    visits = [tried(KEY, lid) for lid in (7, 6, 5)]
    for chunks in ((), (6,), (9,), (12,)):
        found = facts_of([*frames, *visits], "MKY009", chunks=chunks, step_ns=SECOND)
        assert [(one.frame, one.proof[0][0]) for one in found] == [(12, 9), (14, 7)]
        assert (
            facts_of([*frames[:9], shown(lease=30), shown(7, lease=0), *frames[9:], *visits], "MKY009", chunks=chunks, step_ns=SECOND) == []
        )
    crowd = [tried(KEY, lid) for _ in range(20) for lid in (5, 7)]
    assert facts_of([*frames[:9], *crowd], "MKY009", step_ns=SECOND // 2) == []


def test_only_so_many_ports_have_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_PORTS", 1)
    frames = [*nodes(5, 6), shown(lease=2), shown(6, lease=2), tried(KEY), tried(KEY, 6), *IDLE * 2, tried(KEY), tried(KEY, 6)]
    found = lint(frames, "MKY009", "CAP016", step_ns=SECOND)
    assert [(one.code, one.frame, one.count) for one in found] == [("CAP016", 4, 1), ("MKY009", 9, 1)]


def test_only_so_many_ports_are_seen_to_be_managed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_PORTS", 1)
    first = [*nodes(5, 6), shown(lease=2), tried(KEY), shown(lease=0)]
    second = [shown(6, lease=2), tried(KEY, 6), *IDLE * 2, tried(KEY, 6)]
    found = lint([*first, *second], "MKY009", "CAP016", chunks=(4,), step_ns=SECOND)
    assert [(one.code, one.frame, one.count) for one in found] == [("CAP016", 7, 2)]
    assert [one.code for one in lint([*nodes(5, 6), *second], "MKY009", "CAP016", step_ns=SECOND)] == ["MKY009"]


def test_a_switch_has_the_lease_of_port_0() -> None:
    def to_switch(method: int, attribute: int, body: bytes = b"") -> bytes:
        return smp(method, attribute, body, path=[1], m_key=KEY)

    info = port_info(9, m_key=KEY, m_key_lease_period=2, local_port_num=3)
    frames = [to_switch(ANSWER, NODE_INFO, switch(9, local_port_num=3)), to_switch(ANSWER, PORT_INFO, info), to_switch(SET, P_KEY_TABLE)]
    assert [one.frame for one in facts_of([*frames, *IDLE * 2, to_switch(GET, P_KEY_TABLE)], "MKY009", step_ns=SECOND)] == [6]


@pytest.mark.parametrize(("code", "key", "least"), [("MKY011", "allowed", 1), ("MKY015", "window", 1), ("MKY015", "enough", 2)])
def test_settings_have_a_least_value(code: str, key: str, least: int) -> None:
    assert checked_settings({code: {key: least}}, rules(), "file") == {code: {key: least}}
    with pytest.raises(ConfigError):
        checked_settings({code: {key: least - 1}}, rules(), "file")


def storm(count: int, slid: int = 5, number: int = 256, first: int = 1) -> list[bytes]:
    return [trap(number, bad_key(), slid=slid, tid=first + i) for i in range(count)]


def test_a_storm_of_traps() -> None:
    frames = [*NODE, shown(), *storm(6)]
    message = f"{PORT} sent 4 bad M_Key traps within a second without TrapRepress"
    proof = tuple((frame, "an earlier one") for frame in (3, 4, 5))
    assert facts_of(frames, "MKY011") == [Facts(6, message, "0100", 256, proof, "learnt", 3)]
    assert facts_of(frames, "MKY011", step_ns=SECOND // 3)[0].frame == 6
    assert facts_of(frames, "MKY011", step_ns=SECOND // 3 + 1) == [], "more slowly than that"
    exactly = [*NODE, shown(), *storm(3), *IDLE * 2, *storm(1, first=4)]
    assert [one.frame for one in facts_of(exactly, "MKY011", step_ns=SECOND // 5)] == [8]
    assert facts_of([*NODE, shown(), *storm(3), *storm(3, slid=6)], "MKY011") == []
    assert facts_of([*NODE, shown(), *storm(3), *storm(3, number=257)], "MKY011") == []
    port_6 = [*nodes(6), shown(6)]
    for other, silent in ((repress(256, bad_key()), True), (repress(257, bad_key()), False), (IDLE[0], False)):
        assert (facts_of([*NODE, shown(), *port_6, *storm(3), other, *storm(3)], "MKY011") == []) == silent
    found = facts_of(
        [*port_6, *storm(3, slid=6), *NODE, shown(), *storm(2), repress(256, bad_key()), *storm(2), *storm(1, slid=6)], "MKY011"
    )
    assert [(one.frame, [frame for frame, _ in one.proof]) for one in found] == [(13, [3, 4, 5])], "the answer was to LID 5"


@few("chunks", [(), (6,), (7,)], fast=(0, 1))
def test_a_storm_that_the_manager_quiets_at_once(chunks: tuple[int, ...]) -> None:
    """Its TrapRepress is on the way when the fourth trap leaves."""
    start, quiet = [*NODE, shown(), *storm(5)], repress(256, bad_key())

    def found(*later: bytes, milliseconds: int = 1) -> list[int]:
        return [one.frame for one in facts_of([*start, *later], "MKY011", chunks=chunks, step_ns=milliseconds * 1_000_000)]

    assert (found(), found(quiet), found(repress(257, bad_key()))) == ([6], [], [6])
    assert (found(quiet, milliseconds=200), found(quiet, milliseconds=201)) == ([], [6]), "within a second of the first trap"
    assert found(quiet, *storm(4, first=9)) == [12], "it does so once"


def test_only_the_latest_traps_of_a_storm_are_quieted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violation_reports, "MAX_REPORTED", 2)
    for count, left in ((5, []), (6, [6])):
        frames = [*NODE, shown(), *storm(count), repress(256, bad_key())]
        assert [one.frame for one in facts_of(frames, "MKY011")] == left


def test_only_so_many_senders_of_traps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes again is no new one."""
    monkeypatch.setattr(violation_reports, "MAX_TRAPS", 2)
    for senders, found in (
        ((5, 6, 5, 6, 5, 6, 5, 6), [("MKY011", 7), ("MKY011", 8)]),
        ((5, 6, 7, 5, 5, 5), [("CAP016", 3)]),
        ((5, 6, 7, 6, 6, 6), [("CAP016", 3), ("MKY011", 6)]),
    ):
        frames = [trap(256, bad_key(), slid=slid, tid=i) for i, slid in enumerate(senders)]
        assert [(one.code, one.frame) for one in lint(frames, "MKY011", "CAP016")] == found


def test_somebody_tries_keys() -> None:
    frames = [*NODE, shown(), *(tried(key) for key in (1, 2, 2, 0, KEY, 1, 3, 4))]
    message = f"3 different wrong M_Keys for {PORT} within 60 s"
    proof = ((2, SHOWN), (8, "another wrong key"), (5, "another wrong key"))
    assert facts_of(frames, "MKY015") == [Facts(9, message, f"{3:016x}", 3, proof, "learnt", 2)]
    assert facts_of(frames[:-2], "MKY015") == []
    apart = [*nodes(5, 6), shown(), shown(6), tried(1), tried(2, slid=2), tried(3, slid=2), tried(3, lid=6), tried(4, slid=3)]
    assert facts_of(apart, "MKY015") == [], "keys of several senders, or for several ports"


def test_keys_are_remembered_for_a_minute() -> None:
    frames = [*NODE, shown(), tried(1), tried(2), tried(3)]
    assert [one.frame for one in facts_of(frames, "MKY015", step_ns=30 * SECOND)] == [5]
    assert facts_of(frames, "MKY015", step_ns=30 * SECOND + 1) == []


@pytest.mark.slow
def test_of_many_keys_the_latest_are_remembered() -> None:
    frames = [*NODE, shown(), *(tried(key) for key in range(1, 13))]
    (found,) = facts_of(frames, "MKY015")
    assert found.times == 10
    again = facts_of([*frames, tried(1), tried(12)], "MKY015")
    assert [one.times for one in again] == [11], "the first was forgotten, so it is another one; the latest was not"
    assert [one.times for one in facts_of([*frames, tried(5)], "MKY015")] == [10], "of eight that are kept, it is the oldest"
    assert [one.times for one in facts_of([*frames, tried(4)], "MKY015")] == [11]


def test_only_so_many_senders_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violation_reports, "MAX_TRAPS", 2)
    for senders, found in (
        ((7, 8, 7, 8, 7, 8), [("MKY015", 7), ("MKY015", 8)]),
        ((7, 8, 9, 7, 7), [("CAP016", 5)]),
        ((7, 8, 9, 8, 8), [("CAP016", 5), ("MKY015", 7)]),
    ):
        frames = [*NODE, shown(), *(tried(1 + i, slid=slid) for i, slid in enumerate(senders))]
        assert [(one.code, one.frame) for one in lint(frames, "MKY015", "CAP016")] == found


def info(method: int, lid: int = 5, **values: Any) -> bytes:
    """PortInfo in a Set, or in an answer."""
    body = port_info(lid, **values)
    return answer(lid, PORT_INFO, body) if method != SET else ask(lid, PORT_INFO, method=SET, body=body)


def test_what_a_packet_alone_shows() -> None:
    """One finding for each key, port or level; the field's bytes are marked."""
    seen = [info(SET, m_key=7), info(0x81, m_key=7), info(0x81, 6, m_key=7), info(0x81, m_key=8), info(0x81)]
    message = "M_Key 0x0000000000000007 of the port with LID 5 is in the capture"
    first = Facts(1, message, f"{7:016x}", 7, times=3)
    assert facts_of(seen, "MKY005") == [first, Facts(4, message.replace("7 of", "8 of"), f"{8:016x}", 8)]
    level = [info(0x81, m_key_protect_bits=bits) for bits in (3, 2, 3)] + [info(0x81, 6, m_key_protect_bits=3)]
    message = "M_KeyProtectBits of the port with LID 5 are 3, which is the same as 2"
    assert facts_of(level, "MKY006") == [Facts(1, message, "c0", 3, times=2), Facts(4, message.replace("LID 5", "LID 6"), "c0", 3)]
    unguarded = [info(SET, lid, m_key_protect_bits=bits) for lid, bits in ((5, 2), (5, 1), (6, 2), (5, 2))]
    message = "M_KeyProtectBits 2 with M_Key 0: the port with LID 5 is not protected"
    assert facts_of(unguarded, "MKY007") == [
        Facts(1, message, "80", 2, times=2),
        Facts(2, message.replace("Bits 2", "Bits 1"), "40", 1),
        Facts(3, message.replace("LID 5", "LID 6"), "80", 2),
    ]


def test_managers_that_tell_their_keys() -> None:
    def told_key(guid: int, key: int) -> bytes:
        return answer(5, SM_INFO, guid.to_bytes(8, "big") + key.to_bytes(8, "big") + bytes(48))

    message = "SM 0x000000000000000a reveals its key, SM_Key 0x0000000000000001"
    frames = [told_key(10, 1), told_key(10, 0), told_key(10, 2), told_key(11, 1), told_key(10, 1)]
    assert facts_of(frames, "MKY014") == [
        Facts(1, message, f"{1:016x}", 1, times=2),
        Facts(3, message[:-1] + "2", f"{2:016x}", 2),
        Facts(4, message.replace("0a", "0b"), f"{1:016x}", 1),
    ]
