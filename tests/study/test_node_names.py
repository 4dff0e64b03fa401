"""Do directed routes show the node that they lead to, and those who ask?"""

from __future__ import annotations

from ibdissect.fabric import FabricFollower
from ibdissect.study.node_names import route_ends, state_of
from tests import craft
from tests.fabric.made import ANSWER, node, switch
from tests.table.made import native_table


def test_ends_of_directed_routes() -> None:
    follower = FabricFollower()
    empty = state_of(follower)
    shown = [
        craft.smp(ANSWER, 0x11, node(1), path=[]), craft.smp(ANSWER, 0x10, b"manager".ljust(64, b"\0"), path=[]),
        craft.smp(ANSWER, 0x11, switch(2, 4, local_port_num=1), path=[1]), craft.smp(ANSWER, 0x10, b"leaf".ljust(64, b"\0"), path=[1]),
    ]  # fmt: skip
    list(follower.feed(native_table(shown)))
    assert state_of(follower) != empty
    later = native_table([craft.smp(1, 0x15, path=[1]), craft.smp(ANSWER, 0x15, path=[1]), craft.smp(1, 0x15, path=[1, 3])])
    assert route_ends(later, follower.routes) == {0: ("manager", "leaf"), 1: ("leaf", "manager"), 2: ("manager", "")}
