"""Proofs of the CRC rules."""

from __future__ import annotations

from tests.craft import ethernet_pcap, native, roce2, vcrc
from tests.rules.cases import case


def flipped(frame: bytes, at: int, bits: int = 1) -> bytes:
    """The frame with bits of one byte inverted."""
    data = bytearray(frame)
    data[at] ^= bits
    return bytes(data)


def sealed(frame: bytes) -> bytes:
    """The frame with its VCRC made right again."""
    return frame[:-2] + vcrc(frame[:-2])


PLAIN = native(payload=b"twelve bytes")
GID = bytes.fromhex("fe80" + "00" * 13 + "01")
GLOBAL = native(payload=b"twelve bytes", grh={"sgid": GID, "dgid": GID})
ROCE = roce2(payload=b"twelve bytes")

case("ROC004", flipped(ROCE, -6), flipped(ROCE, 14 + 8), file=ethernet_pcap, frames=[1])  # the twin: another TTL
case("ROC005", sealed(PLAIN[:-6] + bytes(6)), PLAIN)
case("ROC006", sealed(flipped(PLAIN, 21)), sealed(flipped(PLAIN, 0, 0x30)))  # the twin: another lane
case("ROC006", sealed(flipped(GLOBAL, -8)), sealed(flipped(GLOBAL, 15, 0x20)))  # the twin: another hop limit
case("ROC007", flipped(PLAIN, -1, 0xFF), PLAIN)
