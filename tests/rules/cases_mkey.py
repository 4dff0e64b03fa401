"""Proofs of the M_Key rules with state."""

from __future__ import annotations

from typing import Any

from tests.craft import smp
from tests.fabric.made import ANSWER, REPRESS, SET, answer, ask, node, port_info
from tests.rules.cases import case

KEY, OTHER = 0x1122334455667788, 0xBAD
NOTICE, PORT_INFO, NODE_INFO, P_KEY_TABLE = 0x02, 0x15, 0x11, 0x16


def shown(protect: int, key: int = KEY, **kw: Any) -> bytes:
    """The port at LID 5 shows its key to who has it."""
    return answer(5, PORT_INFO, port_info(5, m_key=key, m_key_protect_bits=protect), m_key=key, **kw)


ALSO = ("MKY005",)  # a key in the capture is reported as such
SET_KEYS: dict[str, Any] = {"method": SET, "body": bytes.fromhex("ffff") + bytes(62)}

case("MKY001", [shown(1), ask(5, P_KEY_TABLE, **SET_KEYS)], [shown(1), ask(5, P_KEY_TABLE, m_key=KEY, **SET_KEYS)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# the port does it, so its key was changed unseen
case("MKY001", [shown(1), ask(5, P_KEY_TABLE, **SET_KEYS)],
     [shown(1), ask(5, P_KEY_TABLE, **SET_KEYS), answer(5, P_KEY_TABLE, SET_KEYS["body"])],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# the key was taken off again, so nothing is wrong
case("MKY001", [shown(0), ask(5, P_KEY_TABLE, **SET_KEYS)], [shown(0), shown(0, 0), ask(5, P_KEY_TABLE, **SET_KEYS)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY002", [shown(1), ask(5, P_KEY_TABLE, m_key=OTHER, **SET_KEYS)], [shown(1), ask(6, P_KEY_TABLE, m_key=OTHER, **SET_KEYS)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY002", [shown(1), ask(5, NOTICE, method=REPRESS, m_key=OTHER)], [shown(1), ask(5, NOTICE, method=REPRESS, m_key=KEY)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# a directed route whose NodeInfo came back
ROUTE = [
    smp(ANSWER, NODE_INFO, node(5), path=[1, 2]),
    smp(ANSWER, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1), path=[1, 2], m_key=KEY),
]
case("MKY002", [*ROUTE, smp(SET, P_KEY_TABLE, SET_KEYS["body"], path=[1, 2], m_key=OTHER)],
     [*ROUTE, smp(SET, P_KEY_TABLE, SET_KEYS["body"], path=[1, 3], m_key=OTHER)], frames=[3], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY003", [shown(2), ask(5, NODE_INFO)], [shown(1), ask(5, NODE_INFO)], frames=[2], also=ALSO, twin_also=ALSO)
# a query of the node's own port may bypass the check
case("MKY003", [shown(2), ask(5, NODE_INFO, m_key=OTHER, slid=9)], [shown(2), ask(5, NODE_INFO, m_key=OTHER, slid=5)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY004", [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))],
     [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=0, m_key_protect_bits=1))], frames=[2], also=ALSO)  # fmt: skip
# the answer to the Set that installs the key shows it to who wrote it
case("MKY004", [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))],
     [ask(5, PORT_INFO, method=SET, body=port_info(5, m_key=KEY, m_key_protect_bits=1, port_state=0, port_physical_state=0)),
      answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))], frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
