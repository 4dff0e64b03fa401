"""The port that is accused of dropping a service level, where a path has two ends that drop it."""

from __future__ import annotations

from tests.craft import rc
from tests.rules.CM.cases import DROPPING
from tests.rules.findings import lint
from tests.rules.made.connections import request
from tests.subnet.made import answer, node, port_info


def test_the_port_that_sends_with_the_level_has_another_table() -> None:
    """The other one still drops it."""
    ports = [answer(lid, *one) for lid in (1, 2) for one in (
        (0x11, node(lid)), (0x15, port_info(lid, vl_cap=2, operational_vls=1, capability_mask=1 << 6)), (0x17, DROPPING))]  # fmt: skip
    sent = rc(0x04, b"data", bth={"destqp": 0x49}, slid=2, dlid=1, lrh={"sl": 1})
    found = lint([*ports, request(primary_sl=1), sent], "CM022")
    assert [(one.arguments["port"].split()[-1], str(one.severity)) for one in found] == [("1)", "warning"), ("2)", "info")]
