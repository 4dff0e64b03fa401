"""Proofs of the queue-key rules."""

from __future__ import annotations

from ibdissect.wire.transport import DETH
from tests.craft import build, gmp, native, smp, ud
from tests.rules.cases import case

case("QKY001", gmp(4, 1, 0x12, q_key=1), ud(b"1234", dest_qp=9, src_qp=1, q_key=1))
case("QKY002", smp(1, 0x11, q_key=5), smp(1, 0x11))
case("QKY003", ud(b"1234", dest_qp=9, src_qp=7, q_key=0x80000001), ud(b"1234", dest_qp=9, src_qp=7, q_key=0x7FFFFFFF))
RESERVED = build(DETH, q_key=5, srcqp=7, reserved8=1)
case("QKY006", native(0x64, b"1234", headers=RESERVED, bth={"destqp": 9}), ud(b"1234", dest_qp=9, src_qp=7, q_key=5))
case("QKY007", smp(1, 0x11, src_qp=7), smp(1, 0x11))
