"""Proofs of the rules about the global route header."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

from ibdissect.wire.sa_paths import MCMemberRecord
from tests.craft import build, gmp, native, ud
from tests.rules.cases import case


def gid(text: str) -> bytes:
    """A GID from its IPv6 text."""
    return IPv6Address(text).packed


def routed(**grh: Any) -> bytes:
    """An RC packet with a GRH."""
    return native(payload=b"12345678", grh={"sgid": gid("fe80::1"), "dgid": gid("fe80::2"), **grh})


def group(mgid: str, **kw: Any) -> bytes:
    """A datagram to a multicast group."""
    return ud(b"12345678", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001, grh={"sgid": gid("fe80::1"), "dgid": gid(mgid)}, **kw)


def join(mgid: str, method: int = 2) -> bytes:
    """A request for membership of a group with all components that creating it takes."""
    mask = 0x130C7.to_bytes(8, "big")
    return gmp(3, method, 0x38, mask + build(MCMemberRecord, mgid=gid(mgid), port_gid=gid("fe80::1"), join_state=1), at=48)


case("GRH001", routed(ipver=4), routed())
case("GRH002", routed(nxt_hdr=17), routed())
case("GRH003", routed(pay_len=28), routed(pay_len=24))
case("GRH004", routed(sgid=gid("2001::1"), dgid=gid("2001:1::1")), routed(sgid=gid("2001::1"), dgid=gid("2001:1::1"), hop_lmt=2))
case("GRH005", routed(sgid=gid("ff12::1")), routed(sgid=gid("fe12::1")))
case("GRH006", routed(sgid=bytes(16)), routed())
case("GRH007", routed(dgid=bytes(16)), routed())
case("GRH008", ud(b"1234", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001), group("ff12:401b:ffff::1"))
case("GRH010", group("ff92::1"), group("ff92:401b:ffff::1"))
case("GRH011", group("ff13::1"), group("ff15::1"))
case("GRH012", join("ff12:a01b::1"), join("ff15:a01b::1"))
