"""Traffic that looks like a fault, but is in order, is told from the fault. Each with its nearest true neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.wire.sm import SMInfo
from ibdissect.wire.sm_tables import GUIDInfo, VLArbitrationTable
from tests.cases import few
from tests.craft import build, smp
from tests.rules.findings import lint
from tests.rules.made.conversations import WAIT
from tests.rules.made.subnets import NODE_INFO, PORT_INFO, SWITCH_INFO, back, member, path, sent, sweep
from tests.rules.made.traps import CA, PORT, bad_key, notice, repress, trap
from tests.rules.MCG.cases import JOIN, LEAVE, broadcast
from tests.rules.PKY.cases import JOIN as ASKED
from tests.rules.PKY.cases import PORT_5 as PORT_GID
from tests.standard import SECOND_NS
from tests.subnet.made import GUID, SET, answer, ask, node, p_keys, port_info, switch, switch_info

GUID_INFO, LINEAR, ARBITRATION, SM_INFO, NOTICE, P_KEY_TABLE = 0x14, 0x19, 0x18, 0x20, 0x02, 0x16
GUID_1, GUID_5 = (GUID + (lid << 4) + 1 for lid in (1, 5))
MASTER, STANDBY, DOWN = 3, 2, 1
STATES: dict[str, Any] = {"port_state": 0, "port_physical_state": 0}
Frames = Sequence[bytes]


def severities(code: str, frames: Frames, **file: Any) -> list[str]:
    """How loud a rule is about a capture."""
    return [str(one.severity) for one in lint(frames, code, **file)]


def exchange(attribute: int, body: bytes, path: list[int], shown: bytes | None = None, modifier: int = 0) -> list[bytes]:
    """A Set by directed route, and its answer."""
    more: Any = {"path": path, "modifier": modifier, "header": {"transaction_id": 0x1299}}
    return [smp(SET, attribute, body, **more), smp(0x81, attribute, body if shown is None else shown, **more)]


def external(**values: Any) -> bytes:
    """What port 2 of a switch shows."""
    return answer(2, PORT_INFO, port_info(0, **values), modifier=2)


# a port that is down shows what its last link had
UP_AND_DOWN = {
    "SEM003": {"neighbor_mtu": 9}, "SEM004": {"neighbor_mtu": 5, "mtu_cap": 4}, "SEM006": {"operational_vls": 5, "vl_cap": 4},
}  # fmt: skip


@pytest.mark.parametrize("code", UP_AND_DOWN)
def test_what_a_link_used_that_is_down(code: str) -> None:
    values = UP_AND_DOWN[code]
    assert severities(code, [external(**values, port_state=DOWN)]) == []
    assert severities(code, [external(**values, port_state=2)]) != []
    assert severities(code, [ask(2, PORT_INFO, method=SET, body=port_info(0, **values, port_state=DOWN), modifier=2)]) != []


def test_lanes_of_a_port_that_is_down() -> None:
    """Nobody knows how many it will use."""
    known = [answer(2, NODE_INFO, switch(2)), answer(2, SWITCH_INFO, switch_info())]
    empty = ask(2, ARBITRATION, method=SET, body=build(VLArbitrationTable), modifier=0x10002)
    assert severities("SEM025", [*known, external(port_state=DOWN), empty]) == []
    assert severities("SEM025", [*known, external(port_state=2), empty]) == ["warning"]


def test_a_switch_that_nobody_has_set_up() -> None:
    """LinearFDBTop 0: what it shows is what it was built with."""
    forever = {"life_time_value": 20}
    assert severities("SEM019", [answer(2, SWITCH_INFO, switch_info(**forever, linear_fdb_top=0))]) == []
    assert severities("SEM019", [answer(2, SWITCH_INFO, switch_info(**forever, linear_fdb_top=1))]) == ["info"]
    assert severities("SEM019", [answer(2, SWITCH_INFO, switch_info(**forever, linear_fdb_top=0, linear_fdb_cap=0))]) == ["info"]
    assert severities("SEM019", [ask(2, SWITCH_INFO, method=SET, body=switch_info(**forever, linear_fdb_top=0))]) == ["info"]


def test_lid_0_leads_nowhere() -> None:
    """Its entry means nothing; that of LID 64 stands as the first of its block, too."""
    known = [answer(2, NODE_INFO, switch(2)), answer(2, SWITCH_INFO, switch_info(linear_fdb_top=100))]
    entries = {place: bytes([99 if i == place else 1 for i in range(64)]) for place in (0, 1)}
    for block, place, found in ((0, 0, []), (0, 1, ["error"]), (1, 0, ["error"])):
        assert severities("SEM027", [*known, ask(2, LINEAR, method=SET, body=entries[place], modifier=block)]) == found


# GUIDs that the port itself shows
SHOWN = answer(5, GUID_INFO, build(GUIDInfo, guid_block=[GUID_5, 0xA1]))
OTHER_FIRST = answer(5, GUID_INFO, build(GUIDInfo, guid_block=[0xA1, 0]))
BLOCK_3 = answer(5, GUID_INFO, build(GUIDInfo, guid_block=[0, 0xA1]), modifier=3)
OF_PORT_6 = [answer(6, NODE_INFO, node(6)), answer(6, GUID_INFO, build(GUIDInfo, guid_block=[0, 0xA1]))]
KEEPS = answer(5, GUID_INFO, build(GUIDInfo, guid_block=[GUID_5]))


@few("rows", [0, 1], fast=(0,))
def test_a_guid_that_a_port_shows_is_its_own(rows: int) -> None:
    """A manager of a virtual machine has an alias GUID; who writes the GUIDs copies what it read."""
    of_alias = answer(5, SM_INFO, build(SMInfo, guid=0xA1, act_count=1, sm_state=STANDBY))
    of_sibling = answer(5, SM_INFO, build(SMInfo, guid=GUID_5 + 5, act_count=1, sm_state=STANDBY))
    written = ask(5, GUID_INFO, method=SET, body=build(GUIDInfo, guid_block=[0xA1, 7]))

    def found(code: str, *frames: bytes) -> list[str]:
        return severities(code, frames, chunks=[1] * (len(frames) - 1) if rows else [])

    for shown in (SHOWN, BLOCK_3, OTHER_FIRST):
        assert found("SEM069", CA, shown, of_alias) == []
    for shown in (KEEPS, CA):
        assert found("SEM069", CA, shown, of_alias) == ["info"], "not all blocks are shown"
        assert found("SEM069", CA, shown, of_sibling) == ["warning"], "an alias is not of the maker of the port"
    assert found("SEM069", CA, PORT, KEEPS, of_alias) == ["warning"], "GUIDCap 8: one block"
    assert found("SEM069", CA, *OF_PORT_6, of_sibling) == ["warning"], "another port's"
    routed = build(SMInfo, guid=GUID_5 + 5, act_count=1, sm_state=STANDBY), build(SMInfo, guid=GUID_5 + 16, act_count=1, sm_state=STANDBY)
    for shown, how in zip(routed, ("warning", "info"), strict=True):  # LID 6 may have answered: a manager names its own port
        assert found("SEM069", back(NODE_INFO, node(5), [1]), *OF_PORT_6, back(SM_INFO, shown, [1])) == [how]
        assert found("SEM069", CA, *OF_PORT_6, answer(5, SM_INFO, shown)) == ["warning"], "a LID leads to one port"
    assert found("SEM047", CA, OTHER_FIRST, written) == []
    assert found("SEM047", CA, KEEPS, written) == ["error"]
    for status, how in ((0, "info"), (0x1C, "error")):  # it ignores the entry, or refuses the block
        kept = answer(5, GUID_INFO, build(GUIDInfo, guid_block=[GUID_5, 7]), header={"status": status})
        assert found("SEM047", CA, KEEPS, written, kept) == [how]


@few("window", [1, 1 << 20], fast=(1,))
def test_counts_of_two_ports_on_one_route(window: int) -> None:
    """Two hosts of two subnets number their requests alike: the second NodeInfo without hops shows it."""
    counts = [back(PORT_INFO, port_info(1, p_key_violations=count), []) for count in (0, 9)]
    assert severities("PKY015", [back(NODE_INFO, node(1), []), *counts], window=window) == ["warning"]
    assert severities("PKY015", [back(NODE_INFO, node(1), []), back(NODE_INFO, node(9), []), *counts], window=window) == ["info"]


# two managers of one subnet
def says(lid: int, state: int, count: int) -> bytes:
    return answer(lid, SM_INFO, build(SMInfo, guid=GUID_1 if lid == 1 else GUID_5, act_count=count, sm_state=state))


TWO_MASTERS = [*sweep(), says(1, MASTER, 1), says(5, MASTER, 1), says(1, MASTER, 2)]
HANDOVER = smp(SET, SM_INFO, build(SMInfo, guid=GUID_5, act_count=3, sm_state=MASTER), modifier=1, slid=5, dlid=1)


@few("end", [HANDOVER, says(5, STANDBY, 2), says(1, STANDBY, 3)], ids=["handover", "other", "first"], fast=(2,))
def test_masters_that_find_each_other(end: bytes) -> None:
    """After two subnets were joined, one of both hands over in its next sweep; two that remain master for long are a fault."""
    assert severities("SEM044", TWO_MASTERS) == severities("SEM044", [*TWO_MASTERS, says(5, MASTER, 2)]) == ["error"]
    assert severities("SEM044", [*TWO_MASTERS, end]) == ["info"]
    beside = ask(5, PORT_INFO)
    for wait, found in ((30, "info"), (31, "error")):
        assert severities("SEM044", [*TWO_MASTERS, *[beside] * (wait - 1), end], step_ns=SECOND_NS) == [found]


# a port of a joined subnet with a LID that is given already
JOINED = [*sweep(), back(NODE_INFO, switch(2, 4, local_port_num=1), [1]), back(NODE_INFO, node(8), [1, 3])]
STRANGER = back(PORT_INFO, port_info(5, master_sm_lid=77, operational_vls=1), [1, 3])
GETS_8 = exchange(PORT_INFO, port_info(8, **STATES), [1, 3], port_info(8))


def test_a_port_of_a_joined_subnet_gets_a_lid_at_once() -> None:
    beside = ask(5, PORT_INFO)
    assert severities("LNK024", [*JOINED, STRANGER]) == ["error"]
    assert severities("LNK024", [*JOINED, STRANGER, *GETS_8]) == ["info"]
    again = exchange(PORT_INFO, port_info(5, **STATES), [1, 3], port_info(5))
    assert severities("LNK024", [*JOINED, STRANGER, *again]) == ["error"], "the same one"
    for wait, found in ((10, "info"), (11, "error")):
        assert severities("LNK024", [*JOINED, STRANGER, *[beside] * (wait - 2), *GETS_8], step_ns=SECOND_NS) == [found]


def test_an_answer_to_a_request_with_the_number_of_a_trap() -> None:
    """A Set accounts for it like a Get, as does one that the capture may have missed."""
    known, answered = [CA, PORT, trap(144), repress(144)], answer(5, NOTICE, notice(144), header={"transaction_id": 7})
    set_ = ask(5, NOTICE, method=SET, body=notice(144), header={"transaction_id": 7})
    assert severities("SMP018", [*known, answered]) == ["warning"]
    assert severities("SMP018", [*known, set_, answered]) == []
    get = ask(5, NOTICE, header={"transaction_id": 7})
    assert severities("SMP018", [*known[:3], get, known[3], answered]) == [], "under way when the trap is repressed"
    assert severities("SMP018", [*known[:3], get, answered, known[3], answered]) == ["warning"], "answered before"
    assert severities("SMP018", [*known, answered], lost={5}) == ["info"]
    for seconds, found in ((10, "warning"), (11, "info")):
        beside = [trap(128, slid=6)] * (seconds - 1)
        assert severities("SMP018", [*known, *beside, answered], step_ns=SECOND_NS) == [found]


def moved(lid: int, to: int, method: int = SET) -> bytes:
    """The LID of a port is written, or a port shows that it was."""
    ends = {"slid": 1, "dlid": lid} if method == SET else {"slid": lid, "dlid": 1}
    return smp(method, PORT_INFO, port_info(to, **(STATES if method == SET else {})), header={"transaction_id": 0x1300 + lid}, **ends)


@pytest.mark.slow
def test_who_is_named_by_a_lid() -> None:
    """Where no manager is seen, a LID is another node's after a while; and while a manager writes LIDs."""
    asks, beside = ask(5, SWITCH_INFO), ask(6, PORT_INFO)
    for seconds, how in ((10, "warning"), (11, "info")):
        assert severities("AM004", [CA, *[beside] * (seconds - 1), asks], step_ns=SECOND_NS) == [how]
    assert severities("AM004", [CA, moved(7, 8), moved(7, 8, 0x81), asks]) == ["warning"]
    assert severities("AM004", [CA, PORT, moved(5, 7), asks]) == ["info"], "no answer shows whether it has it still"
    routed = smp(0x01, SWITCH_INFO, path=[1])
    assert severities("AM004", [back(NODE_INFO, node(5), [1]), *[beside] * 20, routed], step_ns=SECOND_NS) == ["warning"], "no LID"


EIGHT, SIXTEEN = (answer(2, NODE_INFO, switch(2, ports)) for ports in (8, 16))


def test_a_switch_that_was_restarted_with_its_ports_split() -> None:
    """It shows more ports soon after, or was asked for them; and somebody whose manager is not seen reads a table of long ago."""
    to_9, beside = bytes([0xFF, 9]).ljust(64, b"\xff"), ask(6, PORT_INFO)
    known, written = [EIGHT, answer(2, SWITCH_INFO, switch_info())], ask(2, LINEAR, method=SET, body=to_9)
    for wait, how in ((10, "info"), (12, "error")):
        assert severities("SEM027", [*known, written, *[beside] * (wait - 1), SIXTEEN], step_ns=SECOND_NS) == [how]
        assert severities("SEM027", [*known, *[beside] * wait, answer(2, LINEAR, to_9)], step_ns=SECOND_NS) == (["info"])
    assert severities("SEM027", [*known, written, EIGHT]) == severities("SEM027", [*known, answer(2, LINEAR, to_9)]) == ["error"]
    assert severities("SEM027", [*known, ask(2, NODE_INFO, header={"transaction_id": 0x77}), written]) == ["info"]
    on_route = [back(NODE_INFO, switch(2, 8), [1]), smp(0x01, NODE_INFO, path=[1, 9])]
    assert severities("SMP027", on_route) == ["warning"]
    assert severities("SMP027", [*on_route, back(NODE_INFO, switch(2, 16), [1])]) == ["info"]


def test_lanes_that_follow_their_table() -> None:
    """A manager writes both, in whichever order."""
    two, many = (port_info(5, operational_vls=vls, vl_cap=5) for vls in (2, 5))
    known, table = [CA, answer(5, PORT_INFO, two)], ask(5, 0x17, method=SET, body=bytes([0x99] * 8).ljust(64, b"\0"))
    head: Any = {"header": {"transaction_id": 0x1400}}
    follows = [ask(5, PORT_INFO, method=SET, body=many, **head), answer(5, PORT_INFO, many, **head)]
    assert severities("SEM026", [*known, table]) == severities("SEM026", [*known, table, answer(5, PORT_INFO, two)]) == ["warning"]
    assert severities("SEM026", [*known, table, *follows]) == ["info"]
    assert severities("SEM026", [*known, follows[0], table, follows[1]]) == severities("SEM026", [*known, follows[0], table]) == ["info"]
    ends = answer(5, PORT_INFO, port_info(5, operational_vls=2, vl_cap=5, port_state=2))
    assert severities("SEM026", [*known, table, ends]) == ["info"], "the link went down"


def test_a_trap_to_the_new_lid_of_the_master() -> None:
    """Its port was given another one; the sender hears of it where the capture does not show it."""
    known = [back(NODE_INFO, node(1), []), back(PORT_INFO, port_info(1), []), CA, PORT]
    to_9 = trap(144, dlid=9)
    gets = [smp(method, PORT_INFO, port_info(9, **more), path=[], header={"transaction_id": 0x1500}) for method, more in
            ((SET, STATES), (0x81, {}))]  # fmt: skip
    assert severities("SMP014", [*known, to_9]) == ["warning"]
    assert severities("SMP014", [*known, *gets, to_9]) == []
    assert severities("SMP014", [*known, gets[0], to_9]) == ["info"]


def page(number: int, following: int) -> bytes:
    """A page of the port's diagnostics, which names the next one."""
    return answer(5, 0x30, bytes([0, following]), modifier=number)


def test_pages_that_are_made_anew_while_they_are_read() -> None:
    """Each page is of its time; a ring is one if it stays."""
    ring = [CA, page(7, 8), page(8, 7)]
    assert severities("SEM030", ring) == ["error"]
    assert severities("SEM030", [*ring, page(7, 0)]) == ["info"]
    assert severities("SEM030", [*ring, page(7, 8), page(7, 0)]) == ["error"], "it was one for a while"
    assert severities("SEM030", [*ring, page(9, 0)]) == ["error"], "another page"


def test_pages_of_more_ports_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a ring stays is not known then."""
    monkeypatch.setattr("ibdissect.rules.SEM.port_features.MAX_CHAINS", 2)
    assert severities("SEM030", [CA, page(7, 8), page(8, 7), page(9, 0)]) == ["info"]


ENABLED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "SEM008": ({"link_width_supported": 3}, {"link_width_enabled": 19}, {"link_width_supported": 19}),
    "SEM010": ({"link_speed_ext_supported": 1}, {"link_speed_ext_enabled": 2}, {"link_speed_ext_supported": 3}),
    "SEM064": ({"link_speed_ext_supported2": 0}, {"link_speed_ext_enabled2": 1}, {"link_speed_ext_supported2": 1}),
}


@few("code", ENABLED, fast=(2,))
def test_a_port_that_has_by_now_what_it_lacked(code: str) -> None:
    """With other firmware, or another cable; a port that only repeats the Set does not say so."""
    lacks, enabled, has = ENABLED[code]
    written = ask(5, PORT_INFO, method=SET, body=port_info(5, **lacks, **enabled, **STATES))
    known = [CA, answer(5, PORT_INFO, port_info(5, **lacks)), written]
    loud = severities(code, known)
    assert loud in (["error"], ["warning"])
    assert severities(code, [*known, answer(5, PORT_INFO, port_info(5, **lacks, **enabled))]) == loud
    assert severities(code, [*known, answer(5, PORT_INFO, port_info(5, **has))]) == ["info"]
    later = [answer(5, PORT_INFO, port_info(5, **body), header={"transaction_id": 9}) for body in ({**lacks, **enabled}, has)]
    for seconds, found in ((1, ["info"]), (10, ["info"]), (11, loud)):
        times = [SECOND_NS, SECOND_NS, SECOND_NS, (1 + seconds) * SECOND_NS]
        assert severities(code, [*known, later[1]], times=times) == found, "the answer to the Set is lost"
        assert severities(code, [*known, later[0]], times=times) == loud


@pytest.mark.parametrize("lid", [0, 0xFFFF])
def test_a_port_without_a_lid_has_no_manager_yet(lid: int) -> None:
    """Nobody wrote its MasterSMLID."""
    assert severities("SEM066", [CA, answer(5, PORT_INFO, port_info(lid, port_state=2, master_sm_lid=0xFFFF))]) == []
    assert severities("SEM066", [CA, answer(5, PORT_INFO, port_info(5, port_state=2, master_sm_lid=0xFFFF))]) == ["warning"]


def test_a_status_of_a_vendors_attribute() -> None:
    def told(attribute: int) -> list[str]:
        return severities("SMP028", [smp(0x81, attribute, header={"status": 0x0100})])

    assert (told(0xFF00), told(0xFEFF)) == ([], ["warning"])


@pytest.mark.parametrize(("seconds", "found"), [(2, "info"), (4, "warning")])
def test_a_capture_that_begins_between_a_trap_and_its_acknowledgement(seconds: int, found: str) -> None:
    """A TrapRepress whose trap is not in the capture may answer an earlier one; after ten seconds that one would have come again."""
    wrong = [CA, PORT, trap(144), repress(144, tid=8), trap(144)]
    assert severities("SMP019", wrong, step_ns=seconds * SECOND_NS) == [found]


def test_a_later_acknowledgement_with_the_wrong_number_counts() -> None:
    once = [trap(144), repress(144, tid=8)]
    assert severities("SMP019", [CA, PORT, *once, *once * 6, trap(144)], step_ns=SECOND_NS) == ["warning"]


@pytest.mark.parametrize(("state", "seconds", "found"), [(1, 60, "error"), (4, 60, "info"), (4, 10, "error")])
def test_a_group_lasts_while_it_has_a_full_member(state: int, seconds: int, found: str) -> None:
    """One without may have ended, and another port made it anew with keys of its own."""
    told = [member(join_state=state), *[sent()] * (seconds - 1), sent(q_key=0x1234)]
    assert severities("QKY004", told, step_ns=SECOND_NS) == [found]


def test_who_asks_nodes_without_a_lease_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.rules.MKY.leases.MAX_ASKED", 1)
    held = {"m_key": 7, "m_key_protect_bits": 1}
    wrong = ask(5, PORT_INFO, method=SET, body=port_info(5, **STATES), m_key=9)

    def found(lease: int) -> list[str]:
        others = [answer(6, NODE_INFO, node(6)), answer(6, PORT_INFO, port_info(6, m_key_lease_period=lease, **held))]
        leased = [ask(5, PORT_INFO, m_key=7), answer(5, PORT_INFO, port_info(5, m_key_lease_period=1, **held)), wrong]
        return severities("MKY008", [*others, ask(6, NODE_INFO, m_key=7), CA, *leased, *[trap(128, slid=6)] * 3], step_ns=SECOND_NS // 2)

    assert (found(0), found(1)) == (["warning"], ["info"])


def gone_and_back(manager: int, *port: bytes, again: int = 1) -> list[bytes]:
    """A port leaves the broadcast group; then LID 1 is told by directed route which manager it has, and the port sends."""
    bodies = [port_info(1, master_sm_lid=lid) for lid in (1, manager)]
    before, told = ([smp(method, PORT_INFO, body, path=[1, 1]) for method in (SET, 0x81)] for body in bodies)
    found = [smp(0x81, NODE_INFO, node(1), path=[1, 1]), *port]
    return [*found, *before, *JOIN, *LEAVE, *told * again, *WAIT[:2], broadcast()]


def test_a_port_that_joins_again_at_another_manager() -> None:
    """A capture on the link of the first one does not show that."""
    assert severities("MCG005", gone_and_back(1, CA, PORT), step_ns=SECOND_NS) == ["warning"]
    assert severities("MCG005", gone_and_back(9, CA, PORT), step_ns=SECOND_NS) == ["info"]
    assert severities("MCG005", gone_and_back(9, again=2), step_ns=SECOND_NS) == ["info"], "it writes LID 1; nobody knows the port"


PARTITIONED = [CA, answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x0042)), answer(1, NODE_INFO, node(1)), answer(1, P_KEY_TABLE, p_keys(0xFFFF))]
JOINS = [ASKED, member(p_key=0x8042, port_gid=PORT_GID)]


@few(("code", "told", "late"), [("PKY018", [path(0x8042)], 1), ("PKY023", JOINS, 5)], fast=(1,))
def test_tables_that_a_manager_is_just_writing(code: str, told: list[bytes], late: int) -> None:
    """It tells of a partition before it has written all ports."""
    known = [one if code == "PKY018" else answer(5, P_KEY_TABLE, p_keys(0xFFFF)) if one is PARTITIONED[1] else one for one in PARTITIONED]
    read = {key: {"header": {"transaction_id": key}} for key in (0x8042, 0x8043)}
    with_it, without = ([ask(late, P_KEY_TABLE, **one), answer(late, P_KEY_TABLE, p_keys(0xFFFF, key), **one)] for key, one in read.items())
    assert severities(code, [*known, *told]) == severities(code, [*known, *told, *without]) == ["warning"]
    assert severities(code, [*known, *told, *with_it]) == severities(code, [*known, *told, *without, *with_it]) == ["info"]
    assert severities(code, [*known, *told, *with_it, *without]) == ["warning"]
    assert severities(code, [*known, *told, *WAIT[:1], *with_it], step_ns=6 * SECOND_NS) == ["warning"], "it was not writing"


@pytest.mark.parametrize(("kind", "found"), [(1, ["warning"]), (3, [])])
def test_a_path_over_a_router(kind: int, found: list[str]) -> None:
    """Beyond it another subnet's table decides."""
    end = [answer(5, NODE_INFO, node(5, node_type=kind)), *PARTITIONED[1:3], answer(1, P_KEY_TABLE, p_keys(0xFFFF, 0x0042, 0x8123))]
    assert severities("PKY018", [*end, path(0x0042)]) == severities("PKY018", [*end, path(0x8123)]) == found


@pytest.mark.parametrize(("code", "method", "early"), [("MKY001", SET, False), ("MKY001", SET, True), ("MKY003", 0x01, False)])
def test_a_request_for_the_manager_may_need_no_key(code: str, method: int, early: bool) -> None:
    """SMInfo is the manager's attribute: many adapters hand it over without a look at the M_Key."""
    shown = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=2), m_key=7)
    first = [ask(5, NODE_INFO, header={"transaction_id": 8}), answer(5, NODE_INFO, node(5), header={"transaction_id": 8})]
    for attribute, found in ((SM_INFO, "info"), (SM_INFO + 1, "error" if method == SET else "warning")):
        asked = ask(5, attribute, method=method, body=build(SMInfo, guid=1, sm_state=MASTER), header={"transaction_id": 9})
        frames = [*first, asked, ask(5, PORT_INFO, m_key=7), shown] if early else [CA, shown, asked]
        assert severities(code, frames) == [found]
        complaint = trap(256, bad_key(method=method, attributeid=attribute, mkey=0))
        assert early or severities(code, [*frames, complaint]) == ["error" if method == SET else "warning"]


def test_a_lease_that_such_a_request_may_not_have_started() -> None:
    shown = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=2, m_key_lease_period=2), m_key=7)
    for attribute, found in ((SM_INFO, "info"), (NODE_INFO, "warning")):
        frames = [CA, ask(5, PORT_INFO, m_key=7), shown, ask(5, attribute), *[trap(128, slid=6)] * 3]
        assert severities("MKY008", frames, step_ns=SECOND_NS) == [found]


@pytest.mark.parametrize("chunks", [(1003,), *(pytest.param(one, marks=pytest.mark.slow) for one in ((), (1002,), (1004,)))])
@pytest.mark.parametrize(("between", "key", "found"), [(0, 8, []), (1, 8, ["info"]), (0, 9, ["info"])])
def test_a_request_that_is_recorded_behind_its_trap(between: int, key: int, found: list[str], chunks: tuple[int, ...]) -> None:
    """Two mirrors change the order of records, by milliseconds."""
    idle = [trap(128, slid=6, tid=tid) for tid in range(1001)]
    asked = ask(5, PORT_INFO, method=SET, body=port_info(5, **STATES), m_key=key, header={"transaction_id": 99})
    frames = [ask(5, PORT_INFO), *idle, trap(256, bad_key(mkey=8)), *idle[:between], asked, *idle[:20]]
    assert severities("MKY010", frames, chunks=chunks, step_ns=10_000_000) == found
