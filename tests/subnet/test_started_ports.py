"""Ports that carry data although they showed Initialize last, and Sets that explain it."""

from __future__ import annotations

from itertools import chain

import pytest

from ibdissect.subnet import started_ports
from tests.cases import every
from tests.craft import native, smp
from tests.rules.findings import lint
from tests.rules.made.traps import trap
from tests.subnet.made import ANSWER, SET, answer, ask, node, node_info, p_keys, port_info, switch

NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x15, 0x16
DOWN, INIT, ARMED, ACTIVE = 1, 2, 3, 4
FOREIGN = native(0x04, bytes(8), slid=1, dlid=5, bth={"p_key": 0x8123})


def read(state: int, lid: int = 5) -> list[bytes]:
    """A port in some state, and its whole table."""
    return [node_info(lid), answer(lid, PORT_INFO, port_info(lid, port_state=state)), answer(lid, P_KEY_TABLE, p_keys(0xFFFF))]


def written(state: int, shown: int = INIT) -> list[bytes]:
    """A manager asks for a state, and the port answers with the one before."""
    header = {"transaction_id": 0x1200 + state}
    body = port_info(5, port_state=state, port_physical_state=0)
    return [ask(5, PORT_INFO, method=SET, body=body, header=header), answer(5, PORT_INFO, port_info(5, port_state=shown), header=header)]


def how(*frames: bytes) -> list[str]:
    return [str(one.severity) for one in lint(frames, "PKY003")]


@every(("state", "found"), [(DOWN, "info"), (INIT, "info"), (ARMED, "error"), (ACTIVE, "error")])
def test_a_link_carries_data_when_it_is_armed(state: int, found: str) -> None:
    """A port that gets data has left Initialize: its manager wrote it where the capture does not show it, and perhaps its table, too."""
    assert how(*read(state), FOREIGN) == [found]


@pytest.mark.slow
def test_who_arms_it_in_the_capture_writes_the_rest_there_too() -> None:
    assert how(*read(INIT), *written(ARMED), *written(ACTIVE), FOREIGN) == ["error"]
    assert how(*written(ARMED), *read(INIT), FOREIGN) == ["info"], "that was before: it went down since"
    assert how(*read(INIT), *written(0), FOREIGN) == ["info"], "a Set that leaves its state"
    assert how(*read(INIT), FOREIGN, *written(ARMED)) == ["info"], "later"


def test_the_port_at_the_other_end_of_the_cable() -> None:
    """A switch port that shows Initialize was read before its link was set up, as was the adapter behind it."""
    route = [smp(ANSWER, NODE_INFO, switch(2, 2, local_port_num=1), path=[1]), smp(ANSWER, NODE_INFO, node(5), path=[1, 2])]
    for state, found in ((INIT, "info"), (ACTIVE, "error")):
        faced = smp(ANSWER, PORT_INFO, port_info(0, port_state=state), path=[1], modifier=2)
        assert how(*route, *read(ACTIVE), faced, FOREIGN) == [found]


def test_port_0_of_a_switch_has_no_link() -> None:
    """What it shows as its state means nothing."""
    of_switch = [answer(5, NODE_INFO, switch(5)), *read(INIT)[1:]]
    assert how(*of_switch, FOREIGN) == ["error"]


def test_more_ports_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one was armed is not known then."""
    monkeypatch.setattr(started_ports, "MAX_PORTS", 1)
    other = ask(6, PORT_INFO, method=SET, body=port_info(6, port_state=ARMED, port_physical_state=0))
    known = [*read(ACTIVE, 6), *read(INIT)]
    assert how(*known, other, *written(ARMED), FOREIGN) == ["info"]
    assert how(*known, *written(ARMED), other, FOREIGN) == ["error"]


def test_many_sets_of_a_port() -> None:
    """The latest count."""
    assert how(*read(INIT), *written(ARMED) * 20, FOREIGN) == ["error"]


@every(("state", "found"), [(DOWN, "info"), (INIT, "info"), (ARMED, "error"), (ACTIVE, "error")])
def test_a_port_that_starts_after_its_packets(state: int, found: str) -> None:
    """The table that it shows then is not the one by which it took packets."""
    asked = [ask(5, attribute) for attribute in (NODE_INFO, PORT_INFO, P_KEY_TABLE)]
    swept = list(chain.from_iterable(zip(asked, read(state), strict=True)))
    assert how(FOREIGN, *swept) == [found]
    assert how(FOREIGN, *swept, asked[1], answer(5, PORT_INFO, port_info(5))) == [found], "what it shows first counts"


def test_a_manager_that_a_port_in_initialize_has_not_heard_of() -> None:
    """It was the last one's, and the next one writes its own LID there."""
    for state, found in ((INIT, "info"), (ACTIVE, "warning")):
        port = answer(5, PORT_INFO, port_info(5, port_state=state, master_sm_lid=9))
        assert [str(one.severity) for one in lint([node_info(5), port, trap(144)], "SMP014")] == [found]
