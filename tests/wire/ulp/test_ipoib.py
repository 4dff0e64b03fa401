"""A packet of IP or ARP is told from what only looks like one, beside every length and version that the documents allow."""

from __future__ import annotations

from ibdissect.wire.ulp import ipoib
from tests.cases import every


def four(size: int, first: int = 0x45, length: int | None = None) -> bytes:
    return bytes((first, 0)) + (size if length is None else length).to_bytes(2, "big") + bytes(size - 4)


def six(size: int, first: int = 0x60, length: int | None = None) -> bytes:
    return bytes((first, 0, 0, 0)) + (size - 40 if length is None else length).to_bytes(2, "big") + bytes(size - 6)


IP4, IP6, OF_ARP = 0x0800, 0x86DD, 0x0806
ARP = b"\0\x20\x08\0\x14\x04" + bytes(50)


@every(
    ("number", "body", "fits"),
    [
        (IP4, four(20), True), (IP4, four(20, 0x4F), True), (IP4, four(19), False),
        (IP4, four(20, 0x44), False), (IP4, four(20, 0x55), False), (IP4, four(20, 0x35), False),
        (IP4, four(60, length=59), False), (IP4, four(60, length=61), False), (IP4, four(300), True),
        (IP6, six(40), True), (IP6, six(40, 0x6F), True), (IP6, six(39, length=0), False),
        (IP6, six(40, 0x50), False), (IP6, six(40, 0x70), False), (IP6, six(41, length=0), False),
        (IP6, six(41, length=2), False), (IP6, six(400), True), (IP6, four(40), False),
        (OF_ARP, ARP, True), (OF_ARP, ARP[:-1], False), (OF_ARP, ARP + b"\0", False),
        (OF_ARP, ARP.replace(b"\x14\x04", b"\x14\x06"), False), (0x8035, ARP, False), (IP4, b"", False),
    ],
)  # fmt: skip
def test_packets_of_ip_over_infiniband(number: int, body: bytes, fits: bool) -> None:
    assert ipoib.fits(number, body) is fits
