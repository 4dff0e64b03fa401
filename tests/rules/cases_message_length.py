"""Proofs of the rules about payload lengths."""

from __future__ import annotations

from tests.craft import native, rc
from tests.rules.cases import case


def write(opcode: int, size: int, announced: int) -> bytes:
    return rc(opcode, bytes(size), ext={"RETH": {"dmalen": announced, "r_key": 7}})


case("BTH006", write(0x0A, 8, 100), write(0x0A, 8, 8))
case("BTH006", write(0x2A, 7, 8), write(0x2A, 7, 7))
case("BTH007", native(0x01, bytes(100)), native(0x01, bytes(256)))
case("BTH007", native(0x01, bytes(768)), native(0x02, bytes(768)))
