"""Proofs of the rules about RoCE."""

from __future__ import annotations

from tests.craft import build, ethernet_pcap, native, roce2
from tests.rules.cases import case
from tests.rules.cases_grh import gid

FAR = {"source": bytes([10, 0, 0, 1])}
CNP = bytes(16)


def roce1() -> bytes:
    """A RoCE v1 frame."""
    packet = native(payload=b"12345678", grh={"sgid": gid("fe80::1"), "dgid": gid("fe80::2")})
    return bytes(range(12)) + b"\x89\x15" + packet[8:-2]


def general(q_key: int) -> bytes:
    """A management datagram over RoCE v2."""
    from ibdissect.wire.transport import DETH
    from tests.craft import mad

    body = mad(7, 3, 0x14)
    return roce2(0x64, body, headers=build(DETH, q_key=q_key, srcqp=1), bth={"destqp": 1})


def roce(code: str, bad: bytes, twin: bytes) -> None:
    """Register a proof on Ethernet."""
    case(code, bad, twin, file=ethernet_pcap)


roce("ROC003", roce2(udp={"source_port": 1234}), roce2(udp={"source_port": 0xC000}))
roce("ROC009", roce2(0x81, CNP, headers=b"", bth={"psn": 5, "becn": 1}), roce2(0x81, CNP, headers=b"", bth={"psn": 0, "becn": 1}))
roce("ROC009", roce2(0x81, CNP, headers=b"", bth={"psn": 0}), roce2(0x81, CNP, headers=b"", bth={"psn": 0, "becn": 1}))
roce("ROC010", roce2(ip={"ttl": 1, **FAR}), roce2(ip={"ttl": 2, **FAR}))
roce("ROC010", roce2(ip={"ttl": 0, **FAR}), roce2(ip={"ttl": 1}))
roce("ROC011", general(0), general(0x80010000))
roce("ROC012", roce2(bth={"p_key": 0x8001}), roce2(bth={"p_key": 0xFFFF}))
roce("ROC013", roce2(ip={"more_fragments": 1, "dont_fragment": 0}), roce2(ip={"dont_fragment": 0}))
roce("ROC015", roce1(), roce2())
