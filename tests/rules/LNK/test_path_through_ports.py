"""Packets and the ports at both ends: each packet is counted once, and a limit proves little where others are set anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.craft import native, smp
from tests.rules.findings import counted, lint
from tests.rules.made.subnets import NODE_INFO, PORT_INFO, back, data, sweep
from tests.subnet.made import ANSWER, GET, SET, node, port_info, switch


def test_packets_on_a_lane_that_no_link_has_are_counted_once() -> None:
    raw = native(slid=1, dlid=5, lrh={"lnh": 0, "vl": 3})
    assert counted([*sweep(), data(vl=3), raw, data(vl=3)], "LNK016") == [(10, 2), (11, 1)]


@pytest.mark.slow
def test_a_manager_gives_all_ports_another_mtu() -> None:
    """The link of LID 1 shows its own Set, and not those of the others, unless it shows that manager at all of them."""
    of_manager: dict[str, Any] = {"header": {"transaction_id": 7 << 32}}

    def judged(mtu: int, *more: bytes) -> list[str]:
        written = port_info(1, neighbor_mtu=mtu, master_sm_lid=9, port_state=0, port_physical_state=0)
        own = [
            back(NODE_INFO, node(1), [3], **of_manager), smp(SET, PORT_INFO, written, path=[3], modifier=1, **of_manager),
            smp(ANSWER, PORT_INFO, port_info(1, neighbor_mtu=mtu, master_sm_lid=9), path=[3], modifier=1, **of_manager),
        ]  # fmt: skip
        before = sweep(neighbor_mtu=4, master_sm_lid=9)
        return [str(one.severity) for one in lint([*before, *more, *own, data(4096)], "LNK022")]

    ends = [back(NODE_INFO, switch(2, 2, local_port_num=1), [4], **of_manager), back(NODE_INFO, node(5), [4, 2], **of_manager)]
    everywhere = [*ends, *(smp(GET, PORT_INFO, path=path, modifier=path[-1], **of_manager) for path in ([4], [4, 2]))]
    assert judged(5) == ["info"]
    assert judged(4) == ["error"], "the MTU of before"
    assert judged(5, *ends) == ["info"], "it asks for NodeInfo along every link, wherever it writes"
    assert judged(5, *everywhere) == ["error"]


@pytest.mark.parametrize(("before", "how"), [(2, "error"), (4, "info")])
def test_a_port_that_comes_up_says_nothing_of_those_that_carry_data(before: int, how: str) -> None:
    six = [back(NODE_INFO, node(6), [3]), back(PORT_INFO, port_info(6, neighbor_mtu=1, port_state=before), [3])]
    later = back(PORT_INFO, port_info(6, neighbor_mtu=5), [3])
    assert [str(one.severity) for one in lint([*six, *sweep(neighbor_mtu=4), later, data(4096)], "LNK022")] == [how]
