"""The engine's state of a port begins the same compiled and interpreted, and joined origins stay joined."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.engine import facts, ports
from tests.cases import every
from tests.engine.plain import plain


@every("name", ["PortState", "NodeState", "OriginState", "BlockState", "Hop", "PKeysState", "GuardState", "Shared"])
def test_attributes_are_the_same(name: str) -> None:
    def values(of: Any, fact: Any) -> dict[str, Any]:
        node = of.NodeState(5, 1, 7, *(fact() for _ in range(4)))
        made = {
            "PortState": lambda: of.PortState(node, 2, 9, fact(), fact(), fact()), "NodeState": lambda: node,
            "OriginState": lambda: of.OriginState(3, {}, fact()), "BlockState": lambda: of.BlockState(4), "Hop": lambda: of.Hop(node, 2, 9),
            "PKeysState": of.PKeysState, "GuardState": lambda: of.GuardState(fact(), fact()), "Shared": of.Shared,
        }[name]()  # fmt: skip
        slots = [slot for kind in type(made).__mro__ for slot in getattr(kind, "__slots__", ())]
        assert slots
        found = {slot: getattr(made, slot) for slot in slots}
        return {slot: value for slot, value in found.items() if isinstance(value, (int, bytes, dict, type(None)))}

    assert values(ports, facts.Fact) == values(plain("ports"), plain("facts").Fact)


@pytest.mark.parametrize("interpreted", [False, True])
def test_origins_with_a_common_node_are_one_group(interpreted: bool) -> None:
    of: Any = plain("ports") if interpreted else ports
    fact: Any = plain("facts").Fact if interpreted else facts.Fact
    one, other, third = (of.OriginState(number, {}, fact()) for number in range(3))
    near, far = (of.NodeState(guid, guid, 1, *(fact() for _ in range(4))) for guid in (1, 2))
    one.reach(near)
    other.reach(far)
    third.reach(far)
    assert one.group() is not other.group() and other.group() is third.group()
    third.reach(near)
    assert one.group() is other.group()


@every("interpreted", [False, True])
@every(("port", "adapter", "joined"), [(2, True, False), (1, True, True), (2, False, True)])
def test_an_adapter_with_ports_in_two_subnets_joins_none(port: int, adapter: bool, joined: bool, interpreted: bool) -> None:
    of: Any = plain("ports") if interpreted else ports
    fact: Any = plain("facts").Fact if interpreted else facts.Fact
    one, other = (of.OriginState(number, {}, fact()) for number in range(2))
    node = of.NodeState(5, 1, 7, *(fact() for _ in range(4)))
    one.reach(node, 1, adapter)
    other.reach(node, port, adapter)
    assert (one.group() is other.group()) is joined


@pytest.mark.parametrize("interpreted", [False, True])
def test_a_restarting_port_loses_keys_and_table(interpreted: bool) -> None:
    of: Any = plain("ports") if interpreted else ports
    fact: Any = plain("facts").Fact if interpreted else facts.Fact
    node = of.NodeState(5, 1, 7, *(fact() for _ in range(4)))
    port = of.PortState(node, 1, 7, fact(), fact(), fact())
    of.forget_volatile(port, 8)
    keys, guard = of.PKeysState(), of.GuardState(fact(), fact())
    port.p_keys, port.guard = keys, guard
    assert keys.learn(0, b"x" * 64, 10) and not keys.learn(0, b"x" * 64, 11) and not keys.several
    assert not keys.learn(1, None, 12) and keys.doubted == 12, "a Set of a block that was never shown"
    assert keys.learn(1, bytes(64), 13) and not keys.several, "an empty block holds no keys"
    assert keys.learn(1, b"y" * 64, 14) and keys.several and keys.block(1).since == 14 and keys.block(2) is None
    assert guard.learn((7, 1, 0), 15) and not guard.learn((7, 1, 0), 16)
    guard.pending = 9
    assert port.changes(13) == {14}
    of.forget_volatile(port, 17)
    assert [block.now for block in keys.blocks] == [None, None] and keys.block(0).at(16) == (b"x" * 64, 10)
    assert guard.held.now is None and guard.pending is None and port.changes(13) == {14, 17}
    for number in range(2, 2 * of.KEPT_BLOCKS):
        assert keys.learn(number, b"z" * 64, 20) == (number < of.KEPT_BLOCKS)


@pytest.mark.parametrize("interpreted", [False, True])
def test_equal_blocks_are_stored_once(interpreted: bool) -> None:
    of: Any = plain("ports") if interpreted else ports
    shared, block = of.Shared(), bytes(range(64))
    assert shared.share(block) is block and shared.share(bytes(range(64))) is block
    for number in range(of.MAX_SHARED):
        shared.share(number)
    again = bytes(range(64))
    assert shared.share(again) is again and len(shared.blocks) < of.MAX_SHARED, "a full store begins anew"


@pytest.mark.parametrize("interpreted", [False, True])
def test_changes_of_a_lid_are_those_of_its_owners_and_their_peers(interpreted: bool) -> None:
    of: Any = plain("ports") if interpreted else ports
    fact: Any = plain("facts").Fact if interpreted else facts.Fact
    made = [of.PortState(of.NodeState(guid, guid, 1, *(fact() for _ in range(4))), 1, 1, *(fact() for _ in range(3))) for guid in (1, 2, 3)]
    one, other, peer = made
    owners = fact()
    for port, frame in ((one, 10), (other, 20)):
        owners.learn(port, frame)
    one.infos.learn(b"a", 30)
    other.facing.learn(peer, 40)
    peer.node.switch.learn("s", 50)
    peer.lids.learn((9, 0), 60)
    assert of.owner_changes(owners, 5) == {10, 20, 30, 40, 50, 60}
    assert of.owner_changes(owners, 20) == {40, 50, 60}, "the first owner has no LID any more"
    assert of.owner_changes(owners, 60) == set()
