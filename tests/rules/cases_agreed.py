"""Proofs of the rules that compare a connection's packets with its REQ and REP."""

from __future__ import annotations

from tests.craft import rc
from tests.rules.cases import case
from tests.rules.cases_connection import ACTIVE, LEAVE, PASSIVE, READY, reply, request


def packet(p_key: int, psn: int = 900, *, opcode: int = 0x04, back: bool = False) -> bytes:
    """A packet of the connection between QP 0x100 of LID 1 and QP 0x200 of LID 2."""
    ends, qp = (PASSIVE, 0x100) if back else (ACTIVE, 0x200)
    payload = b"" if opcode & 0x1F == 0x11 else b"data"
    return rc(opcode, payload, bth={"destqp": qp, "psn": psn, "p_key": p_key}, **ends)


SETUP = [request(partition_key=0x8001), reply(), READY]
case(
    "PKY005", [*SETUP, packet(0x8001), packet(0x8002, 901), packet(0x8002, 902)], [*SETUP, packet(0x8001), packet(0x0001, 901)], frames=[5]
)
# after the end of the connection the number may belong to another one
case("PKY005", [*SETUP, packet(0x8002)], [*SETUP, LEAVE, packet(0x8002)], frames=[4])
# another sender
OTHER = rc(0x04, b"data", bth={"destqp": 0x200, "psn": 900, "p_key": 0x8002}, slid=7, dlid=2)
case("PKY005", [*SETUP, packet(0x8002)], [*SETUP, OTHER], frames=[4])

UC = [request(partition_key=0xFFFF, transport_service_type=1), reply(), READY]
case("BTH018", [*UC, packet(0xFFFF)], [*UC, packet(0xFFFF, opcode=0x24)], frames=[4])
# what comes behind packets of the agreed service may be another queue pair of that number
case("BTH018", [*UC, packet(0xFFFF)], [*UC, packet(0xFFFF, opcode=0x24), packet(0xFFFF, 901)], frames=[4])

# both ends limited: CM tells which directions belong together, however many queue pairs there are between the ports
LIMITED = [request(partition_key=0x0123), reply(), READY]
MORE = rc(0x04, b"more", bth={"destqp": 0x300, "psn": 1, "p_key": 0x8123}, **ACTIVE)
case("PKY021", [*LIMITED, MORE, packet(0x0123), packet(0x0123, opcode=0x11, back=True)],
     [*LIMITED, MORE, packet(0x0123), packet(0x8123, opcode=0x11, back=True)], frames=[6])  # fmt: skip
