"""Proofs of the partition rules that need no state."""

from __future__ import annotations

import struct

from ibdissect.wire.notice import Notice, TrapSwitchPKey
from tests.craft import build, gmp, native, smp, ud
from tests.rules.cases import case
from tests.rules.cases_grh import gid

NETWORK = {"sgid": gid("fe80::1"), "dgid": gid("ff12:401b:8001::ffff:ffff")}


def keys(*values: int) -> bytes:
    """The start of a P_KeyTable block."""
    return struct.pack(f">{len(values)}H", *values).ljust(64, b"\0")


def arp(p_key: int) -> bytes:
    """A packet to the broadcast group of partition 0x8001."""
    return ud(b"arp arp ", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001, grh=NETWORK, bth={"p_key": p_key})


def trap259() -> bytes:
    """Notice of a switch about a packet with a wrong P_Key."""
    details = build(TrapSwitchPKey, data_valid=1, lidaddr1=4, lidaddr2=5, pkey=0x8123, swlidaddr=2, portno=7)
    return build(Notice, is_generic=1, type=2, producer_type=2, trap_number=259, issuer_lid=2, data_details=details)


case("PKY002", native(bth={"p_key": 0x8000}), native(bth={"p_key": 0x8001}))
case("PKY006", smp(1, 0x11, bth={"p_key": 0x8001}), smp(1, 0x11, bth={"p_key": 0x7FFF}))
case("PKY007", gmp(4, 1, 0x12, bth={"p_key": 0x8002}), gmp(4, 1, 0x12, bth={"p_key": 0x7FFF}))
case("PKY008", smp(2, 0x16, keys(0, 0x8001)), smp(2, 0x16, keys(0x7FFF, 0x8001)))
case("PKY009", smp(2, 0x16, keys(0xFFFF, 0x8001, 0x8001)), smp(2, 0x16, keys(0xFFFF, 0x8001, 0x0001, 0, 0)))
case("PKY010", smp(2, 0x16, keys(0xFFFF, 0x8000)), smp(2, 0x16, keys(0xFFFF, 0x0000)))
case("PKY014", smp(5, 2, trap259(), slid=2), smp(7, 2, trap259(), slid=2))
case("PKY019", arp(0x0001), arp(0x8001))
case("PKY020", arp(0xFFFF), arp(0x8001))
