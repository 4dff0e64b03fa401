"""Packets of a connection that was agreed on, for proofs of several families."""

from __future__ import annotations

from tests.craft import rc
from tests.rules.made.connections import ACTIVE, PASSIVE


def packet(p_key: int, psn: int = 900, *, opcode: int = 0x04, back: bool = False) -> bytes:
    """A packet of the connection between QP 0x100 of LID 1 and QP 0x200 of LID 2."""
    ends, qp = (PASSIVE, 0x100) if back else (ACTIVE, 0x200)
    payload = b"" if opcode & 0x1F == 0x11 else b"data"
    return rc(opcode, payload, bth={"destqp": qp, "psn": psn, "p_key": p_key}, **ends)
