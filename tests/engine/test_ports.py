"""Does what the engine keeps of a port begin the same compiled and interpreted, and do joined origins stay joined?"""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.engine import facts, ports
from tests.engine.plain import plain


@pytest.mark.parametrize("name", ["PortState", "NodeState", "OriginState", "BlockState", "Hop"])
def test_attributes_are_the_same(name: str) -> None:
    def values(of: Any, fact: Any) -> dict[str, Any]:
        node = of.NodeState(5, 1, 7, *(fact() for _ in range(4)))
        made = {
            "PortState": lambda: of.PortState(node, 2, 9, fact(), fact(), fact()), "NodeState": lambda: node,
            "OriginState": lambda: of.OriginState(3, {}, fact()), "BlockState": lambda: of.BlockState(4), "Hop": lambda: of.Hop(node, 2, 9),
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
