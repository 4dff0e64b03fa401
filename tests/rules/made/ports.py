"""Ports that show one thing and then another, for proofs of several families."""

from __future__ import annotations

from typing import Any

from tests.rules.cases import case
from tests.subnet.made import SET, answer, ask, node, port_info, switch, switch_info

NODE_INFO, SWITCH_INFO, PORT_INFO = 0x11, 0x12, 0x15
CA, SWITCH = answer(5, NODE_INFO, node(5)), answer(5, NODE_INFO, switch(5, local_port_num=3))
INFO = answer(5, SWITCH_INFO, switch_info())


def answer_case(code: str, attribute: int, before: bytes, bad: bytes, good: bytes, **kw: Any) -> None:
    """Two answers of a port; the second is at fault, or not."""
    first = answer(5, attribute, before)
    case(code, [CA, first, answer(5, attribute, bad)], [CA, first, answer(5, attribute, good)], frames=[3], **kw)


def write_case(code: str, known: list[bytes], attribute: int, bad: bytes, good: bytes, *, modifier: int = 0, **kw: Any) -> None:
    """A Set that does not fit what is known, and one that does."""
    case(code, [*known, ask(5, attribute, method=SET, modifier=modifier, body=bad)],
         [*known, ask(5, attribute, method=SET, modifier=modifier, body=good)], frames=[len(known) + 1], **kw)  # fmt: skip


def set_port(lid: int = 5, **values: Any) -> bytes:
    """PortInfo as a manager writes it: no state change."""
    return port_info(lid, port_state=0, port_physical_state=0, **values)
