"""Requests to a node and what it shows, for proofs of several families."""

from __future__ import annotations

from tests.craft import native
from tests.subnet.made import answer, ask, node, port_info

NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x12, 0x15, 0x16


def send(sl: int = 0, vl: int = 0, *, slid: int = 3, dlid: int = 5) -> bytes:
    """An RC SEND Only."""
    return native(0x04, bytes(8), slid=slid, dlid=dlid, lrh={"sl": sl, "vl": vl}, bth={"destqp": 0x12})


# M_Keys
KEY = 0x1122334455667788
HELD = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_lease_period=2), m_key=KEY)]
SEEN = ["MKY005"]


def read(key: int, method: int = 1) -> bytes:
    """A request for a P_Key table."""
    return ask(5, P_KEY_TABLE, method=method, m_key=key)
