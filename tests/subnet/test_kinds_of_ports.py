"""What a port may be follows from its number, its LID and the kind of its node, as long as that holds. A tree tells it: components that no
such port has are undefined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibdissect.capture import records
from tests.commands import run
from tests.craft import erf_pcap, sa_mad, smp, ud
from tests.standard import CA, ROUTER, SWITCH
from tests.subnet.made import ANSWER, SET, answer, node, port_info, switch

LINK, OWN, RELAY = "NeighborMTU", "GUIDCap", "VLStallCount"
"""What only ports with a link have, only ports with an agent, and only external ports of switches."""
OF_ADAPTER, OF_PORT_0, OF_EXTERNAL = {RELAY}, {LINK, RELAY}, {OWN}
PORT_0_OR_ADAPTER, NOT_PORT_0, NOT_SWITCH = {RELAY}, set[str](), {RELAY}
"""What is undefined in a PortInfo of the port, or of either."""
SECOND = 1_000_000_000


def undefined(frames: Sequence[bytes], times: Sequence[int] | None = None) -> list[set[str]]:
    """Of each PortInfo what is undefined."""
    return told(run("show", "-", "--format", "tree", stdin=erf_pcap(frames, times=times), text=True).stdout)


def told(text: str) -> list[set[str]]:
    trees = re.split(r"^Frame \d+:", text, flags=re.MULTILINE)
    return [{name for name in (LINK, OWN, RELAY) if re.search(rf"{name}:.*\(undefined\)", tree)} for tree in trees if "GUIDCap" in tree]


CASES = [
    (CA, 0, True, OF_ADAPTER), (CA, 9, False, OF_ADAPTER), (ROUTER, 1, True, OF_ADAPTER), (SWITCH, 0, True, OF_PORT_0),
    (SWITCH, 1, True, OF_EXTERNAL), (0, 0, True, PORT_0_OR_ADAPTER), (0, 4, True, NOT_SWITCH), (0, 5, True, NOT_PORT_0),
    (0, 4, False, NOT_PORT_0), (7, 4, True, NOT_SWITCH),
]  # fmt: skip
"""NodeType (0: unknown), number, whether it has a LID, and what is undefined."""


def test_what_a_port_may_be() -> None:
    frames = []
    for lid, (kind, number, has_lid, _) in enumerate(CASES, 10):
        if kind:
            frames.append(answer(lid, 0x11, switch(lid, 20) if kind == SWITCH else node(lid, num_ports=9, node_type=kind)))
        frames.append(answer(lid, 0x15, port_info(lid if has_lid else 0), modifier=number))
    assert undefined(frames) == [expected for *_, expected in CASES]


def test_of_a_node_that_another_may_have_replaced() -> None:
    """Also what a port of an unknown node may be."""
    first, shown = list[bytes](), list[bytes]()
    for lid, (kind, number, has_lid, _) in enumerate(CASES, 10):
        first += [answer(lid, 0x11, switch(lid, 20) if kind == SWITCH else node(lid, num_ports=9, node_type=kind))] * (kind > 0)
        shown.append(answer(lid, 0x15, port_info(lid if has_lid else 0), modifier=number))
    unknown = undefined(shown)
    late = undefined([*first, *shown], [SECOND] * len(first) + [SECOND * 12] * len(shown))
    assert late == [expected & nobody for (*_, expected), nobody in zip(CASES, unknown, strict=True)]


def test_lids() -> None:
    """What else a port shows as its LID is none."""
    frames = [answer(5, 0x15, port_info(lid), modifier=1) for lid in (0, 1, 0xBFFF, 0xC000, 0xFFFF)]
    assert undefined(frames) == [NOT_PORT_0, NOT_SWITCH, NOT_SWITCH, NOT_PORT_0, NOT_PORT_0]


@pytest.mark.parametrize(("path", "holds_s"), [(None, 10), ([1], 1800)])
def test_a_node_is_what_it_said_for_a_while(path: list[int] | None, holds_s: int) -> None:
    """Later another node may have that LID, or be at the end of that route; its next NodeInfo tells."""
    way = {"path": path} if path else {"slid": 5, "dlid": 1}
    bodies = (0x15, port_info(5)), (0x11, switch(5)), *[(0x15, port_info(5))] * 3, (0x11, switch(5)), (0x15, port_info(5))
    times = [SECOND * second for second in (1, 1, 1, 1 + holds_s, 2 + holds_s, 2 + holds_s, 2 + holds_s)]
    found = undefined([smp(ANSWER, attribute, body, **way) for attribute, body in bodies], times)
    assert found == [PORT_0_OR_ADAPTER, OF_PORT_0, OF_PORT_0, PORT_0_OR_ADAPTER, OF_PORT_0]


def test_the_kinds_of_ports_that_answers_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first NodeInfo on; a Set and an answer that failed say nothing of a port."""
    shown = [smp(ANSWER, 0x15, port_info(5), path=[1], modifier=number) for number in (0, 1)]
    others = [smp(SET, 0x15, port_info(5), path=[1]), smp(ANSWER, 0x15, port_info(5), path=[1], header={"status": 0x1C})]
    frames = [shown[0], smp(ANSWER, 0x11, switch(5), path=[1]), *shown, *others]
    expected = [PORT_0_OR_ADAPTER, OF_PORT_0, OF_EXTERNAL, set(), set()]
    assert undefined(frames) == expected
    monkeypatch.setattr(records, "ROWS", 1)
    (tmp_path / "a.pcap").write_bytes(erf_pcap(frames))
    assert told(run("show", str(tmp_path / "a.pcap"), "--format", "tree", text=True, here=True).stdout) == expected


def test_a_record_of_port_0_is_a_switchs() -> None:
    assert undefined([ud(sa_mad(0x81, 0x12, (5).to_bytes(2, "big") + b"\0\0" + port_info(5)))]) == [OF_PORT_0]
