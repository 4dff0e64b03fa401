"""A packet of IP or ARP is told from what only looks like one, beside every length and version that the documents allow."""

from __future__ import annotations

from ibdissect.wire.encapsulation import ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6
from ibdissect.wire.ulp import ipoib
from tests.cases import every


def four(size: int, first: int = 0x45, length: int | None = None) -> bytes:
    return bytes((first, 0)) + (size if length is None else length).to_bytes(2, "big") + bytes(size - 4)


def six(size: int, first: int = 0x60, length: int | None = None) -> bytes:
    return bytes((first, 0, 0, 0)) + (size - 40 if length is None else length).to_bytes(2, "big") + bytes(size - 6)


ARP = b"\0\x20\x08\0\x14\x04" + bytes(50)


@every(
    ("number", "body", "fits"),
    [
        (ETHERTYPE_IPV4, four(20), True), (ETHERTYPE_IPV4, four(20, 0x4F), True), (ETHERTYPE_IPV4, four(19), False),
        (ETHERTYPE_IPV4, four(20, 0x44), False), (ETHERTYPE_IPV4, four(20, 0x55), False), (ETHERTYPE_IPV4, four(20, 0x35), False),
        (ETHERTYPE_IPV4, four(60, length=59), False), (ETHERTYPE_IPV4, four(60, length=61), False), (ETHERTYPE_IPV4, four(300), True),
        (ETHERTYPE_IPV6, six(40), True), (ETHERTYPE_IPV6, six(40, 0x6F), True), (ETHERTYPE_IPV6, six(39, length=0), False),
        (ETHERTYPE_IPV6, six(40, 0x50), False), (ETHERTYPE_IPV6, six(40, 0x70), False), (ETHERTYPE_IPV6, six(41, length=0), False),
        (ETHERTYPE_IPV6, six(41, length=2), False), (ETHERTYPE_IPV6, six(400), True), (ETHERTYPE_IPV6, four(40), False),
        (ETHERTYPE_ARP, ARP, True), (ETHERTYPE_ARP, ARP[:-1], False), (ETHERTYPE_ARP, ARP + b"\0", False),
        (ETHERTYPE_ARP, ARP.replace(b"\x14\x04", b"\x14\x06"), False), (0x8035, ARP, False), (ETHERTYPE_IPV4, b"", False),
    ],
)  # fmt: skip
def test_packets_of_ip_over_infiniband(number: int, body: bytes, fits: bool) -> None:
    assert ipoib.fits(number, body) is fits
