"""What looks like a management datagram or a message of SMC-R is hidden on a queue pair of which nothing is known."""

from __future__ import annotations

import io

import pytest

import ibdissect
from tests import smc
from tests.cases import every
from tests.craft import build, erf_pcap, ethernet_pcap, mad, rc, sa_mad, ud
from tests.decode.test_queue_pairs_with_keys import KEY, shows
from tests.keyed import roce

QUERY = sa_mad(1, 0x35, sm_key=int.from_bytes(KEY * 2, "big"))
CONFIRM = build("SMCConfirmRkey", r_key=int.from_bytes(KEY, "big"))[2:]


@pytest.mark.parametrize("qp", [2, 0x77, 0xFFFFFF])
def test_a_query_to_a_redirected_agent(qp: int) -> None:
    assert not shows(erf_pcap([ud(QUERY, dest_qp=qp)]))


@every(
    ("payload", "hidden"),
    [
        (QUERY, True), (QUERY[:255], False), (QUERY + bytes(4), False), (b"\2" + QUERY[1:], False), (mad(0x77, 1, 0x12, b"data"), False),
        (b"\x80" + QUERY[1:2] + b"\x80" + QUERY[3:] + bytes(99), True), (bytes([6, 44]) + bytes(41) + b"x", True),
        (bytes([6, 43]) + bytes(41) + b"x", False), (bytes([6, 44]) + bytes(42) + b"x", False),
        (bytes([0xFE, 44]) + bytes(41) + b"x", False),
        (b"\x26\0\x50" + bytes(76) + b"x", True), (b"\x26\0\x51" + bytes(76) + b"x", False), (b"abc", False),
    ],
)  # fmt: skip
def test_which_payloads_are_alike(payload: bytes, hidden: bool) -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([ud(payload, dest_qp=0x77)]))) as opened:
        assert bool(opened.dissect(1).secret_bytes) == hidden


def test_messages_of_smc_whose_handshake_is_not_known() -> None:
    """It is missing, or an Accept stands in two segments."""
    message = smc.message(6, CONFIRM)
    parts = [smc.segment(smc.ACCEPT[:20], answer=True), smc.segment(smc.ACCEPT[20:], answer=True, at=1020)]
    handshake = [smc.segment(smc.PROPOSAL), *parts, smc.segment(smc.CONFIRM, at=1052)]
    assert not shows(ethernet_pcap([message])) and not shows(ethernet_pcap([*handshake, message]))


@pytest.mark.parametrize(("version", "ethertype"), [(4, b"\x08\0"), (6, b"\x86\xdd")])
def test_roce_in_ip_over_infiniband(version: int, ethertype: bytes) -> None:
    """Other packets, and what only begins as one, are shown."""
    request = rc(0x0C, ext={"RETH": {"va": 0x1000, "r_key": int.from_bytes(KEY, "big"), "dmalen": 64}})
    packet = roce(request, version)[14:]
    other = packet.replace((4791).to_bytes(2, "big"), b"\0\x35")
    for q_key in (0xB1B, 0x1234):
        said = [ud(ethertype + bytes(2) + data, dest_qp=0x55, q_key=q_key) for data in (packet, other)]
        assert [shows(erf_pcap([one])) for one in said] == [False, True]
    assert shows(erf_pcap([ud(b"\x12\x34\0\0" + packet, dest_qp=0x55)]))


def test_data_in_requests_that_are_not_datagrams_are_shown() -> None:
    assert shows(erf_pcap([rc(4, QUERY, bth={"destqp": 0x77})]))
