"""A finding about a sender of SMPs begins with its first frame."""

from __future__ import annotations

import pytest

from tests.rules.findings import lint
from tests.rules.made.ports import set_port
from tests.rules.SMP.cases import MANAGED
from tests.subnet.made import SET, ask, p_keys


@pytest.mark.parametrize("window", [64, 1 << 20])
def test_sets_of_several_attributes_are_one_finding_of_the_first_frame(window: int) -> None:
    table, port = ask(5, 0x16, method=SET, body=p_keys(0xFFFF), slid=7), ask(5, 0x15, method=SET, body=set_port(master_sm_lid=1), slid=7)
    for sets in ([table, port, table], [port, table, port]):
        assert [(one.frame, one.count) for one in lint([*MANAGED, *sets], "SMP025", window=window)] == [(3, 3)]
