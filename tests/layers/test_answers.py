"""Layers pair requests with their answers as Scapy's `answers` and `hashret` promise, and `MAD in pkt` finds any MAD."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.packet import Packet, Raw
from scapy.plist import PacketList

import ibdissect.layers as layers
from ibdissect.layers import BTH, DETH, LRH, MAD, RETH
from tests.cases import every

layers_: Any = layers
RC = {"read": 0x0C, "read response": 0x10, "ack": 0x11, "atomic ack": 0x12, "add": 0x14, "send": 0x04, "uc send": 0x24, "write": 0x0A}


def smp(method: int, tid: int, *, attribute: int = 0x15, back: bool = False) -> Packet:
    ends: Any = {"slid": 2, "dlid": 1} if back else {"slid": 1, "dlid": 2}
    made = LRH(**ends) / BTH() / DETH() / layers_.SMPDirected(method=method, transaction_id=tid, attribute_id=attribute)
    return LRH(bytes(made))


def cm(attribute: str, tid: int = 5, **ids: int) -> Packet:
    return LRH(bytes(LRH() / BTH() / DETH() / MAD(mgmt_class=7, transaction_id=tid) / getattr(layers_, attribute)(**ids)))


def rc(kind: str, psn: int) -> Any:
    return BTH(opcode=RC[kind], psn=psn)


@every(
    ("answer", "request_", "expected"),
    [
        (smp(0x81, 7, back=True), smp(1, 7), True), (smp(0x81, 7, back=True), smp(2, 7), True),
        (smp(0x81, 8, back=True), smp(1, 7), False), (smp(0x81, 7, attribute=0x11, back=True), smp(1, 7), False),
        (smp(1, 7), smp(0x81, 7, back=True), False), (smp(1, 7), smp(1, 7), False),
    ],
)  # fmt: skip
def test_mads(answer: Packet, request_: Packet, expected: bool) -> None:
    assert bool(answer[MAD].answers(request_[MAD])) == expected
    assert bool(answer[BTH].answers(request_[BTH])) == expected


ASKED = {"local_communication_id": 9}


@every(
    ("answer", "request_", "expected"),
    [
        (cm("REP", remote_communication_id=9), cm("REQ", **ASKED), True), (cm("REP", remote_communication_id=8), cm("REQ", **ASKED), False),
        (cm("REJ", remote_communication_id=9), cm("REQ", **ASKED), True), (cm("RTU", remote_communication_id=9), cm("REP", **ASKED), True),
        (cm("RTU", remote_communication_id=9), cm("REQ", **ASKED), False),
        (cm("DREP", remote_communication_id=9), cm("DREQ", **ASKED), True),
        (cm("SIDRRep", tid=6), cm("SIDRReq", tid=6), True), (cm("SIDRRep", tid=6), cm("SIDRReq", tid=7), False),
    ],
)  # fmt: skip
def test_connection_management(answer: Packet, request_: Packet, expected: bool) -> None:
    assert bool(answer[MAD].answers(request_[MAD])) == expected


@every(
    ("answer", "request_", "expected"),
    [
        (("ack", 5), ("send", 5), True), (("ack", 5), ("write", 5), True), (("ack", 6), ("send", 5), False),
        (("read response", 5), ("read", 5), True), (("ack", 5), ("read", 5), False), (("atomic ack", 5), ("add", 5), True),
        (("ack", 5), ("uc send", 5), False), (("send", 5), ("ack", 5), False), (("ack", 5), ("ack", 5), False),
    ],
)  # fmt: skip
def test_rc(answer: tuple[str, int], request_: tuple[str, int], expected: bool) -> None:
    one, other = rc(*answer), rc(*request_)
    assert bool(one.answers(other)) == expected
    assert (one.hashret() == other.hashret()) == (answer[1] == request_[1])


def test_a_list_is_paired() -> None:
    packets = [smp(1, 7), smp(1, 8), smp(0x81, 8, back=True), smp(0x81, 7, back=True), smp(1, 9)]
    pairs, rest = PacketList([one[BTH] for one in packets]).sr()
    assert sorted((q[MAD].transaction_id, a[MAD].transaction_id) for q, a in pairs) == [(7, 7), (8, 8)]
    assert [one[MAD].transaction_id for one in rest] == [9]


def test_any_mad_is_a_mad() -> None:
    packet = smp(1, 7)
    assert MAD in packet and packet[MAD].transaction_id == 7 and packet.haslayer(MAD)
    assert MAD not in LRH(bytes(LRH() / BTH(opcode=4) / Raw(b"abcd")))


@pytest.mark.parametrize(("opcode", "size"), [(0x0A, 8), (0x0C, 0)])
def test_the_length_of_a_request_is_filled(opcode: int, size: int) -> None:
    made = LRH() / BTH(opcode=opcode) / RETH() / Raw(bytes(size)) if size else LRH() / BTH(opcode=opcode) / RETH()
    assert LRH(bytes(made))[RETH].dmalen == size
    assert LRH(bytes(LRH() / BTH(opcode=opcode) / RETH(dmalen=99)))[RETH].dmalen == 99


def test_immediate_data_does_not_count() -> None:
    made = LRH() / BTH() / RETH() / layers_.ImmDt(immdt=1) / Raw(bytes(12))
    assert LRH(bytes(made))[RETH].dmalen == 12


def test_all_layers_are_imported_by_a_star() -> None:
    found: dict[str, Any] = {}
    exec("from ibdissect.layers import *", found)
    assert {"RETH", "PortInfo", "SMPDirected", "MAD"} <= found.keys() and "TCP" not in found
    assert issubclass(found["PortInfo"], Packet)
