"""Subnets with a site policy, for proofs of several families."""

from __future__ import annotations

from tests.craft import native

PORT_INFO = 0x15


def send(p_key: int, psn: int = 1, slid: int = 3) -> bytes:
    """An RC SEND Only."""
    return native(0x04, bytes(8), slid=slid, dlid=5, bth={"p_key": p_key, "destqp": 0x20, "psn": psn})
