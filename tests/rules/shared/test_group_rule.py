"""Nodes that have to register again between two frames: a restart is told by two of them, not by one."""

from __future__ import annotations

import random

import pytest

from ibdissect.decode.identity import NodeId
from ibdissect.rules.shared.group_rule import Administrators


@pytest.mark.parametrize("seed", range(20))
def test_a_restart_is_told_by_two_nodes(seed: int) -> None:
    rnd = random.Random(seed)
    sets = [(NodeId(rnd.randrange(3)), frame) for frame in sorted(rnd.sample(range(1, 60), rnd.randrange(12)))]
    known = Administrators()
    for node, frame in sets:
        known.anew.keep((node, frame), None, frame, 0)
    for after in range(62):
        for before in range(62):
            wanted = len({node for node, frame in sets if after < frame < before}) > 1
            assert known.restarted(after, before) == wanted, (sets, after, before)
