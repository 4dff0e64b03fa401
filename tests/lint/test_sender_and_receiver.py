"""A sentence that names nobody gets the ends of its frame, where it reads well; any other stays as it is."""

from __future__ import annotations

from ibdissect.lint.sender_and_receiver import Route, Who
from tests.cases import every

RC = Who("LID 1", "LID 2", "RC", None, 0x12)
UD = Who("10.0.0.1", "10.0.0.2", "UD", 7, 9)
SET = Who("LID 1", "0x0002c90200400050 (LID 5)", mad="SubnSet(PortInfo)", selection=" port 3")
BY_NAME = Who("10.0.0.1", "10.0.0.2", mad="SubnSet(PortInfo)")
NAMED = Who("0x0002c90200400070 (LID 7)", "LID 5", mad="SubnSet(PortInfo)")
DIRECTED = Who("", "DR 0,1,4", mad="SubnGet(NodeInfo)", route=Route(7, b"\x01\x04", returns=False, whole=True))
REACHED = Who("", "leaf port 1 (LID 9)", mad="SubnGet(NodeInfo)", route=DIRECTED.route)


@every(
    ("who", "sentence", "named"),
    [
        (RC, "link version 1", "RC LID 1 → LID 2 QP 0x000012: link version 1"),
        (RC, "RC SEND Only (4) to queue pair 1", "LID 1 → LID 2 QP 0x000012: RC SEND Only (4) to queue pair 1"),
        (UD, "the byte is 1", "UD 10.0.0.1 QP 0x000007 → 10.0.0.2 QP 0x000009: the byte is 1"),
        (RC, "LID 1 sends to LID 7", "LID 1 sends to LID 7"),
        (RC, "the destination LID is 0", "RC LID 1 → LID 2 QP 0x000012: the destination LID is 0"),
        (RC, "DrSLID 1, LID 65535", "RC LID 1 → LID 2 QP 0x000012: DrSLID 1, LID 65535"),
        (RC, "PortInfo with LID 5", "RC LID 1 → LID 2 QP 0x000012: PortInfo with LID 5"),
        (RC, "the port with LID 5 has", "the port with LID 5 has"),
        (RC, "component mask 0x8000000000000000", "RC LID 1 → LID 2 QP 0x000012: component mask 0x8000000000000000"),
        (RC, "node 0x0002c90300001000 has", "node 0x0002c90300001000 has"),
        (RC, "the source GID ff12::1 is", "RC LID 1 → LID 2 QP 0x000012: the source GID ff12::1 is"),
        (RC, "fe80::1 sends to ff12::1", "fe80::1 sends to ff12::1"),
        (SET, "MTU 9", "SubnSet(PortInfo) port 3 from LID 1 to 0x0002c90200400050 (LID 5): MTU 9"),
        (SET, "Set(PortInfo) with MTU 9", "SubnSet(PortInfo) port 3 from LID 1 to 0x0002c90200400050 (LID 5) with MTU 9"),
        (SET, "SubnSet(PortInfo) port 3: no", "SubnSet(PortInfo) port 3 from LID 1 to 0x0002c90200400050 (LID 5): no"),
        (SET, "Set(PortInfo) of it", "SubnSet(PortInfo) port 3 from LID 1 to 0x0002c90200400050 (LID 5): Set(PortInfo) of it"),
        (SET, "Set(PortInfo) of LID 5: no", "Set(PortInfo) from LID 1 of LID 5: no"),
        (SET, "Set(PortInfo) to LID 5 from LID 1", "Set(PortInfo) to LID 5 from LID 1"),
        (SET, "Set(PortInfo) to LID 5, not LID 1", "Set(PortInfo) to LID 5, not LID 1"),
        (SET, "Set(PortInfo) to LID 5, not LID 10", "Set(PortInfo) from LID 1 to LID 5, not LID 10"),
        (BY_NAME, "Set(PortInfo) to LID 5: no", "Set(PortInfo) from 10.0.0.1 to LID 5: no"),
        (BY_NAME, "Set(PortInfo) to LID 5, not 10.0.0.1", "Set(PortInfo) to LID 5, not 10.0.0.1"),
        (BY_NAME, "Set(PortInfo) to LID 5, not 10.0.0.10", "Set(PortInfo) from 10.0.0.1 to LID 5, not 10.0.0.10"),
        (NAMED, "Set(PortInfo) to LID 5, not LID 7", "Set(PortInfo) to LID 5, not LID 7"),
        (DIRECTED, "SubnGet(NodeInfo) has id 0", "SubnGet(NodeInfo) to DR 0,1,4 has id 0"),
        (DIRECTED, "SubnGet(NodeInfo) to route 0,1,4 was not answered", "SubnGet(NodeInfo) to DR 0,1,4 was not answered"),
        (REACHED, "SubnGet(NodeInfo) to route 0,1,4 was not", "SubnGet(NodeInfo) to leaf port 1 (LID 9) along DR 0,1,4 was not"),
        (Who(), "credits are used up", "credits are used up"),
    ],
)  # fmt: skip
def test_sentences(who: Who, sentence: str, named: str) -> None:
    assert who.name_in(sentence) == named


def test_a_long_route_is_cut() -> None:
    def way(hops: int) -> str:
        return Who(route=Route(1, bytes(hops), returns=False, whole=True)).way

    assert way(16) == "DR 0" + ",0" * 16
    assert way(17) == "DR 0" + ",0" * 16 + ",... (17 hops)"
