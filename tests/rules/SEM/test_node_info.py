"""Words of nodes about themselves: a doubtful contradiction does not hide a certain one."""

from __future__ import annotations

from tests.cases import every
from tests.rules.findings import lint
from tests.rules.SEM.cases import NODE_INFO, recorded
from tests.subnet.made import answer
from tests.subnet.made import node as port_node
from tests.subnet.made import switch as port_switch

ONE, OTHER = (answer(5, NODE_INFO, port_node(5, device_id=number)) for number in (0x1003, 0x1004))
SWITCH, SPLIT, CLONE = (answer(5, NODE_INFO, port_switch(5, num_ports=n, device_id=m)) for n, m in ((8, 1), (16, 1), (16, 2)))


@every("chunks", [(), (1, 1, 1, 1)])
@every("frames", [[recorded("one"), OTHER, ONE, OTHER], [SWITCH, SPLIT, CLONE, SPLIT]])
def test_a_contradiction_of_two_answers_is_not_counted_among_those_that_prove_less(frames: list[bytes], chunks: tuple[int, ...]) -> None:
    found = lint(frames, "SEM034", chunks=chunks)
    assert [(one.frame, str(one.severity), one.count) for one in found] == [(2, "info", 1), (3, "error", 2)]
