"""The subnet learnt from the shared captures agrees with the topologies and changes they were made from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ibdissect.wire.notice import Notice
from tests.standard import ACTIVE, CA, GET, SET, SWITCH, TRAP_REPRESS
from tests.subnet.taught import Taught


def changes_of(path: Path) -> list[Any]:
    """What happened."""
    return Taught().read(path).changes


@pytest.mark.parametrize(
    ("name", "switches", "hosts", "cables"),
    [("03-sweep-ft36", 36, 324, 324 + 18 * 18), ("04-sweep-ft1024", 64, 1024, 1024 + 32 * 32)],
)
def test_fat_trees(shared: Path, name: str, switches: int, hosts: int, cables: int) -> None:
    """Two levels: every leaf has as many hosts as spines, every spine a cable to each leaf; the first sweep wrote all tables."""
    found = Taught().read(shared / f"captures/opensm/{name}.pcap")
    subnet, cabled = found.subnet, found.cables
    kinds = Counter(node.kind for node in subnet.slots.values())
    assert kinds == {SWITCH: switches, CA: hosts}
    assert len(cabled) == cables
    assert Counter(frozenset({near.node.kind, far.node.kind}) for near, far in cabled) == {
        frozenset({CA, SWITCH}): hosts, frozenset({SWITCH}): cables - hosts,
    }  # fmt: skip
    owners = {lid: subnet.by_lid(lid) for lid in range(1, 0xC000) if subnet.by_lid(lid) is not None}
    assert sorted(owners) == list(range(1, switches + hosts + 1))
    assert all(near.state == far.state == ACTIVE for near, far in cabled)
    for node in subnet.slots.values():
        if node.kind == SWITCH:
            assert node.forwarding is not None and len(node.forwarding.linear) == switches + hosts
            for lid, port in owners.items():
                assert port is not None and arrives(node, lid) is port.node


def arrives(node: Any, lid: int) -> Any:
    """Where the forwarding tables lead a packet from a switch."""
    for _ in range(6):
        if node.kind != SWITCH or node.forwarding is None:
            return node
        number, frame = node.forwarding.linear.port(lid)
        if number == 0 and frame:
            return node
        port = node.ports.get(number)
        if port is None or port.peer is None:
            return None
        node = port.peer.node
    return None


def test_handover(shared: Path) -> None:
    """Manager 1 is master, gives way to manager 17, both die in turn, and the standby manager 9 takes over."""
    managers = [(one.frame, one.text) for one in changes_of(shared / "captures/opensm/12-two-sms.pcap") if one.kind == "sm"]
    assert [text.split("(")[1] for _, text in managers] == [
        "LID 9) is discovering, priority 1",
        "LID 1) is master, priority 3",
        "LID 9) was discovering, is standby, priority 1",
        "LID 17) is discovering, priority 14",
        "LID 1) was master, is standby, priority 3",
        "LID 17) was discovering, is master, priority 14",
        "LID 1) was standby, is master, priority 3",
        "LID 9) was standby, is master, priority 1",
    ]
    assert [frame for frame, _ in managers] == [1842, 2247, 2302, 2751, 3359, 3609, 4547, 5402]


def test_flaps_and_traps(shared: Path) -> None:
    """Every trap was repressed; links came and went, an adapter moved to another port, one had another LID for a while."""
    found = Taught().read(shared / "captures/opensm/13-link-flaps.pcap")
    happened = found.changes
    traps = [one for one in happened if one.kind == "trap"]
    assert len(traps) > 15 and all(one.repressed is not None and one.frame < one.repressed < one.frame + 10 for one in traps)
    kinds = Counter(one.kind for one in happened)
    assert kinds["link-lost"] == 8 and kinds["link-found"] == 7 and kinds["lid"] == 2
    moved = [one.text for one in happened if "0x0002c90300001008" in one.text and one.kind.startswith("link")]
    assert len(moved) == 2 and "port 3 to" in moved[0] and "port 20 to" in moved[1]
    assert len(found.told("TrapSeen")) == len(found.told("RepressSeen")) == len(traps)


@pytest.mark.parametrize(("name", "refused"), [("33-mkey-enforced-prot1", 9), ("33-mkey-enforced-prot2", 95)])
def test_every_bad_m_key_trap_has_its_request(shared: Path, name: str, refused: int) -> None:
    """Each request that the protect bits forbid, and none else, led to a trap 256; but for a Get of SMInfo that ibsim left to OpenSM."""
    found = Taught().read(shared / f"captures/opensm/{name}.pcap")
    least = {SET: 0, TRAP_REPRESS: 0, GET: 2}
    requests = [one for one in found.told("WrongMKey") if one.held.protect >= least[one.method]]
    traps = [one for one in found.told("TrapSeen") if Notice(one.notice).trap_number == 256]
    assert len(requests) == refused
    by_port = Counter(event.port for event in requests if event.attribute != 0x20)
    assert by_port == Counter(event.port for event in traps)
