"""Does a Set that nobody answered make only those findings uncertain that rest on its target?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.craft import rc, smp
from tests.fabric.made import ANSWER, GET, SET, node, port_info
from tests.robustness.compare import findings_of
from tests.robustness.scenarios import Fabric

NODE_INFO, PORT_INFO = 0x11, 0x15
TO = {"slid": 1, "dlid": 3}


def severities(happen: Callable[[Fabric], None]) -> dict[str, set[str]]:
    """Severities by code of what is found when host 1 sends to host 3 in a partition and on a VL that neither has, after this happened."""
    fabric = Fabric()
    fabric.sweep()
    fabric.wait(20)
    happen(fabric)
    fabric.wait(20)
    fabric.sent(rc(4, b"12345678", lrh={"slid": 1, "dlid": 3}, bth={"destqp": 9, "psn": 1, "p_key": 0x8999}))
    fabric.send(1, 3, 64, 5, qp=0xD00)
    fabric.wait(20)
    found: dict[str, set[str]] = {}
    for one in findings_of(fabric.pcap().packed()):
        found.setdefault(one.code, set()).add(one.severity)
    return {code: found[code] for code in ("PKY003", "PKY004", "LNK016")}


def unanswered(fabric: Fabric, method: int = SET, attribute: int = PORT_INFO, **way: object) -> None:
    fabric.transaction += 1
    header = {"transaction_id": 1 << 32 | fabric.transaction}
    fabric.sent(smp(method, attribute, port_info(3, operational_vls=1), header=header, **way))


def superseded(fabric: Fabric) -> None:
    """The sender goes on with the same transaction id: a Set without an answer, a Set with one, and another request."""
    for method, attribute, body in ((SET, PORT_INFO, port_info(3)), (SET, NODE_INFO, node(3)), (GET, NODE_INFO, node(3))):
        header = {"transaction_id": 1 << 32 | 9000}
        fabric.sent(smp(method, attribute, body if method == SET else b"", path=[1, 3], header=header))
    fabric.sent(smp(ANSWER, NODE_INFO, node(3), path=[1, 3], header=header))


CERTAIN, UNCERTAIN = {"error"}, {"info"}


@pytest.mark.parametrize(
    ("happen", "to_3", "from_1", "all_ports"),
    [
        (lambda fabric: None, CERTAIN, CERTAIN, CERTAIN),
        (lambda fabric: unanswered(fabric, path=[1, 3]), UNCERTAIN, CERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, **TO), UNCERTAIN, CERTAIN, UNCERTAIN),
        (superseded, UNCERTAIN, CERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, path=[]), CERTAIN, UNCERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, path=[1, 5]), CERTAIN, CERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, path=[1, 6]), CERTAIN, CERTAIN, UNCERTAIN),  # nobody is there
        (lambda fabric: unanswered(fabric, GET, path=[1, 3]), CERTAIN, CERTAIN, CERTAIN),
    ],
)
def test_only_what_rests_on_the_target_is_uncertain(
    happen: Callable[[Fabric], None], to_3: set[str], from_1: set[str], all_ports: set[str]
) -> None:
    assert severities(happen) == {"PKY003": to_3, "PKY004": from_1, "LNK016": all_ports}
