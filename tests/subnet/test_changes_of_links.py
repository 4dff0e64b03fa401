"""Lost and found links, changes of managers and moved LIDs are reported."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.wire.sm import SMInfo
from tests import craft
from tests.subnet.made import ANSWER, answer, node, port_info, switch
from tests.subnet.test_changes import changes_of

NODE_INFO, PORT_INFO, SM_INFO = 0x11, 0x15, 0x20
DOWN, ACTIVE = 1, 4


def routed(attribute: int, body: bytes, *path: int, port: int = 0) -> bytes:
    return craft.smp(ANSWER, attribute, body, path=list(path), modifier=port)


def manager(state: int, priority: int, **kw: Any) -> bytes:
    return answer(1, SM_INFO, craft.build(SMInfo, 64, guid=0xABCD, sm_state=state, priority=priority), **kw)


FOUND = [
    routed(NODE_INFO, node(1)), routed(NODE_INFO, switch(2, 8, local_port_num=1), 1), routed(NODE_INFO, node(5), 1, 3),
    routed(PORT_INFO, port_info(0, local_port_num=1), 1, port=3),
]  # fmt: skip
GONE = routed(PORT_INFO, port_info(0, port_state=DOWN, port_physical_state=2), 1, port=3)


def test_a_link_that_goes_and_comes_back() -> None:
    assert [(one.kind, one.frame) for one in changes_of([*FOUND, GONE])] == [("link-lost", 5)]
    back = [routed(PORT_INFO, port_info(0), 1, port=3), routed(NODE_INFO, node(5), 1, 3)]
    story = changes_of([*FOUND, GONE, *back])
    assert [(one.kind, one.frame) for one in story] == [("link-lost", 5), ("link-found", 7)]
    assert story[0].text.startswith("link lost: ") and story[1].text.startswith("link restored: ")
    assert [one.frame for one in changes_of([*FOUND, GONE, *back, GONE])] == [5, 7, 8], "a second time is news again"


def test_either_end_of_a_lost_link_may_come_back_elsewhere() -> None:
    """A cable that is found first is no news, also while another one is lost."""
    found = changes_of([*FOUND, GONE, *(routed(NODE_INFO, node(lid), 1, hop) for lid, hop in ((6, 4), (5, 5), (7, 3), (8, 6)))])
    assert [(one.kind, one.frame) for one in found] == [("link-lost", 5), ("link-found", 7), ("link-found", 8)]


def test_another_adapter_on_the_cable() -> None:
    story = changes_of([*FOUND, routed(NODE_INFO, node(7), 1, 3)])
    assert [one.kind for one in story] == ["link-lost", "link-found"]


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (((2, 5), (2, 5), (3, 5), (3, 9)), [(3, "is standby, priority 5"), (5, "was standby, is master, priority 5"),
                                            (6, "has priority 9, had 5")]),
        (((0, 4), (9, 4), (0, 4)), [(3, "is not active, priority 4"), (4, "was not active, is 9, priority 4"),
                                    (5, "was 9, is not active, priority 4")]),
    ],
)  # fmt: skip
def test_managers(states: tuple[tuple[int, int], ...], told: list[tuple[int, str]]) -> None:
    port = [answer(1, NODE_INFO, node(1)), answer(1, PORT_INFO, port_info(1))]
    story = changes_of([*port, *(manager(*state) for state in states)])
    assert [(one.frame, one.text) for one in story] == [
        (frame, f"subnet manager 0x000000000000abcd (LID 1) {what}") for frame, what in told
    ]  # fmt: skip


def test_a_manager_whose_lid_nobody_showed() -> None:
    body = craft.build(SMInfo, 64, guid=0x17, sm_state=3, priority=4)
    story = changes_of([routed(NODE_INFO, node(1)), routed(SM_INFO, body)])
    assert [one.text for one in story] == ["subnet manager 0x0000000000000017 is master, priority 4"]


def test_a_lid_of_somebody_else() -> None:
    first, second = ([routed(NODE_INFO, node(lid), 1, hop), routed(PORT_INFO, port_info(5), 1, hop)] for lid, hop in ((5, 3), (7, 4)))
    story = changes_of([*FOUND[:2], *first, *second])
    assert [(one.kind, one.frame) for one in story] == [("lid", 6)]
    assert "took over a LID of" in story[0].text
