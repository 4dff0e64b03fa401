"""Proofs of the rules about acknowledgements, atomics and RDMA requests."""

from __future__ import annotations

from tests.craft import rc
from tests.rules.cases import case


def ack(syndrome: int) -> bytes:
    """An Acknowledge."""
    return rc(0x11, ext={"AETH": {"syndrome": syndrome, "msn": 1}})


def write(payload: bytes, **reth: int) -> bytes:
    """An RDMA WRITE Only."""
    return rc(0x0A, payload, ext={"RETH": reth})


case("RC004", ack(0x60), ack(0x1F))
case("RC005", ack(0x7F), ack(0x1F))
case("RC006", ack(0xC0), ack(0x1F))
case("RC006", ack(0x40), ack(0x1F))
case("RC016", rc(0x14, b"1234", ext={"AtomicETH": {"r_key": 9}}), rc(0x14, ext={"AtomicETH": {"r_key": 9}}))
case("RC018", write(b"12345", dmalen=5), write(b"12345", dmalen=5, r_key=9))
case("RC020", write(b"1234", r_key=9), write(b"", r_key=9), also=["BTH006"])
