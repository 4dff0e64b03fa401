"""Packets and requests before their ports are known, for proofs of several families."""

from __future__ import annotations

from tests.subnet.made import answer, ask

P_KEY_TABLE, PORT_INFO, NODE_INFO = 0x16, 0x15, 0x11


def exchange(lid: int, attribute: int, body: bytes, transaction: int) -> list[bytes]:
    """A Get and its answer."""
    header = {"transaction_id": transaction}
    return [ask(lid, attribute, header=header), answer(lid, attribute, body, header=header)]
