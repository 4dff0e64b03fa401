"""Proofs of the rules about SMPs and their routes."""

from __future__ import annotations

from ibdissect.wire.sm_port import PortInfo
from tests.craft import build, mad, native, smp, ud
from tests.craft import headers_of as headers
from tests.rules.cases import case

NODE_INFO, PORT_INFO = 0x11, 0x15


def at_qp(qp: int, data: bytes, **kw: object) -> bytes:
    """A UD packet on VL15 to a queue pair."""
    return native(0x64, data, headers=headers(0x64), lrh={"vl": 15}, bth={"destqp": qp, "m": 0}, **kw)  # type: ignore[arg-type]


def leftovers() -> bytes:
    """A LID-routed Get with a path behind the attribute."""
    data = bytearray(mad(0x01, 1, NODE_INFO))
    data[129:131] = b"\x01\x02"
    return ud(bytes(data), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15})


def short(size: int) -> bytes:
    """A Get(NodeInfo) of `size` bytes."""
    return ud(mad(0x01, 1, NODE_INFO, size=size), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15})


case("SMP001", short(252), short(256))
case("SMP002", smp(6, NODE_INFO), smp(1, NODE_INFO))
case("SMP003", smp(1, NODE_INFO, path=[1], dr={"initial_path": b"\x01\x01"}), smp(1, NODE_INFO, path=[1], dr={"initial_path": b"\x00\x01"}))
case("SMP004", smp(1, NODE_INFO, path=[1, 2], dr={"hop_pointer": 4}), smp(1, NODE_INFO, path=[1, 2], dr={"hop_pointer": 3}))
case("SMP007", smp(1, NODE_INFO, path=[1], dr={"hop_count": 64}), smp(1, NODE_INFO, path=[1], dr={"hop_count": 63}))
case("SMP008", smp(0x81, PORT_INFO, build(PortInfo, vl_cap=4), path=[1], dr={"d": 0}),
     smp(0x81, PORT_INFO, build(PortInfo, vl_cap=4), path=[1], dr={"d": 1}))  # fmt: skip
case("SMP008", smp(1, NODE_INFO, path=[1], dr={"d": 1, "hop_pointer": 0}), smp(1, NODE_INFO, path=[1], dr={"d": 0}))
case("SMP009", leftovers(), short(256))
case("SMP011", smp(1, NODE_INFO, path=[1], dr={"dr_slid": 1}, slid=1, dlid=2), smp(1, NODE_INFO, path=[1]))
case("SMP012", smp(1, NODE_INFO, path=[1], slid=5, dlid=7), smp(1, NODE_INFO, path=[1]))
case("SMP017", at_qp(5, mad(0x01, 0x81, PORT_INFO, build(PortInfo, vl_cap=4), at=64)),
     at_qp(0, mad(0x01, 0x81, PORT_INFO, build(PortInfo, vl_cap=4), at=64)), also=["LNK010"])  # fmt: skip
case("SMP024", ud(mad(0x01, 1, NODE_INFO)), smp(1, NODE_INFO))
