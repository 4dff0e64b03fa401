"""Changes of names are noticed."""

from __future__ import annotations

from ibdissect.screen_model.node_names import state_of
from ibdissect.subnet import FabricFollower
from tests import craft
from tests.decode.made import native_table
from tests.subnet.made import ANSWER


def test_a_name_changes_the_state() -> None:
    follower = FabricFollower()
    empty = state_of(follower)
    list(follower.feed(native_table([craft.smp(ANSWER, 0x10, b"manager".ljust(64, b"\0"), path=[])])))
    assert state_of(follower) != empty
